"""The payload as a package of its own, beside an installed torch.

Its CMakeLists.txt is at the top of the checkout. `cmake --install` puts the package
together as it is to lie in site-packages.
"""

import shutil
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.build.base_settings import Package
from xpu_stack.build.configuration import Build
from xpu_stack.build.installed_torch import Torch
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system import shell


def options(torch: Torch, sycl: packages.Sycl) -> dict[str, str]:
    """What its CMake is told."""
    return {
        "BUILD_TESTS": "ON",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "Python3_EXECUTABLE": str(torch.python),
        "SYCL_ROOT": str(sycl.root),
    }


def input_of(torch: Torch, work: Workspace, stage: str) -> str:
    """What its CMake looks at beside the options: torch, and which files there are."""
    files = (file.target for change in work.series.changes(stage) for file in change.files)
    return "\n".join([torch.version, *sorted(files)])


def install(this: Build, site: Path) -> Path:
    """Puts the package into an empty folder to import from; its metadata's folder.

    The metadata has what makes torch find it; a wheel adds the rest.
    """
    package = Package.of(this.work.base)
    assert package is not None
    shutil.rmtree(site, ignore_errors=True)
    shell.run(["cmake", "--install", this.folder, "--prefix", site], env=this.env)
    info = site / f"{package.extension}-{package.version}.dist-info"
    info.mkdir(parents=True)
    name = f"Name: {package.extension}\nVersion: {package.version}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
            for group, points in package.entry_points.items()
        )
    )
    return info
