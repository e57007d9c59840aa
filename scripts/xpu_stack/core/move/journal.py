"""What the journal of a move says, see Note [All or nothing] (switch.py)."""

import json
from dataclasses import dataclass, replace
from typing import Any

from xpu_stack.core.system.transaction import Renamed


@dataclass(frozen=True)
class RefUpdate:
    """A ref's new value and its old one; ZERO: it is not there."""

    ref: str
    new: str
    old: str


@dataclass(frozen=True)
class Place:
    """Where a checkout is. head: the branch that HEAD is on; "": none."""

    commit: str
    head: str


@dataclass(frozen=True)
class Journal:
    """A move, as the journal has it."""

    old: Place
    new: Place
    reason: str
    refs: list[RefUpdate]
    files: list[Renamed]

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Journal":
        return cls(
            Place(**data["old"]),
            Place(**data["new"]),
            data["reason"],
            [RefUpdate(**ref) for ref in data["refs"]],
            [Renamed(**file) for file in data["files"]],
        )

    @property
    def text(self) -> str:
        refs, files = ([vars(one) for one in listed] for listed in (self.refs, self.files))
        told = {"old": vars(self.old), "new": vars(self.new), "reason": self.reason}
        return json.dumps({**told, "refs": refs, "files": files})

    def reversed(self) -> "Journal":
        refs = [RefUpdate(update.ref, update.old, update.new) for update in self.refs]
        return replace(self, old=self.new, new=self.old, refs=refs)
