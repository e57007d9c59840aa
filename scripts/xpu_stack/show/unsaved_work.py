"""Finds a person's work below the tool's own folder, so that it is not deleted."""

from collections.abc import Iterator

from xpu_stack.core.move import stack
from xpu_stack.core.resolve import conflicts
from xpu_stack.core.series.change import is_as_made
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import CommitId, Repository
from xpu_stack.core.system.layout import Layout, settings


def refuse_conflicts(layout: Layout) -> None:
    """Refuses while a conflict is being resolved there."""
    for worktree in sorted((layout.state / "work").glob("*/conflict")):
        conflict = Repository(worktree)
        for folder in conflict.worktrees() if conflict.is_repository() else ():
            checkout = Repository(folder)
            waiting = conflicts.pending(checkout) if folder.is_dir() else None
            if waiting and waiting.worktree == worktree:
                if folder.parent != layout.state:
                    commands.works_in(settings().source, str(folder), ["continue", "abort"])
                conflicts.refuse_pending(checkout)


def refuse_checkouts(layout: Layout) -> None:
    """Refuses when a checkout of the tool's own has anything in it that the tool did not make."""
    for folder in sorted(layout.state.glob(f"{settings().project.lower()}-*/")):
        repository = Repository(folder)
        for why, next in _work(repository) if (folder / ".git").exists() else ():
            raise ToolError(
                f"{repository.folder} has work of yours in it, and nothing was deleted.",
                why=why,
                next=f"{commands.git(folder)} {next} # then remove it there, "
                "and run the same command again",
            )


def _work(repository: Repository) -> Iterator[tuple[str, str]]:
    """What there is of a person's, and the command of git that shows or keeps it."""
    _, untracked = repository.uncommitted()
    if untracked:
        files = f"{len(untracked)} file(s) are not tracked, the first is {untracked[0]}"
        yield files, "clean -nd # shows them"
    if repository.commit_id("refs/stash"):
        yield "it has a stash", "stash show -p > my.patch"
    if len(repository.worktrees()) > 1:
        yield "other work trees belong to it", "worktree list"
    stack.refuse_unsafe(repository)
    # The release is a commit without parents; what is above it is the tool's, or a person's.
    words = ("--branches", "--tags", "HEAD", "--min-parents=1", "--format=%H")
    for commit in map(CommitId, repository.line("log", *words).split()):
        found = repository.commit(commit)
        if not is_as_made(found):
            why = f"{stack.named(found)} is not as the tool made it, or not the tool's"
            yield why, "bundle create ~/mine.bundle --branches --tags"
