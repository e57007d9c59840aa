"""What differs between projects, patches/stack.yaml, and where things are."""

import functools
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system.commands import REPOSITORY
from xpu_stack.core.system.yaml_file import Node

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # surrogates: not UTF-8


@dataclass(frozen=True)
class Settings:
    """The fields of the file, which says what each is for."""

    name: str
    project: str
    marker: str
    source: str
    state: str
    trailer: str
    base: tuple[str, ...]
    payload: dict[str, tuple[str, ...]]

    @property
    def person(self) -> str:
        """The author of commits that are the tool's own, such as a base that it imports."""
        return f"{self.name} <{self.name}@invalid>"

    def variable(self, of: str) -> str:
        """A variable of the environment that is the tool's own."""
        return f"{self.name.upper().replace('-', '_')}_{of}"

    def home(self, target: str) -> str:
        """The payload folder for a new file at `target` in the project's tree."""
        top = target.partition("/")[0]
        found = (folder for folder, takes in self.payload.items() if top in takes)
        return next(found, list(self.payload)[-1])


@functools.cache
def settings() -> Settings:
    return Node.load(REPOSITORY / "patches" / "stack.yaml", "patches/stack.yaml").into(Settings)


class Layout:
    """The folders of one run. Nothing is created by asking for a path."""

    def __init__(self, repository: Path, state: Path) -> None:
        self.repository, self.state = repository, state
        self.patches = repository / "patches"
        self.series_file = self.patches / "series.yaml"
        self.downloads = state / "downloads"
        self.logs = state / "logs"
        self.ccache = state / "ccache"
        self.python = state / "env"  # the environment that the tool and what it builds run in

    @classmethod
    def current(cls) -> "Layout":
        given = os.environ.get(settings().variable("HOME"))
        return cls(REPOSITORY, Path(given or REPOSITORY / settings().state).absolute())

    def patch(self, base: str, change: str) -> Path:
        return self.patches / base / f"{change}.patch"

    def variants(self, base: str) -> Path:
        """Payload files that the base has in place of the shared ones."""
        return self.patches / base / "payload"

    def resolutions(self, base: str) -> Path:
        return self.patches / base / "resolutions"

    def checkout(self, base: str) -> Path:
        """The checkout that the tool makes itself, when none is given."""
        return self.state / f"{settings().project.lower()}-{base}"

    def for_checkout(self, checkout: Path) -> Path:
        """What is made from one checkout: its builds and its results."""
        key = hashlib.sha256(str(checkout.resolve()).encode()).hexdigest()[:8]
        return self.state / "work" / f"{checkout.resolve().name}-{key}"
