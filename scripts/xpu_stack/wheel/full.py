"""The full build: everything is compiled from the wheel's tree."""

import sys
from pathlib import Path

from xpu_stack.build import build as building
from xpu_stack.build import cmake, compilers, ninja
from xpu_stack.build.configuration import Mode
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.console import say
from xpu_stack.wheel import setuppy
from xpu_stack.wheel.identity import Identity

Environment = dict[str, str]

# What setup.py says itself, or CMake finds out.
_NOT_TOLD = ("PYTHON_EXECUTABLE", "CMAKE_EXPORT_COMPILE_COMMANDS")


def prepare(work: Workspace, identity: Identity, source: Path) -> Environment:
    """Configures the tree; the environment in which it is built."""
    sycl = building.need(work, Mode.FULL)
    options = building.options_of(work, Mode.FULL, sycl) | {
        "BUILD_TEST": "OFF",
        # setup.py makes the extension modules itself
        "CMAKE_PROJECT_Torch_INCLUDE": str(building.CMAKE_MODULES / "full.cmake"),
    }
    told = {name: value for name, value in options.items() if name not in _NOT_TOLD}
    env = {
        **compilers.environment(work.layout.ccache, source.parent),
        **told,
        **setuppy.environment(work, identity),
    }
    command = [sys.executable, "setup.py", "build", "--cmake", "--cmake-only"]
    cmake.configure(source, source / "build", told, env, extra=sycl.version, command=command)
    say(f"SYCL runtime: {sycl.version} from {sycl.origin}")
    return env


def install(source: Path, env: Environment) -> str:
    """Builds all and installs it below torch/ in the tree; in words, what that took."""
    build = source / "build"
    log = build / "ccache.log"
    steps = ninja.build(
        build, ["install"], env | compilers.tallied(log), compilers.jobs(), keep_going=True
    )
    return ", ".join(filter(None, (f"{steps} step(s)", compilers.tally(log))))
