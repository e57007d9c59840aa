"""A repository's objects, read and written by git processes that stay.

A start of git takes longer than most of what it is asked. So one process for each
kind of question is kept as long as its repository is in use.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple, NewType

from xpu_stack.core.system.settings import settings
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
        """The new one."""
        return File(self.new_mode, self.new)


CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)


@dataclass(frozen=True)
class Identity:
    """An author or committer. when: seconds since the epoch, in UTC."""

    name: str
    email: str
    when: int

    @classmethod
    def of(cls, who: str, when: int) -> "Identity":
        """who: name <address>"""
        name, _, email = who.partition(" <")
        return cls(name, email.rstrip(">"), when)

    @classmethod
    def tool(cls, when: int = 0) -> "Identity":
        """The tool itself, at a fixed time: the same content gives the same commit."""
        return cls(settings().name, settings().email, when)

    @property
    def signature(self) -> str:
        """As a commit has it."""
        return f"{self.name} <{self.email}> {self.when} +0000"

    def environment(self, *roles: str) -> dict[str, str]:
        return {
            f"GIT_{role}_{key}": value
            for role in roles or ("AUTHOR", "COMMITTER")
            for key, value in (
                ("NAME", self.name),
                ("EMAIL", self.email),
                ("DATE", f"@{self.when} +0000"),
            )
        }


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
_NONE = File(0, BlobId(ZERO))


class Objects:
    """The objects of one repository. git: how it is called there; env: changes for it."""

    def __init__(self, git: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        def service(*words: str) -> Service:
            return Service([*git, *words], cwd, env)

        self._reader = service("cat-file", "--batch-command")
        # Trees, too: `git mktree` would open every object that a tree names.
        hash = ("hash-object", "-w", "--no-filters", "--stdin-paths", "-t")
        self._blobs, self._trees = service(*hash, "blob"), service(*hash, "tree")
        self._commits = service(*hash, "commit")
        self._differ = service("diff-tree", "--stdin", "-r", "-z", "--no-renames")
        # What an id names cannot change.
        self._folders: dict[str, Folder] = {}
        self._tree_ids: dict[str, str] = {}

    # -- reading --------------------------------------------------------------

    def id_of(self, name: str) -> str | None:
        """The id of the object that a name stands for."""
        answer = self._ask("info", name)
        return answer[0] if answer else None

    def tree_of(self, commit: str) -> str | None:
        """The tree of a commit, or of a tree."""
        if commit not in self._tree_ids:
            found = self.id_of(f"{commit}^{{tree}}")
            if found is None or not _ID.match(commit):  # another name may come to mean another
                return found
            self._tree_ids[commit] = found
        return self._tree_ids[commit]

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

    def folder(self, tree: str) -> Folder:
        """What is in a tree, by name."""
        if tree not in self._folders:
            content = self.content(tree, "tree")
            if content is None:
                raise LookupError(f"there is no tree {tree}")
            self._folders[tree] = dict(_entries(content, len(tree) // 2))
        return self._folders[tree]

    def files(self, tree: str, path: str) -> dict[str, File]:
        """The files at or below a path; all, of the path ""."""
        found = self.around(tree, path)
        return {name: file for name, file in found.items() if not path.startswith(f"{name}/")}

    def around(self, tree: str, path: str, below: str = "") -> dict[str, File]:
        """The files at or below a path, or the one that is where it needs a folder.

        below: what comes before their names.
        """
        name, _, rest = path.partition("/")
        folder = self.folder(tree)
        found: dict[str, File] = {}
        for one in [name] if path else folder:
            file = folder.get(one, _NONE)
            if file.mode == TREE:
                found |= self.around(file.blob, rest, f"{below}{one}/")
            elif file.mode:
                found[f"{below}{one}"] = file
        return found

    def diff(self, old: str, new: str) -> list[Entry]:
        """What differs between two trees, file by file, no renames."""
        # git echoes a line that is not an id, and no name begins with "/"
        self._differ.tell(f"{old} {new}\n/\n".encode())
        self._differ.line()  # the ids
        told = b"\0" + self._differ.line()
        while not told.endswith(b"\0/"):  # a name may have more than one line
            told += b"\n" + self._differ.line()
        fields = told.split(b"\0")[1:-1]
        found = []
        for about, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, new_mode, old_id, new_id, _ = about[1:].decode().split(" ")
            one, other = (int(old_mode, 8), BlobId(old_id)), (int(new_mode, 8), BlobId(new_id))
            found.append(Entry(os.fsdecode(path), *one, *other))
        return sorted(found, key=lambda entry: os.fsencode(entry.path))

    # -- writing --------------------------------------------------------------

    def store(self, files: Sequence[Path]) -> list[BlobId]:
        """Stores the contents of files as they are."""
        ids: dict[Path, BlobId] = {}
        for file in files:
            if file.stat().st_size >= LARGE:  # which git would compress before it looks
                id = id_of_file(file)
                ids.update({file: id} if self.id_of(id) else {})
        left = [file for file in files if file not in ids]
        for start in range(0, len(left), 12):  # paths of 4096 bytes at most: a pipe holds them
            some = left[start : start + 12]
            self._blobs.tell(b"".join(os.fsencode(file) + b"\n" for file in some))
            ids.update({file: BlobId(self._blobs.line().decode()) for file in some})
        return [ids[file] for file in files]

    def store_bytes(self, content: bytes) -> BlobId:
        return BlobId(self._stored(self._blobs, content))

    def store_commit(self, content: bytes) -> str:
        return self._stored(self._commits, content)

    def _stored(self, service: Service, content: bytes) -> str:
        file = self._draft
        file.seek(0)
        file.truncate()
        file.write(content)
        file.flush()
        return service.ask(b"/proc/%d/fd/%d\n" % (os.getpid(), file.fileno())).decode()

    @cached_property
    def _draft(self) -> IO[bytes]:
        return os.fdopen(os.memfd_create("draft"), "w+b")  # in memory: a disk takes its time

    def with_files(self, tree: str, files: Mapping[str, File]) -> str:
        return self._edited(tree, files) or self._made({})

    def _edited(self, tree: str | None, files: Mapping[str, File]) -> str | None:
        """None: nothing is left in it."""
        entries = dict(self.folder(tree)) if tree else {}
        below: dict[str, dict[str, File]] = {}
        for path, file in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = file
            elif file.mode:
                entries[name] = file
            elif entries.get(name, _NONE).mode != TREE:
                entries.pop(name, None)
        for name, inner in below.items():
            there = entries.get(name, _NONE)
            made = self._edited(there.blob if there.mode == TREE else None, inner)
            if made:
                entries[name] = File(TREE, BlobId(made))
            elif there.mode == TREE:
                del entries[name]
        return self._made(entries) if entries else None

    def _made(self, entries: Folder) -> str:
        # git sorts a folder as if its name ended with a slash
        named = {os.fsencode(name): file for name, file in entries.items()}
        order = sorted(named, key=lambda name: name + b"/" * (named[name].mode == TREE))
        content = [
            b"%o %s\0%s" % (named[name].mode, name, bytes.fromhex(named[name].blob))
            for name in order
        ]
        made = self._stored(self._trees, b"".join(content))
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


def _entries(content: bytes, size: int) -> Iterator[tuple[str, File]]:
    """The entries of a tree as it is stored: mode, name, and an id of `size` bytes."""
    for mode, name, id in re.findall(rb"([0-7]+) ([^\0]+)\0(.{%d})" % size, content, re.DOTALL):
        yield os.fsdecode(name), File(int(mode, 8), BlobId(id.hex()))
