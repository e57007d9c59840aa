"""A configured PyTorch tree, to compare with another one."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BUILT = "build:"
# Where PyTorch generates code: in a build, and beside its sources.
_GENERATED = (
    f"{_BUILT}aten/src/ATen",
    f"{_BUILT}caffe2/core",
    f"{_BUILT}c10/macros",
    "torch/csrc/autograd/generated",
    "torch/csrc/lazy/generated",
)
_CODE = (".h", ".hpp", ".inl", ".tcc", ".cpp", ".cc", ".c")


@dataclass(frozen=True)
class Tree:
    """A checkout and a build of it. A file is named by its path in the checkout,
    or by `build:` and its path in the build."""

    source: Path
    build: Path
    command: str  # that compiles a file of the Python bindings

    def at(self, name: str) -> Path:
        if name.startswith(_BUILT):
            return self.build / name.removeprefix(_BUILT)
        return self.source / name

    def name_of(self, file: Path) -> str:
        if file.is_relative_to(self.source):
            return file.relative_to(self.source).as_posix()
        return f"{_BUILT}{file.relative_to(self.build).as_posix()}"

    def text(self, file: Path) -> str:
        """The content of a file, without the path of this tree."""
        text = file.read_text(errors="backslashreplace")
        return text.replace(str(self.build), "<build>").replace(str(self.source), "<source>")

    def generated(self) -> Iterator[str]:
        for folder in map(self.at, _GENERATED):
            for file in sorted(folder.rglob("*")):
                if file.name.endswith(_CODE) and "CMakeFiles" not in file.parts:
                    yield self.name_of(file)

    def generated_folders(self) -> list[Path]:
        """Those in the build: the others are among the sources."""
        return [self.at(name) for name in _GENERATED if name.startswith(_BUILT)]

    @property
    def macros(self) -> set[str]:
        words = shlex.split(self.command)
        return {re.split(r"[=(]", word[2:])[0] for word in words if word.startswith("-D")}


def is_header(name: str) -> bool:
    return name.endswith((".h", ".hpp", ".inl", ".tcc"))
