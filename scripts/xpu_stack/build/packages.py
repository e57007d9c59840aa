"""What must be installed: Python's and the distribution's packages, the SYCL runtime, torch.

TORCH names the Python environment of the torch that the payload is compiled against, for
a base that is an installed one. Without it the tool makes an environment of its own, with
what base.yaml lists.
"""

import functools
import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import bootstrap

from xpu_stack.build.base_settings import Package
from xpu_stack.core.series.base import Base
from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress
from xpu_stack.core.system.errors import MissingError, UsageError
from xpu_stack.core.system.layout import Layout

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
# Where the distribution is another one: the one that the tool was tried on.
CONTAINER = 'podman run -it --rm -v "$PWD:/src:Z" -w /src debian:12'
SYCL_PACKAGES = ("intel-sycl-rt", "intel-opencl-rt")
_APT = ["apt-get", "-q", "-o", "Dpkg::Use-Pty=0"]


# -- Python packages ---------------------------------------------------------------


def need_python(name: str) -> None:
    """Has requirements/<name>.txt in the environment that the tool runs in."""
    bootstrap.ensure(Path(sys.prefix).parent, name)
    importlib.invalidate_caches()


_HAS = "import importlib.metadata, sys; [*map(importlib.metadata.version, sys.argv[1:])]"


def need_beside(python: Path, name: str, folder: Path) -> bool:
    """Has requirements/<name>.txt for another Python, whose environment stays as it is.

    Whether they are in `folder`, to import from: the environment may have them itself.
    """
    asked = (REQUIREMENTS / f"{name}.in").read_text().splitlines()
    names = [line for line in asked if not line.startswith("#")]
    if not shell.run([python, "-c", _HAS, *names], check=False).code:
        return False
    requirements = REQUIREMENTS / f"{name}.txt"
    stamp, wanted = folder / "xpu-stack.installed", f"{python}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    with files.folder(folder) as draft:
        words = ("--target", str(draft), *locked(requirements))
        if pip(python, f"installing the requirements of {name}", *words):
            raise MissingError(
                f"The requirements of {name} could not be installed.",
                why=f"pip failed on {requirements.name}",
                next=commands.line(python, "-m", "pip", "install", *names),
            )
        (draft / stamp.name).write_text(wanted)
    return True


def locked(requirements: Path) -> tuple[str, ...]:
    """For pip: what the file lists, each download checked by its hash."""
    return ("--require-hashes", "--requirement", str(requirements))


NO_SUCH_VERSION = "No matching distribution found"  # as pip says it


def pip(python: Path | str, what: str, *words: str, index: str | None = None) -> int:
    """Has pip install packages for a Python, which need not have pip itself; its exit code.

    index: is asked too if those that pip is configured for have no such version.
    """
    command = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    with progress(None, what) as bar:

        def line(text: str) -> None:
            if text.startswith(("Collecting", "Downloading", "Installing")):
                bar.step(f"pip: {text.split('(')[0].strip()[:60]}")

        command += ["--disable-pip-version-check", "--no-input"]
        code, said = shell.follow([*command, *words], line)
        if code and index and any(NO_SUCH_VERSION in text for text in said):
            code, _ = shell.follow([*command, "--extra-index-url", index, *words], line)
        return code


# -- the distribution's packages ---------------------------------------------------


def missing_apt(names: Iterable[str]) -> list[str]:
    """Those of the distribution's packages that are not installed; without dpkg, none."""
    wanted = list(names)
    if not shutil.which("dpkg-query"):
        log.info("no dpkg: cannot tell whether %s are installed", wanted)
        return []
    asked = ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", "--", *wanted]
    listed = shell.run(asked, check=False).text.splitlines()
    return [name for name in wanted if f"{name} installed" not in listed]


def install_command(names: list[str]) -> str:
    if not shutil.which("apt-get"):
        return f"install {shlex.join(names)} with the distribution's package manager"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install -y --no-install-recommends {shlex.join(names)}"


def need_apt(names: Iterable[str], instead: str = "") -> None:
    """Installs what is missing; without root, raises an error with the command to type.

    instead: a command that does not need these packages.
    """
    missing = missing_apt(names)
    if not missing:
        return
    next = install_command(missing) + (f" # or: {instead}" if instead else "")
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise MissingError(
            f"{len(missing)} package(s) of the distribution are missing.",
            why="only root can install them",
            next=next,
        )
    with progress(None, f"installing {len(missing)} packages of the distribution") as bar:
        update = shell.run([*_APT, "update"], check=False)
        install = [*_APT, "install", "-y", "--no-install-recommends", "--", *missing]

        def line(text: str) -> None:
            if text.startswith(("Get:", "Unpacking", "Setting up")):
                bar.step(f"apt: {text.split('(')[0][:60]}")

        code, _ = shell.follow(install, line, env={"DEBIAN_FRONTEND": "noninteractive"})
    still = missing_apt(missing)
    if code or still:
        raise MissingError(
            "The distribution's packages could not be installed.",
            why=(update.complaint.splitlines() or [f"apt-get ended with {code}"])[-1]
            if update.code
            else f"missing still: {', '.join(still) or 'nothing'}; apt-get ended with {code}",
            next=next,
        )


