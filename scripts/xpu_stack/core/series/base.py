"""A base: the PyTorch release that a checkout starts from.

Everything that is true of one base only is in patches/<base>/.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system import commands
from xpu_stack.core.system.errors import ExitCode, ToolError
from xpu_stack.core.system.layout import Layout
from xpu_stack.core.system.yaml_file import Node


@dataclass(frozen=True)
class SourcePackage:
    """The distribution's source package of a release."""

    name: str
    tarball: str
    sha256: str
    suite: str | None = None  # of the distribution; None: the machine's own

    @classmethod
    def read(cls, node: Node) -> "SourcePackage":
        node.fields({"name", "tarball", "sha256"}, {"suite"})
        _check_sha256(node)
        return cls(
            node["name"].text(),
            node["tarball"].text(),
            node["sha256"].text(),
            node["suite"].text() if "suite" in node else None,
        )


@dataclass(frozen=True)
class GitTag:
    """The release in PyTorch's own repository."""

    url: str
    tag: str


@dataclass(frozen=True)
class Prebuilt:
    """The distribution's libraries of the same release."""

    apt: tuple[str, ...]
    soversion: str
    targets: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]  # folders whose sources are compiled as one
    alone: tuple[str, ...]  # sources there that are not

    @classmethod
    def read(cls, node: Node) -> "Prebuilt":
        node.fields({"apt", "soversion", "targets"}, {"units", "alone"})
        units = node["units"].items() if "units" in node else []
        return cls(
            tuple(node["apt"].texts()),
            node["soversion"].text(),
            tuple(node["targets"].texts()),
            tuple(tuple(unit.texts()) for unit in units),
            _texts(node, "alone"),
        )


@dataclass(frozen=True)
class Headers:
    """Headers that a source release on PyPI carries."""

    project: str
    file: str
    sha256: str
    folder: str  # in the release
    into: str  # in PyTorch's tree
    names: dict[str, str]  # of each file there, and in PyTorch's tree

    @property
    def first(self) -> str:
        """Where the first is in PyTorch's tree; if it is there, so are the others."""
        return f"{self.into}/{next(iter(self.names.values()))}"

    @classmethod
    def read(cls, node: Node) -> "Headers":
        node.fields({"project", "file", "sha256", "folder", "into", "names"})
        _check_sha256(node)
        return cls(
            project=node["project"].text(),
            file=node["file"].text(),
            sha256=node["sha256"].text(),
            folder=node["folder"].text(),
            into=node["into"].text(),
            names=node["names"].text_map(),
        )


@dataclass(frozen=True)
class Full:
    """What compiling everything needs beside what every mode needs."""

    apt: tuple[str, ...]
    cmake: dict[str, str]
    headers: Headers | None  # None: the source package has all
    compiled_in: tuple[str, ...]

    @classmethod
    def read(cls, node: Node) -> "Full":
        node.fields({"apt", "cmake"}, {"headers", "compiled_in"})
        headers = Headers.read(node["headers"]) if "headers" in node else None
        return cls(
            tuple(node["apt"].texts()),
            node["cmake"].text_map(),
            headers,
            _texts(node, "compiled_in"),
        )


def _texts(node: Node, key: str) -> tuple[str, ...]:
    """A list that may be left out."""
    return tuple(node[key].texts()) if key in node else ()


def _check_sha256(node: Node) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", node["sha256"].text()):
        raise node["sha256"].error("'sha256' must be 64 hexadecimal digits")


@dataclass(frozen=True)
class Base:
    """One base, as patches/<base>/base.yaml has it."""

    name: str
    version: str
    folder: Path
    source_package: SourcePackage
    git: GitTag
    apt: tuple[str, ...]
    cmake: dict[str, str]
    full: Full
    wheel_requires: tuple[str, ...]
    compiled_in: tuple[str, ...]  # packages whose headers become part of the libraries
    prebuilt: Prebuilt

    @classmethod
    def load(cls, layout: Layout, name: str) -> "Base":
        folder = layout.base_folder(name)
        known = sorted(path.parent.name for path in layout.patches.glob("*/base.yaml"))
        if name not in known:
            raise ToolError(
                f"There is no base '{name}'.",
                why=f"the bases there are: {', '.join(known)}",
                next=commands.make("apply", BASE=known[0])
                if known
                else f"write patches/{name}/base.yaml",
                code=ExitCode.USAGE,
            )
        node = Node.load(folder / "base.yaml", f"patches/{name}/base.yaml")
        plain = {"name", "version", "source_package", "git", "apt", "cmake"}
        node.fields({*plain, "full", "wheel", "prebuilt"})
        node["git"].fields({"url", "tag"})
        node["wheel"].fields({"requires"}, {"compiled_in"})
        git = node["git"]
        return cls(
            name=name,
            version=node["version"].text(),
            folder=folder,
            source_package=SourcePackage.read(node["source_package"]),
            git=GitTag(git["url"].text(), git["tag"].text()),
            apt=tuple(node["apt"].texts()),
            cmake=node["cmake"].text_map(),
            full=Full.read(node["full"]),
            wheel_requires=tuple(node["wheel"]["requires"].texts()),
            compiled_in=_texts(node["wheel"], "compiled_in"),
            prebuilt=Prebuilt.read(node["prebuilt"]),
        )

    @property
    def stand_ins(self) -> dict[str, Path]:
        """Files for the third-party folders that a source package leaves out."""
        root = self.folder / "stand-ins"
        return {
            path.relative_to(root).as_posix(): path
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
