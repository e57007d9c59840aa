"""A change of the series: its text, its new files, and its patch."""

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xpu_stack.core.series.change_text import ChangeText
from xpu_stack.core.system.errors import SeriesError

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
# Every line of a hunk begins with another character. No renames: both names are one.


_PATCH_PATH = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)
# What editors and languages leave in a folder is no payload.


def split_id(id_: str) -> tuple[str, str] | None:
    """Stage and name of a change's id, or None where it is none."""
    stage, slash, name = id_.partition("/")
    return (stage, name) if slash and NAME.match(stage) and NAME.match(name) else None


@dataclass(frozen=True)
class PayloadFile:
    """A new file: where it is kept, and its path in the project's tree."""

    source: Path
    kept_at: str  # <payload folder>/<stage>/<target>
    target: str

    @property
    def mode(self) -> int:
        if self.source.is_symlink():
            return 0o120000
        return 0o100755 if os.access(self.source, os.X_OK) else 0o100644

    @property
    def digest(self) -> bytes:
        sum = hashlib.sha256()
        if self.source.is_symlink():
            sum.update(self.content)
        else:
            with self.source.open("rb") as file:
                while piece := file.read(1 << 20):  # not at once: it may be large
                    sum.update(piece)
        return sum.digest()

    @property
    def content(self) -> bytes:
        """As git has it: of a link, what it points to."""
        if self.source.is_symlink():
            return os.fsencode(self.source.readlink())
        return self.source.read_bytes()


@dataclass(frozen=True)
class Change:
    """One commit, one pull request."""

    stage: str
    name: str
    number: int  # in its stage, from 1
    of: int  # how many changes the stage has
    text: ChangeText
    files: tuple[PayloadFile, ...]
    patch: Path | None
    place: str
    author: str | None = None  # name <address>; None: the series' author

    @property
    def id(self) -> str:
        return f"{self.stage}/{self.name}"

    @property
    def is_begun(self) -> bool:
        """Whether it has content; a new one has only a text."""
        return bool(self.files) or self.patch is not None

    def patched_paths(self) -> list[str]:
        """The files of the base, or of earlier changes, that the patch edits."""
        if self.patch is None:
            return []
        text = self.patch.read_text(encoding="utf-8", errors="surrogateescape")
        paths = sorted(set(_PATCH_PATH.findall(text)))
        for path in paths:
            if {"..", ".git", ""} & set(path.split("/")):
                raise SeriesError(self.place, f"{self.id}: its patch edits '{path}': no such place")
        return paths

    def touched_paths(self) -> list[str]:
        """The files that it edits, and those that it adds."""
        return self.patched_paths() + [file.target for file in self.files]

    @cached_property
    def source_digest(self) -> str:
        """A digest of all that the change is made from."""
        sum = hashlib.sha256(self.text.message.encode())
        sum.update(f"\0{self.number}/{self.of}\0".encode())
        for file in self.files:
            sum.update(f"{file.target}\0{file.mode:o}\0".encode())
            sum.update(file.digest)
        if self.patch is not None:
            sum.update(self.patch.read_bytes())
        return sum.hexdigest()


@dataclass(frozen=True)
class Stage:
    """A run of changes that leaves the tree building and its tests passing."""

    name: str
    summary: str
    changes: tuple[Change, ...]
