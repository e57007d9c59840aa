"""From what is installed below torch/ in a wheel's tree to the file."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.wheel import carry, finish, setuppy
from xpu_stack.wheel.identity import Identity


@dataclass(frozen=True)
class Order:
    """A wheel to be made: its tree is prepared, the checkout is free again."""

    work: Workspace
    identity: Identity
    folder: Path  # of all that is made for wheels in this mode
    source: Path  # the tree
    env: dict[str, str]
    started: float

    @property
    def is_full(self) -> bool:
        return self.identity.mode is Mode.FULL


def pack(order: Order) -> Path:
    raw = setuppy.bdist_wheel(order.source, order.env, emptied(order.folder / "raw"))
    base = BaseSettings.of(order.work.base)
    compiled_in = base.wheel.compiled_in
    if order.is_full:
        raw = carry.repair(raw, emptied(order.folder / "repaired"), order.env)
        compiled_in += base.full.compiled_in
    return finish.finish(raw, order.identity, emptied(order.folder / "finished"), compiled_in)


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