# -- the SYCL runtime --------------------------------------------------------------


@dataclass(frozen=True)
class Sycl:
    """A SYCL runtime: `root`/lib/libsycl.so, `root`/include/sycl."""

    root: Path
    version: str
    origin: str


def sycl_version() -> str:
    pins = (REQUIREMENTS / "sycl.txt").read_text()
    pinned = pins.partition("\nintel-sycl-rt==")[2].split(maxsplit=1)[0]
    return os.environ.get("SYCL_VERSION") or pinned


def _own_sycl(layout: Layout) -> Sycl:
    version = sycl_version()
    return Sycl(layout.state / f"sycl-{version}", version, "PyPI")


def installed_sycl(layout: Layout) -> Sycl | None:
    found = _own_sycl(layout)
    if given := os.environ.get("SYCL_ROOT"):
        found = Sycl(Path(given).absolute(), "of SYCL_ROOT", "SYCL_ROOT")
    there = (found.root / "lib/libsycl.so").exists() and (found.root / "include/sycl").is_dir()
    return found if there else None


def need_sycl(layout: Layout) -> Sycl:
    if found := installed_sycl(layout):
        return found
    if os.environ.get("SYCL_ROOT"):
        raise MissingError(
            f"SYCL_ROOT={os.environ['SYCL_ROOT']} has no SYCL runtime.",
            why="there must be lib/libsycl.so and include/sycl in it",
            next="unset SYCL_ROOT # to use the runtime from PyPI",
        )
    made = _own_sycl(layout)
    asked = locked(REQUIREMENTS / "sycl.txt")
    if os.environ.get("SYCL_VERSION"):  # a release of which no hashes are known
        asked = ("--", *(f"{name}=={made.version}" for name in SYCL_PACKAGES))
    with files.folder(made.root) as draft:
        words = ("--ignore-installed", "--prefix", str(draft), *asked)
        what = f"installing the SYCL runtime {made.version} (1.8 GB)"
        if code := pip(sys.executable, what, *words):
            raise MissingError(
                "The SYCL runtime could not be installed.",
                why=f"pip ended with {code}",
                next=f"{commands.make('doctor')} # or set SYCL_ROOT to a oneAPI installation",
            )
    return made


# -- the installed torch -------------------------------------------------------------


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


def found_torch(layout: Layout, base: Base) -> Torch | None:
    """The one that builds on this base use, as far as it is there."""
    package = Package.of(base) if base.package else None
    return _at(_python(layout, package), package.name) if package else None


def need_torch(layout: Layout, base: Base) -> Torch:
    """The one that builds use; the tool's own is installed if needed."""
    package, given = Package.of(base), os.environ.get("TORCH")
    python = _python(layout, package)
    if not given:
        _install(python, package, layout.logs)
    torch = _at(python, package.name)
    own = "unset TORCH # to use an environment of the tool's own"
    range = f"{package.from_} to below {package.below}"
    if torch is None:
        raise MissingError(
            f"TORCH={given or python} has no {package.name}.",
            why="it must be the folder of a Python environment, or its Python, "
            f"with {package.name} of {range}",
            next=own,
        )
    if not _numbers(package.from_) <= _numbers(torch.version) < _numbers(package.below):
        raise UsageError(
            f"{package.name} {torch.version} of TORCH={given or python} is not in the range.",
            why=f"the base is {package.name} of {range}",
            next=own,
        )
    return torch


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in version.split(".")[:2])


def _python(layout: Layout, package: Package) -> Path:
    """That of TORCH, or of an environment of the tool's own."""
    given = os.environ.get("TORCH")
    if not given:
        return layout.state / package.pin.replace("==", "-") / "bin" / "python"
    path = Path(given).expanduser().absolute()
    return path / "bin" / "python" if path.is_dir() else path


@functools.cache  # asked for each way of building
def _at(python: Path, name: str) -> Torch | None:
    try:
        result = shell.run([python, "-c", _PROBE, name], check=False)
    except OSError:
        return None
    if result.code:
        return None
    tag, version, cuda = result.text.split()
    return Torch(python, version, tag, cuda == "1")


def _install(python: Path, package: Package, logs: Path) -> None:
    environment = python.parents[1]
    lock = package.locked.read_text() if package.locked.exists() else ""
    stamp, wanted = environment / "xpu-stack.installed", "\n".join([*package.install, lock])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not python.exists():
        bootstrap.make(environment, logs / "bootstrap.log")
    words = locked(package.locked) if lock else ("--", *package.install)
    if code := pip(python, f"installing {package.pin}", *words, index=package.index):
        raise MissingError(
            f"{package.pin} could not be installed.",
            why=f"pip ended with {code}; {package.index} "
            "was asked too if pip's own indexes have no such version",
            next=commands.make("build", TORCH="<an environment that has it>"),
        )
    stamp.write_text(wanted)
    _at.cache_clear()
