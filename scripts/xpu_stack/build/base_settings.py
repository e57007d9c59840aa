"""What building a base needs: the settings in its base.yaml that the core hands on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from xpu_stack.core.series.base import Base, check_sha256


@dataclass(frozen=True)
class Prebuilt:
    """The distribution's libraries of the same release."""

    apt: tuple[str, ...]
    soversion: str
    targets: tuple[str, ...]
    hidden: tuple[str, ...] = ()  # sources of the bindings that are compiled all the same
    alone: tuple[str, ...] = ()  # sources of the series that are not compiled in a unit


@dataclass(frozen=True)
class Headers:
    """Headers that a source release on PyPI carries."""

    project: str
    file: str
    sha256: str
    folder: str  # in the release
    into: str  # in the project's tree
    names: dict[str, str]  # of each file there, and in the project's tree


@dataclass(frozen=True)
class Full:
    """What compiling everything needs beside what every mode needs."""

    apt: tuple[str, ...]
    cmake: dict[str, str]
    headers: Headers | None = None  # None: the source package has all
    compiled_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheel:
    requires: tuple[str, ...]
    compiled_in: tuple[str, ...] = ()  # packages whose headers become part of the libraries


@dataclass(frozen=True)
class Package:
    """An installed package that the payload is compiled against, and what is made for it."""

    name: str
    from_: str  # minor versions, from this to below the other
    below: str
    index: str  # has the package where those that pip is configured for do not
    install: tuple[str, ...]  # pins for an environment of the tool's own, the package first
    locked: Path  # those whose hashes are known, if there is such a file
    extension: str
    version: str  # of the extension
    summary: str
    urls: dict[str, str]  # label -> address
    entry_points: dict[str, dict[str, str]]  # group -> name -> object
    # name -> minor version of the package -> requirements, with spaces between them
    extras: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def pin(self) -> str:
        return self.install[0]

    @classmethod
    def of(cls, base: Base) -> "Package":
        """That of a base that is one."""
        assert base.package is not None
        return base.package.into(cls, locked=base.file("requirements.txt"))


@dataclass(frozen=True)
class BaseSettings:
    """What is installed, and how the base is configured and shipped."""

    apt: tuple[str, ...]
    cmake: dict[str, str]
    full: Full
    wheel: Wheel
    prebuilt: Prebuilt

    @classmethod
    def of(cls, base: Base) -> "BaseSettings":
        given = base.settings
        if "headers" in given["full"]:
            check_sha256(given["full"]["headers"])
        kinds: dict[str, Any] = get_type_hints(cls)
        return cls(**{name: node.into(kinds[name]) for name, node in given.items()})
