"""What building a base needs: the settings in its base.yaml that the core hands on."""

from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.series.base import Base, check_sha256, texts
from xpu_stack.core.system.yaml_file import Node


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
            texts(node, "alone"),
        )


@dataclass(frozen=True)
class Headers:
    """Headers that a source release on PyPI carries."""

    project: str
    file: str
    sha256: str
    folder: str  # in the release
    into: str  # in the project's tree
    names: dict[str, str]  # of each file there, and in the project's tree

    @property
    def first(self) -> str:
        """Where the first is in the project's tree; if it is there, so are the others."""
        return f"{self.into}/{next(iter(self.names.values()))}"

    @classmethod
    def read(cls, node: Node) -> "Headers":
        node.fields({"project", "file", "sha256", "folder", "into", "names"})
        check_sha256(node)
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
            texts(node, "compiled_in"),
        )


@dataclass(frozen=True)
class Package:
    """An installed package that the payload is compiled against, and what is made for it."""

    name: str
    lowest: str  # minor versions, from this to below the other
    below: str
    index: str  # has the package where those that pip is configured for do not
    install: tuple[str, ...]  # pins for an environment of the tool's own, the package first
    locked: Path  # those whose hashes are known, if there is such a file
    extension: str
    version: str  # of the extension
    summary: str
    urls: dict[str, str]  # label -> address
    entry_points: dict[str, dict[str, str]]  # group -> name -> object

    @property
    def pin(self) -> str:
        return self.install[0]

    @property
    def range(self) -> str:
        return f"{self.lowest} to below {self.below}"

    @classmethod
    def of(cls, base: Base) -> "Package | None":
        """None: the base is a source tree."""
        node = base.package
        if node is None:
            return None
        texts = {"name", "from", "below", "index", "extension", "version", "summary"}
        node.fields({*texts, "install", "urls", "entry_points"})
        points = node["entry_points"]
        return cls(
            name=node["name"].text(),
            lowest=node["from"].text(),
            below=node["below"].text(),
            index=node["index"].text(),
            install=tuple(node["install"].texts()),
            locked=base.file("requirements.txt"),
            extension=node["extension"].text(),
            version=node["version"].text(),
            summary=node["summary"].text(),
            urls=node["urls"].text_map(),
            entry_points={group: points[group].text_map() for group in points.value},
        )


@dataclass(frozen=True)
class BaseSettings:
    """What is installed, and how the base is configured and shipped."""

    apt: tuple[str, ...]
    cmake: dict[str, str]
    full: Full
    wheel_requires: tuple[str, ...]
    compiled_in: tuple[str, ...]  # packages whose headers become part of the libraries
    prebuilt: Prebuilt
    package: Package | None  # None: the base is a source tree

    @classmethod
    def of(cls, base: Base) -> "BaseSettings":
        wheel = base.settings["wheel"]
        wheel.fields({"requires"}, {"compiled_in"})
        return cls(
            apt=tuple(base.settings["apt"].texts()),
            cmake=base.settings["cmake"].text_map(),
            full=Full.read(base.settings["full"]),
            wheel_requires=tuple(wheel["requires"].texts()),
            compiled_in=texts(wheel, "compiled_in"),
            prebuilt=Prebuilt.read(base.settings["prebuilt"]),
            package=Package.of(base),
        )


def stand_ins(base: Base) -> dict[str, Path]:
    """Files for the third-party folders that a source package leaves out."""
    root = base.file("stand-ins")
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
