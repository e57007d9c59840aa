r"""Inductor for XPU: here is decided what compiles for which device.

- ``host``: C++, for devices whose memory is host memory;
- ``gpu``: Triton, for NVIDIA cards;
- on Intel's GPUs PyTorch's own way is taken as it is: Triton with Intel's backend.

A process that has GPUs and SYCL's CPU device compiles for the GPUs. ``private`` lists what
is private to PyTorch and used here.
"""

from typing import List

import torch


def load() -> None:
    r"""Tells inductor, before it registers its own choice. It asks for the properties of the
    devices, unless the mapping has none but SYCL's CPU device."""
    platforms = _platforms()
    if any("CUDA" in name for name in platforms) and _triton_has("xpu"):
        from . import gpu  # noqa: F401
    elif any("Level-Zero" in name for name in platforms) and _triton_has("intel"):
        from torch._inductor import config

        config.use_static_cuda_launcher = False  # it is for XPU too, and not in this build
    else:
        from . import host  # noqa: F401


def _platforms() -> List[str]:
    mapping = torch.xpu.mapping()  # type: ignore[attr-defined]
    if mapping == "CPU" or torch.xpu._is_in_bad_fork() or not torch.xpu.is_available():
        return []
    devices = range(torch.xpu.device_count())
    return [torch.xpu.get_device_properties(device).platform_name for device in devices]


def _triton_has(backend: str) -> bool:
    try:
        import triton
    except ImportError:
        return False
    return backend in triton.backends.backends


def advice(device: int) -> str:
    r"""What to do where nothing compiles for a device."""
    other = 'use torch.compile(backend="aot_eager")'
    platform = torch.xpu.get_device_properties(device).platform_name
    if "CUDA" in platform:
        return f"Install Triton, `pip install 'torch_xpu_runtime[nvidia]'`, or {other}"
    if "Level-Zero" in platform:
        index = "https://download.pytorch.org/whl/xpu"
        return f"Install Triton, `pip install --index-url {index} triton-xpu`, or {other}"
    return other.capitalize()
