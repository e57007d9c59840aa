"""Running Python on what was built: the verbs python and shell."""

import os

from xpu_stack.build import build as building
from xpu_stack.build import runtime
from xpu_stack.build.configuration import Build, Mode
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
    building.build(this, work.series.changes(stage), python=True)
    return this


def python(this: Build, words: tuple[str, ...]) -> int:
    """Runs the build's Python; its exit code, or 128 and the signal's number."""
    return _run(this, [str(this.python), *words])


def shell(this: Build) -> int:
    """Runs the person's shell, in which `python` imports the package that was built."""
    return _run(this, [os.environ.get("SHELL") or "/bin/sh"])


def _run(this: Build, command: list[str]) -> int:
    """Runs a program on the person's own terminal."""
    return hand_over(command, env=runtime.python_environment(this))
