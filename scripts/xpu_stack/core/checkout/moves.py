"""The moves of a checkout, and what it was before each.

Note [The log of moves]
~~~~~~~~~~~~~~~~~~~~~~~
A move (apply, rebase, continue, export, undo) is recorded as a commit. Its
message says what the checkout was before and after: HEAD, the commit, the
stack's branch, the changes that were dropped. Its tree has what was done to the
series' files with it (edits.py). Its parents are the commits that it speaks of,
so that git keeps them. Each stack has a log: a ref below refs/<name> is its
newest record and the ref's reflog has the earlier ones, as refs/stash has its
entries; git expires them as it does any reflog. There is no file beside git.

The record becomes the ref's value in the same step in which the branch moves
(see Note [All or nothing]): a move that is over is in the log, and no other.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from xpu_stack.core.checkout import stack
from xpu_stack.core.checkout.switch import RefUpdate, Switch
from xpu_stack.core.system.git import ZERO, CommitId, Identity, Repository, TreeId
from xpu_stack.core.system.settings import settings

# The record of the same move is the same commit.


@dataclass(frozen=True)
class State:
    """What a checkout is.

    head: the branch that HEAD is on, "" for none; tip: the stack's branch,
    None where there is none; dropped: the changes done without.
    """

    head: str
    commit: CommitId
    tip: CommitId | None
    dropped: tuple[str, ...]

    @property
    def where(self) -> tuple[str, CommitId, CommitId | None]:
        """What git itself shows of it."""
        return self.head, self.commit, self.tip

    @classmethod
    def of_stack(cls, repository: Repository, tip: CommitId, dropped: frozenset[str]) -> "State":
        return cls(stack.branch(repository), tip, tip, tuple(sorted(dropped)))


@dataclass(frozen=True)
class Move:
    """An entry of the log."""

    verb: str
    before: State
    after: State


def log(repository: Repository) -> str:
    """The ref that is the log of the stack's moves."""
    return stack.log_of(stack.branch(repository))


def _tip(repository: Repository) -> str:
    return f"refs/heads/{stack.branch(repository)}"


def current(repository: Repository) -> State:
    """What the checkout is now."""
    head = repository.commit_id("HEAD")
    assert head is not None
    return State(
        repository.branch() or "",
        head,
        repository.commit_id(_tip(repository)),
        tuple(sorted(dropped(repository))),
    )


def entry(repository: Repository, number: int) -> Move | None:
    """The move `number` moves ago, from 0; None where the log does not reach."""
    newest = repository.commit_id(log(repository))  # git lets the reflog expire; the ref stays
    listed = _records(repository)[number : number + 1] if number else [*filter(None, [newest])]
    if not listed:
        return None
    data = json.loads(repository.commit(CommitId(listed[0])).message.partition("\n\n")[2])
    return Move(data["verb"], state(data["before"]), state(data["after"]))


def _records(repository: Repository) -> list[str]:
    return (
        repository.ask("log", "--walk-reflogs", "--format=%H", log(repository), "--") or ""
    ).split()


def state(data: dict[str, Any]) -> State:
    """A state as a record has it."""
    return State(data["head"], data["commit"], data["tip"], tuple(data["dropped"]))


def dropped(repository: Repository) -> frozenset[str]:
    """The changes that the stack was told to do without, on the base it has."""
    last = entry(repository, 0)
    if last is None or not last.after.dropped:
        return frozenset()
    # What another base has, this one need not have.
    same = stack.read(repository).base == stack.read(repository, last.after.commit).base
    return frozenset(last.after.dropped) if same else frozenset()


def applied(repository: Repository) -> frozenset[str] | None:
    """The changes that the last move left on the stack; None where the log is empty.

    One of them that has no commit now was taken out; one that is not of them is
    not applied.
    """
    last = entry(repository, 0)
    if last is None:
        return None
    left = stack.read(repository, last.after.commit).applied
    return frozenset(one.trailers.change for one in left)


def edit(repository: Repository, number: int) -> TreeId | None:
    """What the move `number` moves ago did to the series' files; None: nothing."""
    listed = _records(repository)
    tree = repository.tree_of(listed[number]) if number < len(listed) else None
    return None if tree == repository.empty_tree() else tree


def move(
    repository: Repository,
    verb: str,
    after: State,
    edit: TreeId | None = None,
    *,
    files: bool = True,
) -> None:
    """Moves the checkout; the move is in the log when it is done, and not before.

    edit: what was done to the series' files with it; files: False leaves the
    work tree as it is.
    """
    before = current(repository)
    record = _record(repository, Move(verb, before, after), edit)
    newest = repository.commit_id(log(repository))
    refs = [RefUpdate(log(repository), record, newest or ZERO)]
    if after.tip != before.tip:
        refs.insert(0, RefUpdate(_tip(repository), after.tip or ZERO, before.tip or ZERO))
    reason = f"{settings().name}: {verb}"
    Switch(repository).to(after.commit, after.head, refs, reason, files=files)


def length(repository: Repository) -> int:
    """How many moves the log has."""
    return len(_records(repository))


def put_back(repository: Repository, to: State, length: int) -> None:
    """Takes a row of moves back as if it had not been: the log is as long as before."""
    if current(repository) != to:
        move(repository, "return", to)
    for _ in range(len(_records(repository)) - length):
        if length:
            # the ref, and what each entry says it was before, follow
            words = ("reflog", "delete", "--updateref", "--rewrite", f"{log(repository)}@{{0}}")
            repository.run(*words)
        else:
            repository.run("update-ref", "-d", log(repository))
            return


def _record(repository: Repository, made: Move, edit: TreeId | None) -> CommitId:
    tree = edit or repository.empty_tree()
    spoken_of = [made.before.commit, made.before.tip, made.after.commit, made.after.tip]
    parents = list(dict.fromkeys(commit for commit in spoken_of if commit))
    message = f"{made.verb}\n\n{json.dumps(asdict(made))}\n"
    recorder = Identity(settings().name, settings().email, 0)
    return repository.commit_tree(tree, parents, message, recorder)
