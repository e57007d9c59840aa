r"""Which SYCL devices are XPU devices.

Note [Finding the CPU device]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
SYCL reaches the CPU device through OpenCL's loader, and the loader finds
``libintelocl.so`` by files of the system or by the environment. Where the SYCL
runtime was installed from PyPI there are no such files. So ``OCL_ICD_FILENAMES``
is set, to the library that stands beside ``libsycl.so``, unless the user has set
that or ``OCL_ICD_VENDORS``. To set the environment while other threads read it
is unsafe: it happens only in ``import torch``, if ``TORCH_XPU_MAPPING`` wants the
CPU device, and in :func:`set_mapping`.
"""

import os
from typing import Any, Optional

# Mappings that may want the SYCL CPU device.
_WITH_CPU = ("CPU", "AUTO", "EXPLICIT")


def _bindings() -> Any:
    import torch  # not above, since `import torch` may be what imports this

    return torch._C


def _is_compiled() -> bool:
    r"""Whether this PyTorch has XPU."""
    return hasattr(_bindings(), "_xpu_init")


def _check_compiled() -> None:
    if not _is_compiled():
        raise AssertionError(
            "Torch not compiled with XPU enabled: it takes a build with USE_XPU=1"
        )


def find_cpu_device(name: Optional[str]) -> None:
    r"""Lets SYCL find the CPU device if a mapping wants it. See Note [Finding the
    CPU device]."""
    if name not in _WITH_CPU or not _is_compiled():
        return
    if "OCL_ICD_FILENAMES" in os.environ or "OCL_ICD_VENDORS" in os.environ:
        return
    library = _library_beside_sycl("libintelocl.so")
    if library is not None:
        os.environ["OCL_ICD_FILENAMES"] = library


def _library_beside_sycl(name: str) -> Optional[str]:
    try:
        with open("/proc/self/maps") as maps:
            files = {line.split(None, 5)[5].strip() for line in maps if ".so" in line}
    except OSError:
        return None  # another system, where the loader needs no help
    for file in sorted(files):
        folder, loaded = os.path.split(file)
        path = os.path.join(folder, name)
        if loaded.startswith("libsycl.so") and os.path.exists(path):
            return path
    return None


def mapping() -> str:
    r"""Returns the mapping, which says which SYCL devices are XPU devices.

    It is the one that is in force, or that the first use will take. See
    :func:`set_mapping`.
    """
    _check_compiled()
    return _bindings()._xpu_mapping()


def set_mapping(name: str) -> None:
    r"""Sets which SYCL devices are XPU devices.

    The environment variable ``TORCH_XPU_MAPPING`` does the same; this function
    overrides it. It must be called before the first use of a device and raises
    afterwards. A mapping that may want the CPU device may set the environment
    variable ``OCL_ICD_FILENAMES``, as ``import torch`` does: call it before other
    threads are started.

    Args:
        name (str): one of

            - ``"GPU"``: the GPUs of the first SYCL backend that has any: Level
              Zero, then CUDA, then HIP (the default);
            - ``"CPU"``: the SYCL CPU device;
            - ``"AUTO"``: the GPUs if there are any, else the CPU device;
            - ``"EXPLICIT"``: every SYCL device that can allocate device memory,
              GPUs first.
    """
    _check_compiled()
    _bindings()._xpu_setMapping(name)
    find_cpu_device(name)
