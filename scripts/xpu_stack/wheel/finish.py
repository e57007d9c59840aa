"""What a wheel says about itself: torch.version, metadata, licences."""

import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from xpu_stack.build.configuration import Mode
from xpu_stack.core.system import commands, shell
from xpu_stack.core.system.console import log, progress
from xpu_stack.core.system.errors import BuildError
from xpu_stack.wheel import carry
from xpu_stack.wheel.identity import Identity

FACTS = "xpu_stack.json"  # in the wheel's dist-info

OWN_LICENCE = Path(__file__).parents[3] / "LICENSE"
_ATEN_INCLUDE = re.compile(r'^set\(ATEN_INCLUDE_DIR ".*"\)$', re.M)


def finish(wheel: Path, identity: Identity, into: Path, compiled_in: Iterable[str]) -> Path:
    """Unpacks a wheel, completes it and packs it again.

    compiled_in: packages of the distribution whose headers the libraries are made from.
    """
    folder = into / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    run_wheel("unpack", "--dest", folder, wheel)
    (site,) = folder.iterdir()
    (info,) = site.glob("*.dist-info")
    if identity.mode is Mode.FAST:
        carry.load_runtime_first(site)
    log.info("find the SYCL runtime: %s", carry.find_runtime(site))
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
    lines = [f"{name} = {value!r}\n" for name, value in identity.facts.items()]
    names = ", ".join(repr(name) for name in identity.facts)
    text = path.read_text()
    # PyTorch's file was written when the libraries were built, maybe for an earlier version.
    text = re.sub(r"^__version__ = .*$", f"__version__ = {identity.version!r}", text, flags=re.M)
    exported = f"__all__ += [{names}]\n" if "__all__" in text else ""
    path.write_text(f"{text}{''.join(lines)}{exported}")


def _write_metadata(info: Path, identity: Identity) -> None:
    path = info / "METADATA"
    head, body = path.read_text(encoding="utf-8").split("\n\n", 1)
    summary = f"Summary: PyTorch {identity.release} with an XPU (SYCL) runtime"
    head = re.sub(r"^Summary: .*$", summary, head, flags=re.M)
    told = "".join(f"* {name}: {value}\n" for name, value in identity.facts.items())
    path.write_text(f"{head}\n\nThis build was made from:\n\n{told}\n{body}", encoding="utf-8")
    (info / FACTS).write_text(json.dumps(identity.facts, indent=1) + "\n")


def _write_licences(site: Path, info: Path, compiled_in: Iterable[str]) -> None:
    """The licences of the series, and of all that the wheel carries beside PyTorch."""
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(OWN_LICENCE, folder / "xpu-stack.txt")
    found = {package: _copyright(package) for package in compiled_in}
    for library in sorted((site / carry.CARRIED).glob("*.so*")):
        found[library.name] = _copyright_of(carry.own_name(library))
    without = [name for name, source in found.items() if source is None]
    if without:
        raise BuildError(
            "A library in the wheel has no licence file.",
            why=f"no package of the distribution has one for {', '.join(without)}",
            next=f"{commands.make('doctor')} # which libraries the build found",
        )
    for source in found.values():
        assert source is not None
        shutil.copyfile(source, folder / f"{source.parent.name}.txt")


def _copyright(package: str) -> Path | None:
    path = Path("/usr/share/doc") / package / "copyright"
    return path if path.exists() else None


def _copyright_of(library: str) -> Path | None:
    """The licence file of the package that has a library of this name."""
    asked = shell.run(["dpkg-query", "--search", f"*/{library}*"], check=False).text
    for line in asked.splitlines():
        for package in line.split(": ")[0].split(", "):
            found = _copyright(package.split(":")[0])
            if found is not None:
                return found
    return None


def _relocate(site: Path) -> None:
    """Has ATen's headers found beside their CMake file, not where they were installed first."""
    path = site / "torch" / "share" / "cmake" / "ATen" / "ATenConfig.cmake"
    if path.exists():
        here = 'set(ATEN_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../../../include")'
        path.write_text(_ATEN_INCLUDE.sub(lambda _: here, path.read_text()))
