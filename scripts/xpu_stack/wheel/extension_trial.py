"""`make test-extension`: installs torch and the extension as a user would, and tests them.

In an empty environment outside the repository, with no LD_LIBRARY_PATH. Then torch
must find the device, and leave the extension out where it is told to; and the
stages' Python tests and the examples run on what is installed.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from xpu_stack.build import installed_torch, packages
from xpu_stack.build.base_settings import Package
from xpu_stack.build.installed_torch import Torch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import MissingError
from xpu_stack.wheel import carry, examples, extension
from xpu_stack.wheel.environment import Environment, refuse_wrong, run_tests

_CPU = {"TORCH_XPU_MAPPING": "CPU"}
_FIRST = (
    "import torch; "
    "print(torch.accelerator.current_accelerator(), torch.xpu.get_device_properties(0))"
)
_WITHOUT = "import torch; print(torch.accelerator.current_accelerator())"


def run(work: Workspace) -> None:
    """Tries the wheel of the checkout. What is wrong is a ToolError."""
    package = Package.of(work.base)
    assert package is not None
    torch = installed_torch.need(work.layout, package)
    wheel = extension.wheel(work, package, torch)
    if wheel is None:
        raise MissingError(
            "There is no wheel of the series as it is now.",
            why=f"it would be {extension.name(work, package, torch)}-….whl",
            next=commands.make("extension", BASE=work.base.name),
        )
    with TemporaryDirectory(prefix="torch-extension-") as folder:
        this = Environment(Path(folder))
        _install(this, package, torch, wheel)
        wrong = [*_wrong(this), *_wrong_ways(this, package), *_wrong_tag(wheel)]
        refuse_wrong(wheel, wrong, "extension")
        stage = work.series.point(None)
        run_tests(this, work, stage)
        examples.run(this, work, stage)
    say(f"{wheel.name} passes all checks")


def _install(this: Environment, package: Package, torch: Torch, wheel: Path) -> None:
    pin = f"{package.name}=={torch.version}"
    with progress(None, f"installing {pin} and the wheel in an empty environment"):
        this.make(torch.python)
        if package.locked.exists():
            this.pip("install", *packages.locked(package.locked), index=package.index)
        this.pip("install", *("--", pin, *package.install[1:], str(wheel)), index=package.index)
    this.pip("check")
    say(f"installed beside {pin} with pip alone; pip check is clean")


def _wrong(this: Environment) -> Iterator[str]:
    first = this.run("-c", _FIRST, mapping=_CPU)
    if first.code or not first.text.startswith("xpu "):
        yield f"torch finds no device: {_last(first)}"
    else:
        say(first.text.strip())
    told = this.run("-c", _WITHOUT, mapping=_CPU | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    if told.text.strip() != "None":
        yield f"without TORCH_DEVICE_BACKEND_AUTOLOAD torch finds a device: {_last(told)}"


def _last(result: shell.Result) -> str:
    return ((result.complaint or result.text).splitlines() or ["it said nothing"])[-1]


def _wrong_ways(this: Environment, package: Package) -> Iterator[str]:
    """Libraries are looked for in site-packages alone: what is above may be of anyone."""
    for library in carry.binaries(this.site / package.extension):
        for way in carry.ways(library):
            folder = Path(os.path.normpath(way.replace("$ORIGIN", str(library.parent))))
            if not folder.is_relative_to(this.site):
                yield f"{library.relative_to(this.site)} looks for libraries in {way}"


def _wrong_tag(wheel: Path) -> Iterator[str]:
    """A manylinux tag: with linux_x86_64 pip would install it on any system."""
    if "-manylinux" not in wheel.name:
        yield "its tag does not say which systems it is for"
