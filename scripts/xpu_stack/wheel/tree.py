"""The source tree that a wheel is made in.

PyTorch's setup.py writes into the tree that it stands in: libraries, headers
and generated files go below torch/, LICENSE is rewritten for a moment. A wheel
is therefore made in a work tree of its own, at the commit that the checkout is
at, and the checkout stays as it is. A file that is the same in the next commit
keeps its time there too, so that the next wheel compiles only what differs.
"""

from pathlib import Path

from xpu_stack.build import build as building
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.git import Repository

# What an earlier wheel has installed here.
_INSTALLED = ("torch/bin", "torch/include", "torch/lib", "torch/share")


def prepare(work: Workspace, mode: Mode) -> Path:
    checkout = work.repository
    folder = folder_of(work, mode) / "src"
    commit = checkout.line("rev-parse", "HEAD")
    if not (folder / ".git").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        checkout.run("worktree", "prune")
        checkout.run("worktree", "add", "--quiet", "--detach", "--", str(folder), commit)
    tree = Repository(folder)
    # a file that was touched, or written as it was, is not written again
    tree.run("update-index", "-q", "--refresh", check=False)
    # --force: a run that was cut off may have left LICENSE rewritten
    tree.run("checkout", "--quiet", "--force", "--detach", commit)
    _link_submodules(checkout.folder, tree)
    building.place_stand_ins(work, mode, tree)
    return folder


def folder_of(work: Workspace, mode: Mode) -> Path:
    """All that is made for the wheels of a checkout in this mode."""
    return work.layout.for_checkout(work.repository.folder) / f"wheel-{mode.value}"


def remove_installed(tree: Path) -> None:
    """Takes out what an earlier wheel has installed, which may be more than the next has."""
    Repository(tree).run("clean", "-xdfq", "--", *_INSTALLED)


def _link_submodules(checkout: Path, tree: Repository) -> None:
    """A work tree has the submodules' folders, but empty."""
    if not (tree.folder / ".gitmodules").exists():
        return
    asked = tree.ask("config", "--file", ".gitmodules", "--get-regexp", r"\.path$") or ""
    for line in asked.splitlines():
        name = line.split(" ", 1)[1]
        source, target = checkout / name, tree.folder / name
        if target.is_symlink() or not source.is_dir() or not any(source.iterdir()):
            continue
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
