"""Remembers which files are tidy, so that clang-tidy does not read them again.

It takes seconds for a file, since it reads SYCL's and PyTorch's headers
with it. So a file that was tidy is known by the content of all that decides on
it: itself and what it includes, how it is compiled, the configuration, and the
release of clang-tidy. What it includes is what the compiler of the build says;
headers that only clang takes come with clang-tidy itself.
"""

import functools
import hashlib
import json
import shlex
from pathlib import Path

from xpu_stack.build import ninja


class Tidied:
    """The files of a build that were tidy: for each an empty file, named by its key."""

    def __init__(self, build: Path, settings: str, headers: list[Path]) -> None:
        """settings: the release of clang-tidy, its configuration and options.

        headers: those in which findings count.
        """
        self._build = build
        self._folder = build / "tidy"
        self._settings = settings
        self._headers = set(headers)
        self._commands: dict[Path, list[str]] = {}
        for one in json.loads((build / "compile_commands.json").read_text()):
            self._commands.setdefault(Path(one["file"]), []).append(one["command"])
        # the same headers for most files
        self._digest = functools.cache(_digest)

    def compiles(self, source: Path) -> bool:
        """Whether the build compiles this file: else clang-tidy cannot read it."""
        return source in self._commands

    def keys(self, sources: list[Path]) -> dict[Path, str]:
        """The key of each file; none of a file that was not compiled yet."""
        objects = {one: _object(one) for source in sources for one in self._commands[source]}
        listed = ninja.included(self._build, list(objects.values()))
        included = {one: listed[name] for one, name in objects.items() if name in listed}
        return {
            source: self._key(source, included)
            for source in sources
            if included.keys() >= set(self._commands[source])
        }

    def _key(self, source: Path, included: dict[str, list[str]]) -> str:
        words = [self._settings]
        for one in self._commands[source]:
            words.append(one)
            paths = sorted(self._build / name for name in included[one])
            words += [f"{path} {path in self._headers} {self._digest(path)}" for path in paths]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()

    def knows(self, key: str | None) -> bool:
        return key is not None and (self._folder / key).exists()

    def remember(self, key: str | None) -> None:
        if key is not None:
            self._folder.mkdir(exist_ok=True)
            (self._folder / key).touch()


def _object(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
