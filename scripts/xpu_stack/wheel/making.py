"""Makes a wheel, from the checkout to the file."""

import time
import zipfile
from contextlib import ExitStack
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.build.build_time import minutes
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import lock
from xpu_stack.core.system.console import say
from xpu_stack.wheel import carry, fast, full, identity, packing, rehearsal, tree
from xpu_stack.wheel.packing import Order


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
    """Builds the wheel; a full build may take hours, and continues where it stopped."""
    compiled = ""
    if order.is_full:
        rehearsal.rehearse(order)
        compiled = full.install(order.source, order.env)
    made = packing.pack(order)
    target = wheels(order.work) / made.name
    target.parent.mkdir(parents=True, exist_ok=True)
    # The same wheel for another C library would make two of one version.
    for same in target.parent.glob(f"{'-'.join(target.name.split('-')[:3])}-*.whl"):
        same.unlink()
    made.replace(target)
    names = zipfile.ZipFile(target).namelist()
    carried = [name for name in names if name.startswith(f"{carry.CARRIED}/")]
    if order.is_full:
        say(compiled)
        say(f"included, because a plain distribution does not have them: {len(carried)} libraries")
    else:
        say("this wheel is for this machine: libtorch_cpu and what it needs are the distribution's")
    size = target.stat().st_size / 1e6
    say(f"{target} ({size:.0f} MB, in {minutes(time.monotonic() - order.started)})")
    return target


def wheels(work: Workspace) -> Path:
    return work.layout.state / "wheels"
