"""Making a wheel, from the checkout to the file."""

import shutil
import time
from pathlib import Path

from xpu_stack import packages
from xpu_stack.applying import Workspace
from xpu_stack.build import Mode
from xpu_stack.console import say
from xpu_stack.wheel import carry, fast, finish, full, identity, setuppy, tree


def make(work: Workspace, stage: str, mode: Mode) -> Path:
    """The wheel of a checkout that is at `stage`."""
    packages.need_python("wheel")
    started = time.monotonic()
    this = identity.of(work, stage, mode)
    install = full.install if mode is Mode.FULL else fast.install
    source, env = install(work, this)
    folder = tree.folder_of(work, mode)
    raw = setuppy.bdist_wheel(source, env, _emptied(folder / "raw"))
    if mode is Mode.FULL:
        raw = carry.repair(raw, _emptied(folder / "repaired"), env)
    made = finish.finish(raw, this, _emptied(folder / "finished"))
    target = wheels(work) / made.name
    target.parent.mkdir(parents=True, exist_ok=True)
    made.replace(target)
    _say(target, this, time.monotonic() - started)
    return target


def wheels(work: Workspace) -> Path:
    """The folder of finished wheels."""
    return work.layout.state / "wheels"


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _say(wheel: Path, this: identity.Identity, seconds: float) -> None:
    if this.mode is Mode.FAST:
        say("this wheel is for this machine: libtorch_cpu and what it needs are the distribution's")
    size = wheel.stat().st_size / 1e6
    say(f"{wheel} ({size:.0f} MB, {seconds / 60:.0f} min)")
