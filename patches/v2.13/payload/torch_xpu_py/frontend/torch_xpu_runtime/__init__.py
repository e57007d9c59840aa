r"""The XPU runtime for PyTorch as it is installed with pip.

``import torch`` loads it by the entry point group ``torch.backends``, and
``torch.xpu`` is there. With ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` PyTorch stays as it
is until this package is imported.
"""

# PyTorch may be in the middle of its own import, and may import this package
# while it is: autoload must be there before torch is asked for.
from ._loading import autoload

__all__ = ["autoload", "mapping", "set_mapping"]


def mapping() -> str:
    r"""Returns the mapping, which says which SYCL devices are XPU devices.

    It is the one that is in force, or that the first use will take. See
    :func:`set_mapping`.
    """
    from . import _C

    return _C._xpu_mapping()


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
    from . import _C
    from ._loading import find_cpu_device

    _C._xpu_setMapping(name)
    find_cpu_device(name)


autoload()
