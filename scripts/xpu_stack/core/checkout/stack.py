"""The stack in a checkout, read from its commits and from nothing else."""

from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.series.change_text import Trailers, is_as_made, trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ToolError
from xpu_stack.core.system.git import Commit, CommitId, Repository

BRANCH = "xpu-stack"
_TO_SQUASH = ("fixup! ", "squash! ", "amend! ")
_DEEPEST = 1000  # commits below HEAD in which the series' commits are looked for


@dataclass(frozen=True)
class Applied:
    """A commit of the series in a checkout."""

    commit: Commit
    trailers: Trailers
    as_made: bool  # False: a person has changed it


@dataclass(frozen=True)
class Stack:
    """What a checkout holds: a base, and the series' commits on it, oldest first."""

    base: CommitId
    applied: tuple[Applied, ...]
    foreign: tuple[Commit, ...]  # other commits, between the series'
    above: tuple[Commit, ...] = ()  # the person's own on top of them, oldest first

    @property
    def tip(self) -> CommitId:
        return self.applied[-1].commit.id if self.applied else self.base

    @property
    def stage(self) -> str | None:
        return self.applied[-1].trailers.stage if self.applied else None


def read(repository: Repository, at: str = "HEAD") -> Stack:
    """Reads the stack that HEAD, or another commit, is on."""
    head = repository.commit_id(at)
    if head is None:
        raise ToolError(
            f"{repository.folder} has no commit.",
            why="a stack needs a base commit to stand on",
            next=f"{commands.git(repository.folder, 'add', '-A')} && "
            + commands.git(repository.folder, "commit", "-m", "base"),
        )
    history = repository.history(head, _DEEPEST)
    lowest = max((n for n, commit in enumerate(history) if trailers(commit.message)), default=-1)
    ours = history[: lowest + 1]
    top = next((n for n, commit in enumerate(ours) if _is_for_a_change(commit)), 0)
    foreign = tuple(commit for commit in ours[top:] if not trailers(commit.message))
    applied = tuple(
        Applied(commit, found, is_as_made(commit))
        for commit in reversed(ours)
        if (found := trailers(commit.message))
    )
    base = ours[-1].parents[0] if ours else head
    return Stack(base, applied, foreign, tuple(reversed(ours[:top])))


def _is_for_a_change(commit: Commit) -> bool:
    """Whether it is a change's, or waits to be squashed into one."""
    return bool(trailers(commit.message)) or commit.message.startswith(_TO_SQUASH)


def refuse_unsafe(repository: Repository, branch: str, *, edits: bool = False) -> None:
    """Refuses a checkout in which a move could lose a person's work. edits: they are wanted."""
    refuse_operation(repository)
    if not edits:
        _refuse_dirty(repository)
    current = repository.branch()
    if current != branch and repository.commit_id(f"refs/heads/{branch}"):
        where = f"the branch '{current}'" if current else "no branch"
        raise ToolError(
            f"The checkout is not on the stack's branch '{branch}'.",
            why=f"HEAD is on {where}, and '{branch}' exists",
            next=commands.git(repository.folder, "switch", branch),
        )


def refuse_others(stack: Stack, next: str) -> None:
    """Refuses a stack with commits between its own that are of no change."""
    if stack.foreign:
        one = stack.foreign[0]
        raise ToolError(
            f"{len(stack.foreign)} commit(s) in the stack are of no change.",
            why=f"{named(one)} has no XPU-Change trailer",
            next=next,
        )


def named(commit: Commit) -> str:
    return f"{commit.id[:12]} '{commit.message.splitlines()[0]}'"


def set_aside(repository: Repository, stack: Stack) -> str:
    """What keeps the commits above the stack on a branch, and takes them off it."""
    branch = commands.git(repository.folder, "branch", "mine")
    return f"{branch} && {commands.git(repository.folder, 'reset', '--keep', stack.tip[:12])}"


def refuse_foreign(repository: Repository, stack: Stack) -> None:
    """Refuses a stack with commits in it that the tool did not make."""
    refuse_others(
        stack,
        next=f"{commands.git(repository.folder, 'rebase', '-i', stack.base[:12])} "
        "# move them above the stack, where they are carried along",
    )
    changed = [applied for applied in stack.applied if not applied.as_made]
    if changed:
        one = changed[0].commit
        raise ToolError(
            f"The commit of {changed[0].trailers.change} was changed by hand.",
            why=f"{one.id[:12]} is not as the tool made it, and applying would replace it",
            next=f"{commands.git(repository.folder, 'branch', '-m', 'mine')} && "
            + commands.git(repository.folder, "switch", "--detach", stack.base[:12]),
        )


def _refuse_dirty(repository: Repository) -> None:
    listed = repository.run(
        "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"
    ).text
    if listed:
        first = listed.splitlines()[0][3:]
        raise ToolError(
            "The checkout has changes that are not committed.",
            why=f"{len(listed.splitlines())} file(s), the first is {first}",
            next=commands.git(repository.folder, "stash"),
        )


def refuse_operation(repository: Repository) -> None:
    """Refuses a checkout in which git itself has stopped in the middle of something."""
    for name, words in (
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
    ):
        if Path(repository.git_path(name)).exists():
            raise ToolError(
                f"A {words} is under way in the checkout.",
                why=f"{repository.git_path(name)} is there",
                next=f"{commands.git(repository.folder, words, '--continue')} # or --abort",
            )
