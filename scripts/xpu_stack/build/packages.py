"""What must be installed: the distribution's packages and the SYCL runtime."""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import bootstrap

from xpu_stack.core.system import commands, files, shell
from xpu_stack.core.system.console import log, progress
from xpu_stack.core.system.errors import MissingError
from xpu_stack.core.system.layout import Layout

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
# Where the distribution is another one: the one that the tool was tried on.
CONTAINER = 'podman run -it --rm -v "$PWD:/src:Z" -w /src debian:12'
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
    missing = False
    with progress(None, what) as bar:

        def line(text: str) -> None:
            nonlocal missing
            missing = missing or NO_SUCH_VERSION in text
            if text.startswith(("Collecting", "Downloading", "Installing")):
                bar.step(f"pip: {text.split('(')[0].strip()[:60]}")

        command += ["--disable-pip-version-check", "--no-input"]
        code = shell.follow([*command, *words], line)
        if code and missing and index:
            code = shell.follow([*command, "--extra-index-url", index, *words], line)
        return code


# -- the distribution's packages ---------------------------------------------------


def has_apt() -> bool:
    return shutil.which("apt-get") is not None


def has_dpkg() -> bool:
    return shutil.which("dpkg-query") is not None


def missing_apt(names: Iterable[str]) -> list[str]:
    """Those of the distribution's packages that are not installed; without dpkg, none."""
    wanted = list(names)
    if not has_dpkg():
        log.info("no dpkg: cannot tell whether %s are installed", wanted)
        return []
    form = "${Package} ${db:Status-Status}\n"
    listed = shell.run(["dpkg-query", "-W", f"-f={form}", "--", *wanted], check=False).text
    installed = {
        line.split()[0] for line in listed.splitlines() if line.split()[1:] == ["installed"]
    }
    return [name for name in wanted if name not in installed]


def install_command(names: list[str]) -> str:
    if not has_apt():
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
    if os.geteuid() != 0 or not has_apt():
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

        code = shell.follow(install, line, env={"DEBIAN_FRONTEND": "noninteractive"})
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


def _sycl_requirements() -> tuple[str, ...]:
    """For pip; of a release that SYCL_VERSION asks for no hashes are known."""
    version = os.environ.get("SYCL_VERSION")
    if version:
        return ("--", f"intel-sycl-rt=={version}", f"intel-opencl-rt=={version}")
    return locked(REQUIREMENTS / "sycl.txt")


def sycl_version() -> str:
    pins = (REQUIREMENTS / "sycl.txt").read_text()
    pinned = pins.partition("\nintel-sycl-rt==")[2].split(maxsplit=1)[0]
    return os.environ.get("SYCL_VERSION") or pinned


def installed_sycl(layout: Layout) -> Sycl | None:
    """The runtime that builds use: SYCL_ROOT, or the tool's own."""
    given = os.environ.get("SYCL_ROOT")
    if given:
        root = Path(given).absolute()
        return Sycl(root, "of SYCL_ROOT", "SYCL_ROOT") if _has_sycl(root) else None
    root = layout.sycl(sycl_version())
    return Sycl(root, sycl_version(), "PyPI") if _has_sycl(root) else None


def _has_sycl(root: Path) -> bool:
    return (root / "lib" / "libsycl.so").exists() and (root / "include" / "sycl").is_dir()


def need_sycl(layout: Layout) -> Sycl:
    found = installed_sycl(layout)
    if found is not None:
        return found
    if os.environ.get("SYCL_ROOT"):
        raise MissingError(
            f"SYCL_ROOT={os.environ['SYCL_ROOT']} has no SYCL runtime.",
            why="there must be lib/libsycl.so and include/sycl in it",
            next="unset SYCL_ROOT # to use the runtime from PyPI",
        )
    root = layout.sycl(sycl_version())
    what = f"installing the SYCL runtime {sycl_version()} (1.5 GB)"
    with files.folder(root) as draft:
        code = pip(
            *(sys.executable, what, "--ignore-installed", "--prefix", str(draft)),
            *_sycl_requirements(),
        )
        if code:
            raise MissingError(
                "The SYCL runtime could not be installed.",
                why=f"pip ended with {code}",
                next=f"{commands.make('doctor')} # or set SYCL_ROOT to a oneAPI installation",
            )
    return Sycl(root, sycl_version(), "PyPI")
