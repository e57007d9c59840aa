"""The moves of a checkout, and what it was before each.

Note [The log of moves]
~~~~~~~~~~~~~~~~~~~~~~~
A move (apply, export, drop, undo and so on) is recorded as a commit. Its
message says what the checkout was before and after: HEAD, the commit, the
stack's branch, the changes that were dropped. Its tree has what was done to the
series' files with it, see Rewrite. Its parents are the commits that it speaks of,
so that git keeps them. Each stack has a log: a ref below refs/<name> is its newest
record, and the ref's reflog has the earlier ones, as refs/stash has its entries;
git expires them as it does any reflog. There is no file beside git.

The record becomes the ref's value in the same step in which the branch moves
(see Note [All or nothing]): a move that is over is in the log, and no other.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack.core.move import stack
from xpu_stack.core.move.switch import Switch
from xpu_stack.core.system import files, transaction
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import ZERO, CommitId, File, Repository, TreeId
from xpu_stack.core.system.layout import Layout, settings
from xpu_stack.core.system.objects import Blob


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

    @property
    def at(self) -> str:
        """What HEAD has: a branch's ref or a commit."""
        return f"refs/heads/{self.head}" if self.head else self.commit


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


@dataclass(frozen=True, kw_only=True)
class Move(Operation):
    """An entry of the log. edit: what was done to the series' files; when: seconds."""

    before: State
    after: State
    edit: TreeId | None
    when: int


@dataclass(frozen=True)
class Rewrite:
    """An edit of the series' files that goes with a move: what each was, and is to be.

    The log has it as a tree with the folders before/ and after/.
    """

    layout: Layout
    before: Mapping[Path, Content]
    after: Mapping[Path, Content]

    @classmethod
    def to(
        cls, layout: Layout, wanted: Mapping[Path, Content], repository: Repository
    ) -> "Rewrite":
        """What makes the files these, where they are not."""
        after = {path: one for path, one in wanted.items() if not files.is_as(path, one)}
        before = {path: files.current(path, repository) for path in after}
        return cls(layout, before, after)

    @property
    def undone(self) -> "Rewrite":
        return Rewrite(self.layout, self.after, self.before)

    def store(self, repository: Repository) -> TreeId:
        found: dict[str, File] = {}
        for side, contents in (("before", self.before), ("after", self.after)):
            for path, content in contents.items():
                if content is not None:
                    name = f"{side}/{path.relative_to(self.layout.repository).as_posix()}"
                    mode, there = content
                    blob = there.id if isinstance(there, Blob) else repository.store_bytes(there)
                    found[name] = File(mode, blob)
        return repository.with_files(repository.empty_tree(), found)

    @classmethod
    def load(cls, layout: Layout, repository: Repository, tree: TreeId) -> "Rewrite":
        sides: dict[str, dict[Path, Content]] = {"before": {}, "after": {}}
        for name, file in repository.files(tree).items():
            side, _, rest = name.partition("/")
            sides[side][layout.repository / rest] = file.mode, Blob(repository, file.blob)
        paths = sorted(sides["before"].keys() | sides["after"].keys())
        return cls(layout, *({path: sides[side].get(path) for path in paths} for side in sides))


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
    before, after = (
        State(**{**data[side], "dropped": tuple(data[side]["dropped"])})
        for side in ("before", "after")
    )
    edit = tree if repository.entries(tree) else None
    return Move(**told, before=before, after=after, edit=edit, when=when)


def history(repository: Repository) -> tuple[list[Move], list[Move]]:
    """What can be undone, and what can be redone, each in the order in which it would be.

    An undo takes operations off the first list and puts them on the second, a
    redo puts them back. Any other operation empties the second.
    """
    done: list[Move] = []
    undone: list[Move] = []
    for one in reversed(entries(repository)):
        source, target = (done, undone) if one.verb == "undo" else (undone, done)
        for _ in range(min(one.steps, len(source))):  # git may have let earlier entries expire
            target.append(source.pop())
        if not one.steps:
            done.append(one)
            undone.clear()
    return done[::-1], undone[::-1]


def dropped(repository: Repository) -> frozenset[str]:
    """The changes that the stack was told to do without, on the base it has."""
    newest = last(repository)
    if newest is None or not newest.after.dropped:
        return frozenset()
    # What another base has, this one need not have.
    same = stack.read(repository).base == stack.read(repository, newest.after.commit).base
    return frozenset(newest.after.dropped) if same else frozenset()


def left(repository: Repository) -> dict[str, stack.Applied] | None:
    """The commits that the last move left on the stack, by changes; None: the log is empty.

    A change of them that has no commit now was taken out; one that is not of them is
    not applied.
    """
    newest = last(repository)
    return stack.read(repository, newest.after.commit).by_change if newest else None


def move(
    repository: Repository,
    operation: Operation,
    after: State,
    edit: Rewrite | None = None,
    *,
    files: bool = True,
    log: str = "",
) -> None:
    """Moves the checkout, and edits the series; it is in the log when it is done, and not before.

    files: False leaves the work tree as it is. log: another than the one that is written.
    """
    before, log, series = current(repository), log or stack.log(repository), None
    spoken_of = [before.commit, before.tip, after.commit, after.tip]
    spoken_of += [operation.commit, operation.edits]
    parents = list(dict.fromkeys(commit for commit in spoken_of if commit))
    told = {**asdict(operation), "before": asdict(before), "after": asdict(after)}
    message = f"{operation}\n\n{json.dumps(told)}\n"
    tree = edit.store(repository) if edit else repository.empty_tree()
    record = repository.commit_tree(tree, parents, message)
    refs = [("HEAD", before.at, after.at)]
    if after.tip != before.tip:  # HEAD is put on a branch that is there
        tip = (_tip(repository), before.tip or ZERO, after.tip or ZERO)
        refs.insert(0 if after.tip else 1, tip)
    # last: the log has no move that was taken back
    refs.append((log, repository.commit_id(log) or ZERO, record))
    trees = [operation.edits, None]  # of the work tree, before and after
    if operation.verb == "undo":
        trees.reverse()
    here, there = trees if files else (after.commit, None)
    if edit and edit.after:
        series = transaction.staged(edit.layout, edit.after, repository.own_folder)
    moving = Switch(repository, refs, f"{settings().name}: {operation}", series)
    moving.to(after.commit, here=here, files=there)
