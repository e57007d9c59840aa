"""The base without the series, configured in the same way, as the distribution built it.

A separate checkout beside the patched one, which shares its objects.
"""

from xpu_stack.core.move.workspace import Checkout, Workspace
from xpu_stack.core.system import files, shell
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.git import CommitId, Repository


def workspace(work: Workspace, base: CommitId) -> Workspace:
    """A checkout of `base` with nothing applied, made if it does not exist."""
    folder = work.layout.state / "baseline" / base[:12]
    if not folder.exists():
        with progress(None, "checking out the base for comparison"), files.folder(folder) as draft:
            words = ("clone", "--quiet", "--shared", "--no-checkout", "--")
            shell.run(["git", *words, work.repository.folder, draft])
            Repository(draft).run("checkout", "--quiet", "--detach", base)
    checkout = Checkout(Repository(folder), "the checkout's own base", own=True)
    return Workspace(work.layout, work.base, work.series, checkout)
