"""Puts kernels into a package, compiled ahead of time: for devices that take SPIR-V, and PTX.

What was compiled is kept, as a compiler cache keeps objects.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from xpu_stack.build import cmake, configuration
from xpu_stack.build.packages import Sycl
from xpu_stack.core.system import shell
from xpu_stack.core.system.console import progress, say
from xpu_stack.core.system.errors import BuildError
from xpu_stack.core.system.layout import Layout

FOLDER = "kernels"  # beside the library that loads them
_RELEASE = "2026.2"  # of SYCL, whose compiler sycl_jit.py knows
_COMPILER = Path(__file__).with_name("sycl_jit.py")
_MOST_KEPT = 1000  # files, of some 100 kB

# What few use would make the package larger. A device that takes SPIR-V has it compiled
# when it is first used; for NVIDIA that needs a file of another package.
_RARE = ("-i16", "-i8")

_ASK = """
import importlib.util, json, pathlib, torch
found = importlib.util.find_spec("triton")
libdevice = found and pathlib.Path(found.origin).parent / "backends/nvidia/lib/libdevice.10.bc"
has = hasattr(torch.ops.torch_xpu, "_kernel_units")  # which an earlier stage has not
units = torch.ops.torch_xpu._kernel_units() if has else []
there = libdevice is not None and libdevice.exists()
print(json.dumps([units[0::2], units[1::2], str(libdevice) if there else ""]))
"""

_KEEP = """
import pathlib, sys, torch, zipfile
folder, *units = sys.argv[1:]
for form, source, images in zip(units[0::3], units[1::3], units[2::3]):
    with zipfile.ZipFile(images) as archive:
        codes = {name: archive.read(name) for name in archive.namelist()}
    tensors = [torch.frombuffer(bytearray(code), dtype=torch.uint8) for code in codes.values()]
    source = pathlib.Path(source).read_text()
    keep = torch.ops.torch_xpu._keep_kernels
    assert keep(folder, form == "ptx", source, list(codes), tensors), folder
"""


@dataclass(frozen=True)
class Package:
    """What has the library: `python` imports torch with it in the environment `env`."""

    python: Path
    env: Mapping[str, str]
    library: Path

    def run(self, code: str, *words: str | Path) -> str:
        return shell.run([self.python, "-P", "-c", code, *words], env=self.env).text


@dataclass(frozen=True)
class _Unit:
    name: str
    form: str  # of the images
    source: Path
    images: Path

    def compile(self, compiler: Sequence[str | Path], more: Sequence[str]) -> None:
        command = [*compiler, self.form, self.source, self.images, *more]
        result = shell.run(command, check=False)
        if result.code:
            raise BuildError(
                f"The kernels of {self.name} cannot be compiled to {self.form}.",
                why=(result.complaint.splitlines() or [f"the compiler ended: {result.code}"])[0],
                next="see the log, mend the kernels and run the same command again",
                detail=result.complaint,
            )


def _keep_for_tests(brought: list[Path], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file in brought:
        if not (folder / file.name).exists():
            draft = folder / f".{file.name}.draft"
            shutil.copyfile(file, draft)
            draft.replace(folder / file.name)


def add(package: Package, sycl: Sycl, layout: Layout) -> None:
    """Compiles the kernels and puts them beside the library, if it has any."""
    if not package.library.exists():
        return
    if not sycl.version.startswith(_RELEASE):
        say(f"no kernels are compiled ahead: this is done by the compiler of SYCL {_RELEASE}")
        return
    names, sources_of, libdevice = json.loads(package.run(_ASK))
    if not names:
        return
    forms = {"spirv": [], **({"ptx": [libdevice]} if libdevice else {})}
    folder = layout.state / "kernels"
    folder.mkdir(exist_ok=True)
    made_by = f"{sycl.version} {_COMPILER.read_text()}"
    compiler = (sys.executable, _COMPILER, sycl.root / "lib" / "libsycl-jit.so")
    with TemporaryDirectory() as sources:
        units = []
        for name, source in zip(names, sources_of, strict=True):
            text = Path(sources) / name
            text.write_text(source)
            for form in forms if not name.endswith(_RARE) else forms.keys() - {"spirv"}:
                key = f"{made_by} {form} {source}"
                images = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.zip"
                units.append(_Unit(name, form, text, images))
        new = [unit for unit in units if not unit.images.exists()]
        with (
            progress(len(new), "compiling kernels", may_be_nothing=True) as bar,
            ThreadPoolExecutor(cmake.local_jobs()) as pool,
        ):
            for _ in pool.map(lambda unit: unit.compile(compiler, forms[unit.form]), new):
                bar.step()
        words = [word for unit in units for word in (unit.form, unit.source, unit.images)]
        package.run(_KEEP, package.library.with_name(FOLDER), *words)
    brought = list(package.library.with_name(FOLDER).iterdir())
    size = sum(file.stat().st_size for file in brought) / 1e6
    _keep_for_tests(brought, configuration.compiled_kernels(layout))
    what = " and ".join({"spirv": "SPIR-V", "ptx": "PTX"}[form] for form in forms)
    say(f"{len(new)} of {len(units)} units of kernels compiled; {size:.1f} MB of {what}")
    if not libdevice:
        say("no PTX: torch's environment has no package 'triton', which has CUDA's libdevice")
    for old in sorted(folder.glob("*.zip"), key=lambda path: path.stat().st_mtime)[:-_MOST_KEPT]:
        old.unlink()
