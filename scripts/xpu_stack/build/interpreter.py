"""Running Python on what was built: the verbs python and shell."""

import os
from itertools import chain
from pathlib import Path

from xpu_stack.build import build as building
from xpu_stack.build import installed_torch, packages, runtime
from xpu_stack.build.base_settings import Package
from xpu_stack.build.configuration import Build, Mode, Sanitizer, folder_of
from xpu_stack.core.lay import applying
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.shell import hand_over


def prepared(work: Workspace, stage: str, mode: Mode) -> Build:
    """The stage applied and built, with the Python package.

    If the checkout is at the stage already, edits in it are built too.
    """
    if stack.read(work.repository).stage != stage:
        applying.say_result(work, stage, applying.apply(work, stage))
    this = building.prepare(work, stage, mode)
    stamp = _stamp(this)
    stamp.unlink(missing_ok=True)
    building.build(this, work.series.changes(stage), python=True)
    stamp.write_text(_state(work))
    return this


def standing(work: Workspace, stage: str, mode: Mode) -> Build | None:
    """What `prepared` has made, if nothing has changed since. Nothing is written."""
    sycl, package = packages.installed_sycl(work.layout), Package.of(work.base)
    if sycl is None or stack.read(work.repository).stage != stage:
        return None
    torch = installed_torch.found(work.layout, package) if package else None
    this = Build(work, mode, Sanitizer.NONE, folder_of(work, mode), sycl, {}, torch)
    stamp = _stamp(this)
    return this if stamp.exists() and stamp.read_text() == _state(work) else None


def _stamp(this: Build) -> Path:
    return this.folder / "xpu-stack.python"


def _state(work: Workspace) -> str:
    """What the checkout holds: its commit, and which files differ from that since when."""
    lines = [work.repository.line("rev-parse", "HEAD")]
    for name in chain(*work.repository.uncommitted()):
        path = work.repository.folder / name
        lines.append(f"{name} {path.lstat().st_mtime_ns if os.path.lexists(path) else 'gone'}")
    return "\n".join(lines)


def python(this: Build, words: tuple[str, ...]) -> int:
    """Runs the build's Python; its exit code, or 128 and the signal's number."""
    return hand_over([str(this.python), *words], env=runtime.python_environment(this))


def shell(this: Build) -> int:
    """Runs the person's shell, in which `python` imports the package that was built."""
    command = [os.environ.get("SHELL") or "/bin/sh"]
    return hand_over(command, env=runtime.python_environment(this))
