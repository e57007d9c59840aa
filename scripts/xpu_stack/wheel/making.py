"""Making a wheel, from the checkout to the file."""

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from xpu_stack import lock, packages
from xpu_stack.applying import Workspace
from xpu_stack.build import Mode
from xpu_stack.console import say
from xpu_stack.pace import minutes
from xpu_stack.wheel import carry, fast, finish, full, identity, setuppy, tree
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


def prepare(work: Workspace, stage: str, mode: Mode, held: ExitStack) -> Order:
    """Takes what the wheel is made from out of a checkout that is at `stage`.

    held: keeps other runs from this mode's tree until it is closed.
    """
    packages.need_python("wheel")
    started = time.monotonic()
    folder = tree.folder_of(work, mode)
    held.enter_context(lock.held(folder / "lock", "wheel", str(folder)))
    this = identity.of(work, stage, mode)
    source = tree.prepare(work, mode)
    tree.remove_installed(source)
    of_mode = full.prepare if mode is Mode.FULL else fast.prepare
    return Order(work, this, folder, source, of_mode(work, this, source), started)


def make(order: Order) -> Path:
    """The wheel; a full build may take hours, and goes on where it stopped."""
    is_full = order.identity.mode is Mode.FULL
    if is_full:
        full.install(order.source, order.env)
    raw = setuppy.bdist_wheel(order.source, order.env, _emptied(order.folder / "raw"))
    if is_full:
        raw = carry.repair(raw, _emptied(order.folder / "repaired"), order.env)
    made = finish.finish(raw, order.identity, _emptied(order.folder / "finished"))
    target = wheels(order.work) / made.name
    target.parent.mkdir(parents=True, exist_ok=True)
    made.replace(target)
    _say(target, order)
    return target


def wheels(work: Workspace) -> Path:
    """The folder of finished wheels."""
    return work.layout.state / "wheels"


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _say(wheel: Path, order: Order) -> None:
    if order.identity.mode is Mode.FAST:
        say("this wheel is for this machine: libtorch_cpu and what it needs are the distribution's")
    size = wheel.stat().st_size / 1e6
    say(f"{wheel} ({size:.0f} MB, in {minutes(time.monotonic() - order.started)})")
