"""Where things are: the repository, and the one folder for all that is made."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.core.system.commands import REPOSITORY
from xpu_stack.core.system.settings import settings


def _state_folder() -> Path:
    return Path(
        os.environ.get(settings().variable("HOME")) or REPOSITORY / settings().state
    ).absolute()


@dataclass(frozen=True)
class Layout:
    """The folders of one run. Nothing is created by asking for a path."""

    repository: Path
    state: Path

    @classmethod
    def current(cls) -> "Layout":
        return cls(REPOSITORY, _state_folder())

    @property
    def series_file(self) -> Path:
        return self.patches / "series.yaml"

    @property
    def patches(self) -> Path:
        return self.repository / "patches"

    @property
    def downloads(self) -> Path:
        return self.state / "downloads"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def ccache(self) -> Path:
        return self.state / "ccache"

    @property
    def python(self) -> Path:
        """The environment that the tool and what it builds run in."""
        return self.state / "env"

    def base_folder(self, base: str) -> Path:
        return self.patches / base

    def patch(self, base: str, change: str) -> Path:
        return self.base_folder(base) / f"{change}.patch"

    def variants(self, base: str) -> Path:
        """Payload files that the base has in place of the shared ones."""
        return self.base_folder(base) / "payload"

    def resolutions(self, base: str) -> Path:
        return self.base_folder(base) / "resolutions"

    def checkout(self, base: str) -> Path:
        """The checkout that the tool makes itself, when none is given."""
        return self.state / f"{settings().project.lower()}-{base}"

    def sycl(self, version: str) -> Path:
        return self.state / f"sycl-{version}"

    def for_checkout(self, checkout: Path) -> Path:
        """What is made from one checkout: its builds and its results."""
        key = hashlib.sha256(str(checkout.resolve()).encode()).hexdigest()[:8]
        return self.state / "work" / f"{checkout.resolve().name}-{key}"
