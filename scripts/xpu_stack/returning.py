"""A search moves the checkout about; when it ends, however it ends, it is back."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xpu_stack import stack
from xpu_stack.console import progress
from xpu_stack.errors import ToolError
from xpu_stack.git import CommitId, Repository
from xpu_stack.switch import PREVIOUS, Switch


@contextmanager
def put_back(repository: Repository) -> Iterator[None]:
    """HEAD, its branch, the files and the tool's own refs are as before, afterwards.

    A kill that cannot be caught leaves the checkout whole, where the search was.
    """
    head, branch = repository.commit_id("HEAD"), repository.branch()
    assert head is not None
    kept = {ref: repository.commit_id(ref) for ref in (f"refs/heads/{stack.BRANCH}", PREVIOUS)}
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        # From here on a second Ctrl-C waits: going back takes a moment.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _go_back(repository, head, branch, kept)
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _go_back(
    repository: Repository,
    head: CommitId,
    branch: str | None,
    kept: dict[str, CommitId | None],
) -> None:
    if repository.commit_id("HEAD") != head:
        try:
            stack.refuse_unsafe(repository, stack.BRANCH)
        except ToolError as error:
            raise ToolError(
                "The checkout could not be put back where it was.",
                why=f"it was edited meanwhile: {error.why}",
                next=f"commit or stash that, then: git -C {repository.folder} "
                f"reset --keep {head[:12]}",
            ) from error
        with progress(None, "putting the checkout back"):
            Switch(repository).to(head, stack.BRANCH)
    # The files are those of `head` now; what is left are names.
    if branch is None:
        repository.run("update-ref", "--no-deref", "HEAD", head)
    elif repository.branch() != branch:
        repository.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    for ref, was in kept.items():
        if was is None:
            repository.run("update-ref", "-d", ref)
        elif repository.commit_id(ref) != was:
            repository.run("update-ref", ref, was)
