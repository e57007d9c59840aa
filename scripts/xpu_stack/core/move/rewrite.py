"""Edits of the series that go with a move of the checkout: an export, and its undo.

Note [Series and checkout]
~~~~~~~~~~~~~~~~~~~~~~~~~~
The files of the series are written first, atomically; then the checkout moves,
atomically. Before both, .git/<name>/edit.json says what will be done. An
interrupted run leaves it there. The next run looks at the series: if its files
have the new content, the move is completed; otherwise nothing had happened.

What the files were, and what they are then, is a tree with the folders before/
and after/ in the checkout's object database. The log of moves keeps it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from xpu_stack.core.move import moves
from xpu_stack.core.move.moves import Operation, State
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import files, transaction
from xpu_stack.core.system.critical import CutOff
from xpu_stack.core.system.files import Content
from xpu_stack.core.system.git import File, Repository, TreeId
from xpu_stack.core.system.objects import Blob


@dataclass(frozen=True)
class Rewrite:
    """What each file of the series was, and what it is to be."""

    before: Mapping[Path, Content]
    after: Mapping[Path, Content]

    @classmethod
    def to(cls, after: Mapping[Path, Content], repository: Repository) -> "Rewrite":
        return cls({path: files.current(path, repository.objects) for path in after}, after)

    @property
    def undone(self) -> "Rewrite":
        return Rewrite(self.after, self.before)

    def differing(self) -> Path | None:
        """A file that is not as it is to be."""
        paths = (path for path, wanted in self.after.items() if not files.is_as(path, wanted))
        return next(paths, None)

    def store(self, work: Workspace) -> TreeId:
        repository, top = work.repository, work.layout.repository
        found: dict[str, File] = {}
        for side, contents in (("before", self.before), ("after", self.after)):
            for path, content in contents.items():
                if content is not None:
                    name = f"{side}/{path.relative_to(top).as_posix()}"
                    mode, there = content
                    blob = there.id if isinstance(there, Blob) else repository.store_bytes(there)
                    found[name] = File(mode, blob)
        return repository.with_files(repository.empty_tree(), found)

    @classmethod
    def load(cls, work: Workspace, tree: TreeId) -> "Rewrite":
        sides: dict[str, dict[Path, Content]] = {"before": {}, "after": {}}
        for name, file in work.repository.files(tree).items():
            side, _, rest = name.partition("/")
            content = file.mode, Blob(work.repository.objects, file.blob)
            sides[side][work.layout.repository / rest] = content
        paths = sorted(sides["before"].keys() | sides["after"].keys())
        return cls(*({path: sides[side].get(path) for path in paths} for side in sides))


@contextmanager
def made(
    work: Workspace, operation: Operation, edit: Rewrite, to: State | None
) -> Iterator[TreeId]:
    """Writes the files of the series; within, the checkout moves, `to` or by the series.

    A move that is refused has the files written back.
    """
    tree = edit.store(work)
    record = _record(work.repository)
    told = {
        "operation": asdict(operation),
        "edit": tree,
        "to": asdict(to) if to else None,
        "base": work.base.name,
    }
    files.write(record, json.dumps(told))
    try:
        transaction.write(work.layout, edit.after)
        transaction.fault("move")
        yield tree
    except CutOff:
        raise  # the next run finishes it, and needs the record
    except Exception:
        if edit.differing() is None:
            transaction.write(work.layout, edit.before)
        done(work.repository)
        raise
    done(work.repository)


def move(work: Workspace, operation: Operation, edit: Rewrite, to: State) -> None:
    """Writes the files of the series, and moves the checkout."""
    with made(work, operation, edit, to) as tree:
        moves.move(work.repository, operation, to, tree)


def cut_off(work: Workspace) -> tuple[Operation, TreeId, State | None, str] | None:
    """What a cut-off run has written, and had still to move: operation, edit, goal, base."""
    data = files.load(_record(work.repository))
    if data is None:
        return None
    kept = work.repository.ask("cat-file", "-e", data["edit"]) is not None
    last = moves.last(work.repository)
    moved = last is not None and last.edit == data["edit"]
    if moved or not kept or Rewrite.load(work, data["edit"]).differing() is not None:
        done(work.repository)
        return None
    to = moves.state(data["to"]) if data["to"] else None
    return Operation(**data["operation"]), data["edit"], to, data.get("base", work.base.name)


def done(repository: Repository) -> None:
    """Removes the record: the checkout has moved, or will not."""
    _record(repository).unlink(missing_ok=True)


def _record(repository: Repository) -> Path:
    return repository.own_folder / "edit.json"
