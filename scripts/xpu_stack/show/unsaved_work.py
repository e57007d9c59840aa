"""Finds a person's work below the tool's own folder, so that it is not deleted."""

from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.change import is_as_made
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.settings import settings


def refuse_conflicts(layout: Layout) -> None:
    """Refuses while a conflict is being resolved there."""
    for worktree in sorted((layout.state / "work").glob("*/conflict")):
        checkout = _checkout_of(worktree)
        if checkout is not None:
            if checkout.folder.parent != layout.state:
                verbs = ["continue", "abort"]
                commands.works_in(settings().source, str(checkout.folder), verbs)
            conflicts.refuse_pending(checkout)


def _checkout_of(worktree: Path) -> Repository | None:
    """The checkout whose conflict waits in `worktree`; None: it waits no more."""
    if not Repository(worktree).is_repository():
        return None
    for folder in Repository(worktree).worktrees():
        checkout = Repository(folder)
        waiting = conflicts.pending(checkout) if folder.is_dir() else None
        if waiting and waiting.worktree == worktree:
            return checkout
    return None


def refuse_checkouts(layout: Layout) -> None:
    """Refuses when a checkout of the tool's own has anything in it that the tool did not make."""
    for folder in sorted(layout.state.glob(f"{settings().project.lower()}-*/")):
        if (folder / ".git").exists():
            _refuse(Repository(folder))


def _refuse(repository: Repository) -> None:
    git = commands.git(repository.folder)
    _, untracked = repository.uncommitted()
    if untracked:
        raise _found(
            repository,
            f"{len(untracked)} file(s) are not tracked, the first is {untracked[0]}",
            f"{git} clean -nd # shows them",
        )
    if repository.commit_id("refs/stash"):
        raise _found(repository, "it has a stash", f"{git} stash show -p > my.patch")
    listed = repository.run("worktree", "list", "--porcelain").text.splitlines()
    if sum(line.startswith("worktree ") for line in listed) > 1:
        raise _found(repository, "other work trees belong to it", f"{git} worktree list")
    stack.refuse_unsafe(repository)
    _refuse_commits(repository, git)


def _refuse_commits(repository: Repository, git: str) -> None:
    """The release is a commit without parents; what is above it is the tool's, or a person's."""
    words = ("--branches", "--tags", "HEAD", "--min-parents=1", "--format=%H")
    for commit in repository.line("log", *words).split():
        (found,) = repository.history(CommitId(commit), 1)
        if not is_as_made(found):
            title = found.message.splitlines()[0]
            raise _found(
                repository,
                f"{commit[:12]} '{title}' is not as the tool made it, or not the tool's",
                f"{git} bundle create ~/mine.bundle --branches --tags",
            )


def _found(repository: Repository, why: str, next: str) -> ToolError:
    return ToolError(
        f"{repository.folder} has work of yours in it, and nothing was deleted.",
        why=why,
        next=f"{next} # then remove it there, and run the same command again",
    )
