"""The installed torch that the payload is compiled against, for a base that is one.

TORCH names the Python environment that it is in. Without it the tool makes an
environment of its own, with what base.yaml lists.
"""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import bootstrap

from xpu_stack.build import packages
from xpu_stack.build.base_settings import Package
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.errors import MissingError, UsageError
from xpu_stack.core.system.layout import Layout

_PROBE = """\
import importlib.metadata, sys
torch = importlib.metadata.distribution(sys.argv[1])
cuda = torch.locate_file("torch/lib/libtorch_cuda.so").exists()
print(f"cp{sys.version_info[0]}{sys.version_info[1]}", torch.version, int(cuda))
"""


@dataclass(frozen=True)
class Torch:
    """An installed torch, and the Python that imports it."""

    python: Path
    version: str
    tag: str  # of the Python: cp311
    cuda: bool  # it is a build with CUDA, which the package refuses

    @property
    def minor(self) -> str:
        """2.13: what is compiled for it has its ABI, and no other one's."""
        return ".".join(map(str, _numbers(self.version)))


def found(layout: Layout, package: Package) -> Torch | None:
    """The one that builds use, as far as it is there."""
    return _at(_python(layout, package), package.name)


def need(layout: Layout, package: Package) -> Torch:
    """The one that builds use; the tool's own is installed if needed."""
    given = os.environ.get("TORCH")
    if not given:
        _install(layout, package)
    python = _python(layout, package)
    torch = _at(python, package.name)
    if torch is None:
        raise MissingError(
            f"TORCH={given or python} has no {package.name}.",
            why="it must be the folder of a Python environment, or its Python, "
            f"with {package.name} of {package.range}",
            next="unset TORCH # to use an environment of the tool's own",
        )
    if not _numbers(package.from_) <= _numbers(torch.version) < _numbers(package.below):
        raise UsageError(
            f"{package.name} {torch.version} of TORCH={given or python} is not in the range.",
            why=f"the base is {package.name} of {package.range}",
            next="unset TORCH # to use an environment of the tool's own",
        )
    return torch


def _numbers(version: str) -> tuple[int, ...]:
    """Of 2.13.0+cpu the first two."""
    return tuple(int(one) for one in version.split(".")[:2])


def _own(layout: Layout, package: Package) -> Path:
    return layout.state / package.pin.replace("==", "-")


def _python(layout: Layout, package: Package) -> Path:
    given = os.environ.get("TORCH")
    path = Path(given).expanduser().absolute() if given else _own(layout, package)
    return path / "bin" / "python" if path.is_dir() or not given else path


@functools.cache  # asked for each way of building
def _asked(python: Path, name: str) -> str | None:
    try:
        result = shell.run([python, "-c", _PROBE, name], check=False)
    except OSError:
        return None
    return None if result.code else result.text


def _at(python: Path, name: str) -> Torch | None:
    told = _asked(python, name)
    if told is None:
        return None
    tag, version, cuda = told.split()
    return Torch(python, version, tag, cuda == "1")


def _install(layout: Layout, package: Package) -> None:
    environment = _own(layout, package)
    lock = package.locked.read_text() if package.locked.exists() else ""
    stamp, wanted = environment / "xpu-stack.installed", "\n".join([*package.install, lock])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    python = environment / "bin" / "python"
    if not python.exists():
        bootstrap.make(environment, layout.logs / "bootstrap.log")
    what = f"installing {package.pin}"
    code = 0
    if lock:
        code = packages.pip(python, what, *packages.locked(package.locked), index=package.index)
    # the rest: of a build for this Python no hash may be known
    code = code or packages.pip(python, what, "--", *package.install, index=package.index)
    if code:
        raise MissingError(
            f"{package.pin} could not be installed.",
            why=f"pip ended with {code}; {package.index} "
            "was asked too if pip's own indexes have no such version",
            next=commands.make("build", TORCH="<an environment that has it>"),
        )
    stamp.write_text(wanted)
    _asked.cache_clear()
