"""What differs between projects: patches/stack.yaml."""

import functools
from dataclasses import dataclass

from xpu_stack.core.system.commands import REPOSITORY
from xpu_stack.core.system.yaml_file import Node


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
    def email(self) -> str:
        """Of commits that are the tool's own, such as a base that it imports."""
        return f"{self.name}@invalid"

    def variable(self, of: str) -> str:
        """A variable of the environment that is the tool's own."""
        return f"{self.name.upper().replace('-', '_')}_{of}"

    def home(self, target: str) -> str:
        """The payload folder for a new file at `target` in the project's tree."""
        top = target.partition("/")[0]
        found = [folder for folder, takes in self.payload.items() if top in takes]
        return found[0] if found else list(self.payload)[-1]


@functools.cache
def settings() -> Settings:
    return Node.load(REPOSITORY / "patches" / "stack.yaml", "patches/stack.yaml").into(Settings)
