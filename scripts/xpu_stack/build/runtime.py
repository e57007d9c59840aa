"""The environment in which what was built runs."""

import os

from xpu_stack.build.configuration import Build


def library_path(this: Build) -> dict[str, str]:
    """Where the SYCL runtime's libraries are found first.

    The distribution's libtorch_cpu brings the distribution's OpenCL loader and
    oneTBB into the process, and Intel's OpenCL library does not load with an
    older oneTBB. A sanitizer's dlopen() hides who called it, and with that the
    runpath by which the SYCL runtime finds its adapters.
    """
    return {"LD_LIBRARY_PATH": _before(str(this.sycl.root / "lib"), "LD_LIBRARY_PATH")}


def program_environment(this: Build) -> dict[str, str]:
    """In which a C++ program of `this` runs.

    The OpenCL loader has to be told of Intel's CPU device. For Python,
    `import torch` does it; c10/xpu itself sets no variable of the process.
    """
    opencl = os.environ.get("OCL_ICD_FILENAMES") or str(this.sycl.root / "lib" / "libintelocl.so")
    return {**library_path(this), "OCL_ICD_FILENAMES": opencl}


def _before(first: str, variable: str) -> str:
    given = os.environ.get(variable)
    return f"{first}{os.pathsep}{given}" if given else first


def python_environment(this: Build) -> dict[str, str]:
    # an installed torch knows nothing of Intel's CPU device
    of_sycl = program_environment(this) if this.torch else library_path(this)
    return {
        **of_sycl,
        "PATH": _before(str(this.python.parent), "PATH"),
        "PYTHONPATH": str(this.site),
    }
