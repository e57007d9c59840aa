"""Remembers which test programs passed, so that unchanged ones do not run again.

A program is identified by everything that its result depends on: itself, the
libraries of the build that it loads, and how it is run. Its JUnit file is kept,
to be counted again.
"""

import functools
import hashlib
import io
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from xpu_stack.build import cmake


class Passed:
    """Of one build: for each program that passed its JUnit file, named by the program's key."""

    def __init__(self, build: Path, settings: str) -> None:
        """settings: how programs are run, with what is not of the build."""
        self._folder = build / "passed"
        self._settings = settings
        self._programs: dict[str, Path] = {}  # by target
        self._libraries: dict[str, Path] = {}  # by name
        for target in cmake.targets(build):
            if target.artifact is None or not target.artifact.exists():
                continue
            if target.kind == "EXECUTABLE":
                self._programs[target.name] = target.artifact
            elif target.kind == "SHARED_LIBRARY":
                self._libraries[_plain(target.artifact.name)] = target.artifact
        # the same libraries for most programs
        self._read = functools.cache(_read)

    def recall(self, name: str, junit: Path) -> bool:
        """Whether the program passed as it is now; then its JUnit is written."""
        kept = self._kept(name)
        if not kept.exists():
            return False
        shutil.copyfile(kept, junit)
        return True

    def remember(self, name: str, junit: Path) -> None:
        """The program has passed, and this is its JUnit."""
        kept = self._kept(name)
        kept.parent.mkdir(exist_ok=True)
        draft = kept.with_suffix(".draft")
        shutil.copyfile(junit, draft)
        draft.replace(kept)

    def _kept(self, name: str) -> Path:
        digests = sorted(self._read(path)[0] for path in self._loaded(self._programs[name]))
        text = "\n".join([self._settings, name, *digests])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()}.xml"

    def _loaded(self, program: Path) -> set[Path]:
        """The program, and the libraries of the build that it loads."""
        found, waiting = {program}, [program]
        while waiting:
            needed = {self._libraries.get(name) for name in self._read(waiting.pop())[1]}
            new = {path for path in needed if path is not None} - found
            found |= new
            waiting += new
        return found


def _read(path: Path) -> tuple[str, frozenset[str]]:
    """The digest of a program or library, and the names of the libraries that it asks for."""
    content = path.read_bytes()
    dynamic = ELFFile(io.BytesIO(content)).get_section_by_name(".dynamic")
    tags: Iterable[Any] = ()  # pyelftools sets `needed` of a tag as it reads it
    if isinstance(dynamic, DynamicSection):
        tags = dynamic.iter_tags("DT_NEEDED")
    names = frozenset(_plain(tag.needed) for tag in tags)
    return hashlib.sha256(content).hexdigest(), names


def _plain(library: str) -> str:
    return library.partition(".so")[0]
