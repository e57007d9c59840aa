"""The moves of a checkout, and what it was before each.

Note [The log of moves]
~~~~~~~~~~~~~~~~~~~~~~~
A move (apply, export, drop, undo and so on) is recorded as a commit. Its
message says what the checkout was before and after: HEAD, the commit, the
stack's branch, the changes that were dropped. Its tree has what was done to the
series' files with it (rewrite.py). Its parents are the commits that it speaks of,
so that git keeps them. Each stack has a log: a ref below refs/<name> is its newest
record, and the ref's reflog has the earlier ones, as refs/stash has its entries;
git expires them as it does any reflog. There is no file beside git.

The record becomes the ref's value in the same step in which the branch moves
(see Note [All or nothing]): a move that is over is in the log, and no other.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from xpu_stack.core.move import stack
from xpu_stack.core.move.switch import RefUpdate, Switch
from xpu_stack.core.system.git import ZERO, CommitId, Identity, Repository, TreeId
from xpu_stack.core.system.settings import settings


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
class Operation:
    """What is done to a checkout, as the log has it.

    about: the change, say; steps: of undo and redo, how many operations;
    commit: the change that was dropped; edits: the work tree before it, or after an
    undo, as a commit above HEAD, where edits took part. git keeps both with the record.
    """

    verb: str
    about: str = ""
    steps: int = 0
    commit: CommitId | None = None
    edits: CommitId | None = None

    def __str__(self) -> str:
        return f"{self.verb} {self.about}".rstrip()


@dataclass(frozen=True)
class Move:
    """An entry of the log. edit: what was done to the series' files; when: seconds."""

    operation: Operation
    before: State
    after: State
    edit: TreeId | None = None
    when: int = 0

    @property
    def verb(self) -> str:
        return self.operation.verb


def _tip(repository: Repository) -> str:
    return f"refs/heads/{stack.branch(repository)}"


def current(repository: Repository) -> State:
    """What the checkout is now."""
    return State(
        repository.branch() or "",
        repository.head,
        repository.commit_id(_tip(repository)),
        tuple(sorted(dropped(repository))),
    )


def last(repository: Repository) -> Move | None:
    """The newest move; git lets the reflog expire, and the ref stays."""
    newest = repository.commit_id(stack.log(repository))
    if newest is None:
        return None
    commit = repository.commit(newest)
    return _move(repository, commit.tree, commit.message.partition("\n\n")[2])


def entries(repository: Repository) -> list[Move]:
    """The log, newest first."""
    words = ("log", "--format=tformat:%T%x00%gd%x00%b%x01", "--walk-reflogs", "--date=unix")
    told = repository.ask(*words, stack.log(repository), "--") or ""
    found = []
    for record in filter(str.strip, told.split("\x01")):
        tree, name, body = record.strip().split("\0")
        when = int(name.partition("@{")[2].rstrip("}"))
        found.append(_move(repository, TreeId(tree), body, when))
    newest = None if found else last(repository)
    return [newest] if newest else found


def _move(repository: Repository, tree: TreeId, body: str, when: int = 0) -> Move:
    data = json.loads(body)
    told = {key: data[key] for key in ("verb", "about", "steps", "commit", "edits") if key in data}
    edit = tree if repository.objects.folder(tree) else None
    return Move(Operation(**told), state(data["before"]), state(data["after"]), edit, when)


def history(repository: Repository) -> tuple[list[Move], list[Move]]:
    """What can be undone, and what can be redone, each in the order in which it would be.

    An undo takes operations off the first list and puts them on the second, a
    redo puts them back. Any other operation empties the second.
    """
    done: list[Move] = []
    undone: list[Move] = []
    for one in reversed(entries(repository)):
        if one.operation.steps:
            back = one.verb == "undo"
            for _ in range(one.operation.steps):
                source, target = (done, undone) if back else (undone, done)
                if source:  # git may have let earlier entries expire
                    target.append(source.pop())
        else:
            done.append(one)
            undone.clear()
    return done[::-1], undone[::-1]


def state(data: dict[str, Any]) -> State:
    """A state as a record has it."""
    return State(data["head"], data["commit"], data["tip"], tuple(data["dropped"]))


def dropped(repository: Repository) -> frozenset[str]:
    """The changes that the stack was told to do without, on the base it has."""
    newest = last(repository)
    if newest is None or not newest.after.dropped:
        return frozenset()
    # What another base has, this one need not have.
    same = stack.read(repository).base == stack.read(repository, newest.after.commit).base
    return frozenset(newest.after.dropped) if same else frozenset()


def applied(repository: Repository) -> frozenset[str] | None:
    """The changes that the last move left on the stack; None where the log is empty.

    One of them that has no commit now was taken out; one that is not of them is
    not applied.
    """
    return frozenset(left(repository)) if last(repository) else None


def left(repository: Repository) -> dict[str, stack.Applied]:
    """The commits that the last move left on the stack, by their changes."""
    newest = last(repository)
    return stack.read(repository, newest.after.commit).by_change if newest else {}


def move(
    repository: Repository,
    operation: Operation,
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
    record = _record(repository, Move(operation, before, after, edit))
    newest = repository.commit_id(stack.log(repository))
    refs = [RefUpdate(stack.log(repository), record, newest or ZERO)]
    if after.tip != before.tip:
        refs.insert(0, RefUpdate(_tip(repository), after.tip or ZERO, before.tip or ZERO))
    reason = f"{settings().name}: {operation}"
    trees = [operation.edits, None]  # of the work tree, before and after
    if operation.verb == "undo":
        trees.reverse()
    here, there = trees if files else (after.commit, None)
    Switch(repository).to(after.commit, after.head, refs, reason, here=here, files=there)


def length(repository: Repository) -> int:
    """How many moves the log has."""
    words = ("log", "--walk-reflogs", "--format=%H", stack.log(repository), "--")
    return len((repository.ask(*words) or "").split())


def put_back(repository: Repository, to: State, entries: int) -> None:
    """Takes a row of moves back as if it had not been: the log is as long as before."""
    if current(repository) != to:
        move(repository, Operation("return"), to)
    log, more = stack.log(repository), length(repository) - entries
    if more > 0 and entries:
        # the ref, and what each entry says it was before, follow
        words = ("reflog", "delete", "--updateref", "--rewrite")
        repository.run(*words, *[f"{log}@{{0}}"] * more)
    elif more > 0:
        repository.run("update-ref", "-d", log)


def _record(repository: Repository, made: Move) -> CommitId:
    before, after, operation = made.before, made.after, made.operation
    spoken_of = [before.commit, before.tip, after.commit, after.tip]
    spoken_of += [operation.commit, operation.edits]
    parents = list(dict.fromkeys(commit for commit in spoken_of if commit))
    told = {**asdict(operation), "before": asdict(before), "after": asdict(after)}
    message = f"{operation}\n\n{json.dumps(told)}\n"
    tree = made.edit or repository.empty_tree()
    return repository.commit_tree(tree, parents, message, Identity.tool())
