"""PyTorch's own setup.py, called in the wheel's tree."""

import os
import shutil
import sys
from pathlib import Path

from xpu_stack.build import packages
from xpu_stack.build.base_settings import BaseSettings
from xpu_stack.core.move.workspace import Workspace
from xpu_stack.core.system.console import log
from xpu_stack.core.system.errors import BuildError, UsageError
from xpu_stack.wheel import carry
from xpu_stack.wheel.identity import Identity


def environment(work: Workspace, identity: Identity) -> dict[str, str]:
    requirements = [*BaseSettings.of(work.base).wheel.requires, *runtime("wheel")]
    return {
        "PYTORCH_BUILD_VERSION": identity.version,
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": "|".join(requirements),
        # Any text keeps it from fetching submodules, OFF keeps CMake's default.
        "USE_SYSTEM_LIBS": "OFF",
    }


def runtime(verb: str) -> list[str]:
    """The SYCL runtime that a wheel was built with, or a later one.

    A new year's release may break the interface of the libraries.
    """
    if os.environ.get("SYCL_ROOT") and not os.environ.get("SYCL_VERSION"):
        raise UsageError(
            "The release of the SYCL runtime that the wheel needs is not known.",
            why=f"SYCL_ROOT={os.environ['SYCL_ROOT']} does not say what it is called on PyPI",
            next=f"make {verb} SYCL_VERSION={packages.sycl_version()} # or without SYCL_ROOT",
        )
    version = packages.sycl_version()
    year = int(version.split(".")[0])
    return [f"{name}>={version},<{year + 1}" for name in ("intel-sycl-rt", "intel-opencl-rt")]


def bdist_wheel(tree: Path, env: dict[str, str], into: Path) -> Path:
    """The wheel as PyTorch's setup.py makes it, from what is installed below torch/."""
    # What setuptools has made before would go into the wheel, also where its source is gone.
    for made in (tree / "build").glob("*.linux-*"):
        shutil.rmtree(made)
    # "egg_info" among the words keeps setup.py from building what ninja has built.
    words = ("setup.py", "egg_info", "bdist_wheel", "--dist-dir")
    what = "running PyTorch's setup.py"
    found, told = carry.one_made([sys.executable, *words, into], into, what, env, tree)
    if found is None:
        errors = [text for text in told if "error" in text.lower()] or told
        raise BuildError(
            "PyTorch's setup.py made no wheel.",
            why=(errors or ["it said nothing"])[-1].strip()[:300],
            next="fix it and run the same command again",
            detail="\n".join(told[-20:]),
        )
    log.info("setup.py: %s", found.name)
    return found
