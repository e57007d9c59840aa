"""A repository's objects, read and written by git processes that stay.

A start of git takes longer than most of what it is asked. So one process for each
kind of question is kept as long as its repository is in use.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple, NewType

from xpu_stack.core.system.shell import CommandFailed, Service

BlobId = NewType("BlobId", str)
ZERO = "0" * 40
LARGE = 32 << 20  # bytes from which on git streams a file, and takes it as binary
TREE = 0o040000
GITLINK = 0o160000  # a submodule: git itself leaves its folder alone


class File(NamedTuple):
    """A file, a link or a submodule in a tree."""

    mode: int
    blob: BlobId


@dataclass(frozen=True)
class Entry:
    """What a diff between two trees says of one path; mode 0: not there."""

    path: str
    old_mode: int
    old: BlobId
    new_mode: int
    new: BlobId

    @property
    def file(self) -> File:
        return File(self.new_mode, self.new)


CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)


@dataclass(frozen=True)
class Commit:
    """A commit as it is stored."""

    id: CommitId
    tree: TreeId
    parents: tuple[CommitId, ...]
    when: int
    author: str  # name <address>
    message: str


_NAMES = ("utf-8", "surrogateescape")
_ID = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")
Folder = Mapping[str, File]  # what a tree has in it, by name
ABSENT = File(0, BlobId(ZERO))


class Objects:
    """The objects of one repository. git: how it is called there; env: changes for it."""

    def __init__(self, folder: Path, git: Sequence[str], env: Mapping[str, str]) -> None:
        def service(words: str) -> Service:
            return Service([*git, *words.split()], folder, env)

        self.folder = folder
        self._reader = service("cat-file --batch-command")
        # Trees, too: `git mktree` would open every object that a tree names.
        hash = "hash-object -w --no-filters --stdin-paths -t"
        self._writers = {kind: service(f"{hash} {kind}") for kind in ("blob", "tree", "commit")}
        self._differ = service("diff-tree --stdin -r -z --no-renames")
        # What an id names cannot change.
        self._folders: dict[str, Folder] = {}
        self._tree_ids: dict[str, TreeId] = {}

    # -- reading --------------------------------------------------------------

    def commit_id(self, name: str) -> CommitId | None:
        told = self._ask("info", f"{name}^{{commit}}")
        return CommitId(told[0]) if told else None

    def tree_of(self, commit: str) -> TreeId:
        """The tree of a commit, or of a tree."""
        if commit in self._tree_ids:
            return self._tree_ids[commit]
        told = self._ask("info", f"{commit}^{{tree}}")
        if told is None:
            raise LookupError(f"there is no tree of {commit}")
        if _ID.match(commit):  # another name may come to mean another
            self._tree_ids[commit] = TreeId(told[0])
        return TreeId(told[0])

    def content(self, name: str, kind: str) -> bytes | None:
        """The content of an object; None: there is none, or it is of another kind."""
        answer = self._ask("contents", name)
        if answer is None:
            return None
        content = self._reader.read(int(answer[2]) + 1)[:-1]
        return content if answer[1] == kind else None

    def write(self, blob: BlobId, file: IO[bytes]) -> None:
        """Writes the content of a file piece by piece."""
        told = self._ask("contents", blob)
        assert told is not None
        left = int(told[2])
        while left:
            left -= file.write(self._reader.read(min(left, 1 << 20)))
        self._reader.read(1)

    def _ask(self, command: str, name: str) -> list[str] | None:
        """Id, kind and size."""
        if "\n" in name:
            return None
        try:
            answer = self._reader.ask(f"{command} {name}\n".encode(*_NAMES)).decode(*_NAMES)
        except CommandFailed:  # no repository, or a name that git gives up at
            return None
        words = answer.split(" ")
        return words if len(words) == 3 and words[2].isdigit() else None

    def entries(self, tree: str) -> Folder:
        """What is in a tree, by name."""
        if tree not in self._folders:
            content = self.content(tree, "tree")
            if content is None:
                raise LookupError(f"there is no tree {tree}")
            # mode, name and id
            form = rb"([0-7]+) ([^\0]+)\0(.{%d})" % (len(tree) // 2)
            self._folders[tree] = {
                os.fsdecode(name): File(int(mode, 8), BlobId(id.hex()))
                for mode, name, id in re.findall(form, content, re.DOTALL)
            }
        return self._folders[tree]

    def blob_at(self, tree: str, path: str) -> bytes | None:
        file = self.files(tree, [path]).get(path)
        return None if file is None else self.content(file.blob, "blob")

    def files(self, tree: str, paths: Iterable[str] = ("",)) -> dict[str, File]:
        """The files of a tree by path: all, or those at or below `paths`."""
        top = self.tree_of(tree)
        return {
            name: file
            for path in paths
            for name, file in self.around(top, path).items()
            if not path.startswith(f"{name}/")
        }

    def around(self, tree: str, path: str, below: str = "") -> dict[str, File]:
        """The files at or below a path, or the one that is where it needs a folder.

        below: what comes before their names.
        """
        name, _, rest = path.partition("/")
        folder = self.entries(tree)
        found: dict[str, File] = {}
        for one in [name] if path else folder:
            file = folder.get(one, ABSENT)
            if file.mode == TREE:
                found |= self.around(file.blob, rest, f"{below}{one}/")
            elif file.mode:
                found[f"{below}{one}"] = file
        return found

    def diff(self, old: str, new: str) -> list[Entry]:
        """What differs between two commits or trees, file by file, no renames."""
        # git echoes a line that is not an id, and no name begins with "/"
        self._differ.tell(f"{self.tree_of(old)} {self.tree_of(new)}\n/\n".encode())
        self._differ.line()  # the ids
        told = b"\0" + self._differ.line()
        while not told.endswith(b"\0/"):  # a name may have more than one line
            told += b"\n" + self._differ.line()
        fields = told.split(b"\0")[1:-1]
        found = []
        for path, about in sorted(zip(fields[1::2], fields[::2], strict=True)):
            old_mode, new_mode, old, new, _ = about[1:].decode().split(" ")
            ids = int(old_mode, 8), BlobId(old), int(new_mode, 8), BlobId(new)
            found.append(Entry(os.fsdecode(path), *ids))
        return found

    # -- writing --------------------------------------------------------------

    def store(self, files: Mapping[str, Path]) -> dict[str, File]:
        """Stores files as they are: what git has of each, by the names given here."""
        ids: dict[str, BlobId] = {}
        for name, file in files.items():
            if file.is_symlink():  # git would follow it
                ids[name] = self.store_bytes(os.fsencode(file.readlink()))
            elif file.stat().st_size >= LARGE:  # which git would compress before it looks
                id = id_of_file(file)
                ids.update({name: id} if self._ask("info", id) else {})
        left, writer = [name for name in files if name not in ids], self._writers["blob"]
        for start in range(0, len(left), 12):  # paths of 4096 bytes at most: a pipe holds them
            some = left[start : start + 12]
            writer.tell(b"".join(os.fsencode(files[name]) + b"\n" for name in some))
            ids.update({name: BlobId(writer.line().decode()) for name in some})
        return {name: File(mode_of(file), ids[name]) for name, file in files.items()}

    def store_bytes(self, content: bytes) -> BlobId:
        return BlobId(self._stored("blob", content))

    def _stored(self, kind: str, content: bytes) -> str:
        file = self._draft
        file.seek(0)
        file.truncate()
        file.write(content)
        file.flush()
        path = b"/proc/%d/fd/%d\n" % (os.getpid(), file.fileno())
        return self._writers[kind].ask(path).decode()

    @cached_property
    def _draft(self) -> IO[bytes]:
        return os.fdopen(os.memfd_create("draft"), "w+b")  # in memory: a disk takes its time

    def empty_tree(self) -> TreeId:
        return self._made({})

    def with_files(self, tree: str, files: Mapping[str, File]) -> TreeId:
        """The tree with these files by path; one of mode 0 is taken out."""
        top = self.tree_of(tree)
        return self._made(self._edited(self.entries(top), files)) if files else top

    def _edited(self, folder: Folder, files: Mapping[str, File]) -> Folder:
        entries, below = dict(folder), dict[str, dict[str, File]]()
        for path, file in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = file
            elif file.mode or entries.get(name, ABSENT).mode != TREE:
                entries[name] = file
        for name, inner in below.items():
            there = entries.get(name, ABSENT)
            made = self._edited(self.entries(there.blob) if there.mode == TREE else {}, inner)
            if made:
                entries[name] = File(TREE, BlobId(self._made(made)))
            elif there.mode == TREE:
                entries[name] = ABSENT
        return {name: file for name, file in entries.items() if file.mode}

    def _made(self, entries: Folder) -> TreeId:
        # git sorts a folder as if its name ended with a slash
        stored = sorted(
            (os.fsencode(name) + b"/" * (file.mode == TREE), file) for name, file in entries.items()
        )
        content = (
            b"%o %s\0%s" % (file.mode, name.rstrip(b"/"), bytes.fromhex(file.blob))
            for name, file in stored
        )
        made = TreeId(self._stored("tree", b"".join(content)))
        self._folders[made] = entries
        return made


@dataclass(frozen=True)
class Blob:
    """The content of a file that git has, which is not read before it is needed."""

    objects: Objects = field(compare=False, repr=False)
    id: BlobId

    @property
    def content(self) -> bytes:
        found = self.objects.content(self.id, "blob")
        assert found is not None
        return found


def mode_of(path: Path) -> int:
    """The mode that git gives a file or a link."""
    if path.is_symlink():
        return 0o120000
    return 0o100755 if os.access(path, os.X_OK) else 0o100644


def id_of_file(file: Path, like: str = ZERO) -> BlobId:
    """git's id of what is in a file. like: another id of the repository."""
    kind = "sha1" if len(like) == len(ZERO) else "sha256"
    sum = hashlib.new(kind, b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as content:
        while piece := content.read(1 << 20):
            sum.update(piece)
    return BlobId(sum.hexdigest())
