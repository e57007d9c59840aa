"""`make extension`: the payload as a wheel, for an installed torch.

It is for the minor version of torch that it was compiled for: torch promises no
ABI from one to the next. The SYCL runtime comes from its own packages, and what
is found beside the wheel's libraries is found relative to them.
"""

import os
import platform
import shutil
from pathlib import Path

from xpu_stack.build import extension, packages
from xpu_stack.build.base_settings import Package
from xpu_stack.build.configuration import Build
from xpu_stack.build.installed_torch import Torch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.console import progress, say
from xpu_stack.wheel import carry, finish, identity, making, packing, setuppy

# The same input makes the same bytes on every day: this is the first one that zip knows.
_EPOCH = {"SOURCE_DATE_EPOCH": "315532800"}
_CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
)
_LICENCE = "BSD-3-Clause"  # as SPDX names what LICENSE is
_OF_TORCH = ("libc10.so", "libtorch*.so")


def version(work: Workspace, package: Package) -> str:
    """Of the wheel: that of the package, and of the series."""
    series = identity.series_hash(work, work.series.point(None))
    return f"{package.version}+g{series[: identity.DIGITS]}"


def name(work: Workspace, package: Package, torch: Torch) -> str:
    """Of the wheel, but for the systems that it is for: these are known when it is made."""
    return f"{package.extension}-{version(work, package)}-{torch.tag}-{torch.tag}"


def wheel(work: Workspace, package: Package, torch: Torch) -> Path | None:
    found = sorted(making.wheels(work).glob(f"{name(work, package, torch)}-*.whl"))
    return found[-1] if found else None


def make(this: Build) -> Path:
    """Packs what is built: sorted, with fixed times and modes."""
    packages.need_python("wheel")
    os.umask(0o022)
    package = Package.of(this.work.base)
    assert package is not None
    assert this.torch is not None
    folder = packing.emptied(this.folder / "wheel")
    site = folder / "site"
    info = extension.install(this, site)
    info = info.rename(
        info.with_name(f"{package.extension}-{version(this.work, package)}.dist-info")
    )
    _write(info, this.work, package, this.torch)
    with progress(None, "packing the wheel"):
        finish.run_wheel("pack", "--dest-dir", folder, site, env=_EPOCH)
    (packed,) = folder.glob("*.whl")
    # It carries nothing: torch and SYCL are beside it. But its tag then says which
    # systems have a C library that is new enough.
    elsewhere = (*_OF_TORCH, *carry.RUNTIME)
    made = carry.repair(packed, folder / "tagged", this.env | _EPOCH, elsewhere)
    target = making.wheels(this.work) / made.name
    target.parent.mkdir(parents=True, exist_ok=True)
    made.replace(target)
    say(f"{target} ({target.stat().st_size / 1e6:.1f} MB), for torch {this.torch.minor}")
    return target


def _write(info: Path, work: Workspace, package: Package, torch: Torch) -> None:
    (info / "licenses").mkdir()
    shutil.copyfile(finish.OWN_LICENCE, info / "licenses" / "LICENSE")
    python = f"{torch.tag[2]}.{torch.tag[3:]}"
    first, second = map(int, torch.minor.split("."))
    needed = [f"{package.name}>={torch.minor},<{first}.{second + 1}", *setuppy.runtime("extension")]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {package.extension}",
        f"Version: {version(work, package)}",
        f"Summary: {package.summary}",
        f"License-Expression: {_LICENCE}",
        "License-File: LICENSE",
        f"Requires-Python: =={python}.*",
        *(f"Classifier: {one}" for one in _CLASSIFIERS),
        f"Classifier: Programming Language :: Python :: {python}",
        *(f"Project-URL: {label}, {address}" for label, address in package.urls.items()),
        *(f"Requires-Dist: {one}" for one in needed),
        "Description-Content-Type: text/markdown",
        "",
        f"{package.summary}. It was compiled for torch {torch.version} and Python {python}.",
        "",
        f"    pip install --extra-index-url {package.index} {package.pin} <this wheel>",
    ]
    (info / "METADATA").write_text("".join(f"{line}\n" for line in lines))
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: xpu-stack\nRoot-Is-Purelib: false\n"
        f"Tag: {torch.tag}-{torch.tag}-linux_{platform.machine()}\n"
    )
