"""The stack in a checkout, read from its commits and from nothing else.

Note [Several stacks]
~~~~~~~~~~~~~~~~~~~~~
A repository may have several stacks, each on a branch of its own: `git switch`
goes from one to another, and a linked worktree has another than the main one.
What belongs to a stack is kept by its branch: the commits, and the log of moves,
which also makes a branch known as a stack's. What belongs to a worktree is in
its own git directory: the lock, a move or an edit under way, a conflict.
"""

import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from xpu_stack.core.series.change import Trailers, is_as_made, trailers
from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import MissingError, ToolError, UsageError
from xpu_stack.core.system.git import Commit, CommitId, Repository
from xpu_stack.core.system.layout import settings

_TO_SQUASH = ("fixup! ", "squash! ", "amend! ")
_DEEPEST = 1000  # commits below HEAD in which the series' commits are looked for

# the run's branch in each repository: another process may move HEAD meanwhile
_branches: WeakKeyDictionary[Repository, str] = WeakKeyDictionary()


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
    def by_change(self) -> dict[str, Applied]:
        return {one.trailers.change: one for one in self.applied}

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

    def newest(limit: int) -> list[tuple[Commit, Trailers | None]]:
        return [(one, trailers(one.message)) for one in repository.history(head, limit)]

    told = newest(_DEEPEST)
    near, more = told[: _DEEPEST // 2], told[_DEEPEST // 2 :]
    if more and not any(found for _, found in near):  # more of a person's own may be above it
        own = repository.ask("rev-list", "--count", head, "--not", f"{log(repository)}^@")
        told = newest(_DEEPEST + int(own or 0))
    while told and not told[-1][1]:
        told.pop()
    if told and not told[-1][0].parents:
        raise MissingError(
            "The history of the checkout ends within the stack.",
            why=f"{named(told[-1][0])} has no parent here, as in a clone made with --depth",
            next=commands.git(repository.folder, "fetch", "--unshallow"),
        )
    # up to a change's, or one that waits to be squashed into one
    ends = (found or one.message.startswith(_TO_SQUASH) for one, found in told)
    top = next((n for n, end in enumerate(ends) if end), 0)
    return Stack(
        base=told[-1][0].parents[0] if told else head,
        applied=tuple(Applied(one, found, is_as_made(one)) for one, found in told[::-1] if found),
        foreign=tuple(one for one, found in told[top:] if not found),
        above=tuple(one for one, _ in told[:top][::-1]),
    )


def log_of(branch: str) -> str:
    """The ref that is the log of moves of a stack."""
    name = settings().name
    return f"refs/{name}/moves" if branch == name else f"refs/{name}/stacks/{branch}"


def log(repository: Repository) -> str:
    """The log that moves are written to: while a search is under way, that of the search."""
    return search_log() if repository.commit_id(search_log()) else log_of(branch(repository))


def search_log() -> str:
    """The ref that is the log of the moves of a search in this worktree."""
    return f"refs/worktree/{settings().name}/search"


def branches(repository: Repository) -> list[str]:
    """The branches of the repository that carry stacks."""
    name, others = settings().name, log_of("")
    logs = repository.line("for-each-ref", "--format=%(refname)", log_of(name), others).split()
    known = [one.removeprefix(others) if one.startswith(others) else name for one in logs]
    return [one for one in known if repository.commit_id(f"refs/heads/{one}")]


def choose(repository: Repository, branch: str) -> None:
    """Has this run work on the stack of a branch that a person names."""
    if repository.ask("check-ref-format", "--branch", branch) != branch:
        raise UsageError(
            f"'{branch}' is not a valid name for a branch.",
            why="git check-ref-format refuses it",
            next=commands.make("apply", BRANCH="<name>"),
        )
    _branches[repository] = branch
    commands.works_in("BRANCH", branch, ("apply", "rebase"))


def branch(repository: Repository) -> str:
    """The branch of the stack that this run works on.

    HEAD's if it carries a stack; else one that no other worktree has checked out.
    """
    if repository in _branches:
        return _branches[repository]
    found, usual = repository.branch(), settings().name
    if not found or not (found == usual or repository.commit_id(log_of(found))):
        own = f"{usual}-{re.sub(r'[^0-9A-Za-z_-]+', '-', repository.folder.resolve().name)}"
        names = [own, usual] if repository.commit_id(log_of(own)) else [usual, own]
        found = next((one for one in names if not repository.has_elsewhere(one)), own)
    _branches[repository] = found
    return found


def refuse_unsafe(repository: Repository, *, edits: bool = False) -> None:
    """Refuses a checkout in which a move could lose a person's work. edits: they are wanted."""
    refuse_operation(repository)
    edited = [] if edits else repository.uncommitted(untracked=False)[0]
    if edited:
        raise ToolError(
            "The checkout has changes that are not committed.",
            why=f"{len(edited)} file(s), the first is {edited[0]}",
            next=commands.git(repository.folder, "stash"),
        )
    name, current = branch(repository), repository.branch()
    if current == name or not repository.commit_id(f"refs/heads/{name}"):
        return
    if elsewhere := repository.has_elsewhere(name):
        there = commands.make("apply", **{settings().source: str(elsewhere)})
        raise ToolError(
            f"The stack's branch '{name}' is checked out in another worktree.",
            why=f"it is {elsewhere}",
            next=f"{there} # or, for a stack of its own: "
            + commands.make("apply", BRANCH="<another name>"),
        )
    where = f"the branch '{current}'" if current else "no branch"
    raise ToolError(
        f"The checkout is not on the stack's branch '{name}'.",
        why=f"HEAD is on {where}, and '{name}' exists",
        next=f"{commands.git(repository.folder, 'switch', name)} # or, for a stack of its own: "
        + commands.make("apply", BRANCH="<another name>"),
    )


def refuse_others(repository: Repository, stack: Stack, advice: str) -> None:
    """Refuses a stack with commits between its own that are of no change."""
    if stack.foreign:
        raise ToolError(
            f"{len(stack.foreign)} commit(s) in the stack are of no change.",
            why=f"{named(stack.foreign[0])} has no {settings().trailer}-Change trailer",
            next=f"{commands.git(repository.folder, 'rebase', '-i', stack.base[:12])} # {advice}",
        )


def named(commit: Commit) -> str:
    return f"{commit.id[:12]} '{commit.message.splitlines()[0]}'"


def set_aside(repository: Repository, stack: Stack) -> str:
    """What keeps the commits above the stack on a branch, and takes them off it."""
    branch = commands.git(repository.folder, "branch", "mine")
    return f"{branch} && {commands.git(repository.folder, 'reset', '--keep', stack.tip[:12])}"


def refuse_foreign(repository: Repository, stack: Stack) -> None:
    """Refuses a stack with commits in it that the tool did not make."""
    refuse_others(repository, stack, "move them above the stack, where they are carried along")
    for one in stack.applied:
        if not one.as_made:
            raise ToolError(
                f"The commit of {one.trailers.change} was changed by hand.",
                why=f"{one.commit.id[:12]} is not as the tool made it, "
                "and applying would replace it",
                next=f"{commands.git(repository.folder, 'branch', '-m', 'mine')} && "
                + commands.git(repository.folder, "switch", "--detach", stack.base[:12]),
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
        if (repository.git_dir / name).exists():
            raise ToolError(
                f"A {words} is under way in the checkout.",
                why=f"{repository.git_dir / name} is there",
                next=f"{commands.git(repository.folder, words, '--continue')} # or --abort",
            )
