r"""Puts the runtime into PyTorch.

Note [Loading into a PyTorch without XPU]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
PyTorch's own ``torch.xpu`` is built on names of ``torch._C``. A build without XPU
has ``torch._C._has_xpu`` False and dummies for what classes derive from, and
``torch.xpu`` asks for these when it is imported. So the names are put there, and
the modules of ``torch.xpu`` run again. At the end of ``import torch``, where this
happens, nothing else has looked at them yet.

What might fail comes first. Whatever is the reason not to load, there is one
warning and PyTorch stays as it was: ``import torch`` must work.
"""

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Any

from ._mapping import find_cpu_device, mapping, set_mapping

# Set once there was an attempt to load, whatever came of it.
_attempted = False


class _Refused(Exception):
    r"""A reason to leave PyTorch as it is."""


def autoload() -> None:
    r"""Makes ``torch.xpu`` work, unless it has been tried before.

    It never raises: where the runtime cannot be loaded it warns, and PyTorch is
    as without it.
    """
    global _attempted
    import torch  # loads this package too, unless that is switched off

    if _attempted:
        return
    _attempted = True
    try:
        _check(torch)
        names = _names()
        _check_accelerator(torch)
    except _Refused as reason:
        warnings.warn(
            f"torch_xpu_runtime was not loaded: {reason}. PyTorch works as without "
            "it; TORCH_DEVICE_BACKEND_AUTOLOAD=0 or `pip uninstall "
            "torch_xpu_runtime` ends this warning.",
            stacklevel=2,
        )
        return
    _put(torch, names)
    find_cpu_device(os.environ.get("TORCH_XPU_MAPPING"))


def _check(torch: ModuleType) -> None:
    r"""Raises unless this PyTorch can take the runtime."""
    from ._built_for import TORCH

    version = str(torch.__version__)
    cpu_wheel = f"`pip install torch=={TORCH}.0+cpu`, PyTorch's CPU wheel"
    for name, has in (
        ("CUDA", torch.version.cuda),
        ("ROCm", torch.version.hip),
    ):
        if has:
            raise _Refused(
                f"PyTorch {version} has {name} built in, and PyTorch allows one "
                f"accelerator. Use one without: {cpu_wheel}"
            )
    if version.split(".")[:2] != TORCH.split("."):
        raise _Refused(
            f"it was built for PyTorch {TORCH}, and this is {version}. Use "
            f"{cpu_wheel}, or a torch_xpu_runtime for your version"
        )
    if torch._C._has_xpu or hasattr(torch._C, "_xpu_init"):
        raise _Refused(
            "this PyTorch has XPU already, built in or from another package. "
            f"Remove that package, or install {cpu_wheel}"
        )
    if "torch._dynamo.device_interface" in sys.modules:
        raise _Refused(
            "torch.compile was used before it and knows no XPU. Import "
            "torch_xpu_runtime right after torch"
        )


def _check_accelerator(torch: Any) -> None:
    r"""Raises unless PyTorch takes XPU, now that the library is there, for the
    accelerator. It asks once in a process and keeps the answer."""
    found = torch.accelerator.current_accelerator()
    if found is None:
        raise _Refused(
            "torch.accelerator was asked before it, and keeps its answer. Import "
            "torch_xpu_runtime right after torch"
        )
    if found.type != "xpu":
        raise _Refused(
            f"PyTorch has the accelerator '{found.type}' from another package, and "
            "allows one. Remove that package"
        )


def _names() -> dict[str, Any]:
    r"""What ``torch._C`` is to have."""
    try:
        from . import _C
    except ImportError as error:
        raise _Refused(
            f"a library is missing or of another version ({error}). The SYCL "
            "runtime comes with `pip install intel-sycl-rt intel-opencl-rt`; one "
            "that is elsewhere must be in LD_LIBRARY_PATH"
        ) from error
    prefixes = ("_xpu_", "_Xpu", "_XPU")
    return {name: value for name, value in vars(_C).items() if name.startswith(prefixes)}


def _put(torch: Any, names: dict[str, Any]) -> None:
    r"""See Note [Loading into a PyTorch without XPU]."""
    from . import _unsupported
    from ._built_for import SYCL

    for name, value in names.items():
        # What prints or pickles a class looks for it there.
        if isinstance(value, type) and value.__module__ != "torch._C":
            value.__module__ = "torch._C"
        setattr(torch._C, name, value)
    torch._C._StaticXpuLauncher = _unsupported.StaticXpuLauncher
    torch._C._aoti.AOTIModelContainerRunnerXpu = (
        _unsupported.AOTIModelContainerRunnerXpu
    )
    torch._C._dynamo.guards._empty_strided_xpu = _empty_strided_xpu
    torch._C._has_xpu = True
    torch.version.xpu = SYCL
    for name in ("memory", "random"):
        sys.modules.pop(f"torch.xpu.{name}", None)
    for name in ("streams", "graphs"):
        importlib.reload(sys.modules[f"torch.xpu.{name}"])
    importlib.reload(torch.xpu)
    # The contract has these in torch.xpu.
    torch.xpu.mapping = mapping
    torch.xpu.set_mapping = set_mapping


def _empty_strided_xpu(size: Any, stride: Any, dtype: Any) -> Any:
    r"""What inductor's code allocates with."""
    import torch

    return torch.empty_strided(size, stride, dtype=dtype, device="xpu")
