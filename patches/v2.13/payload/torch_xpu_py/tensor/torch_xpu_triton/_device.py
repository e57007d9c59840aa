r"""Which devices are NVIDIA cards."""

import re
from typing import Any, Optional, Tuple


def capability(device: Optional[int] = None) -> Optional[Tuple[int, int]]:
    r"""The compute capability of an XPU device, by default the current one. None where it
    is no NVIDIA card, and where there is no such device or no PyTorch for it."""
    found = _properties(device)
    if found is None or "CUDA" not in found.platform_name:
        return None
    major, minor = re.match(r"(\d+)\.(\d+)", found.version).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def _properties(device: Optional[int]) -> Any:
    try:
        import torch
    except ImportError:
        return None
    # In a process of inductor's that was forked to compile, no device can be asked.
    if torch.xpu._is_in_bad_fork():
        from torch._dynamo.device_interface import caching_worker_device_properties

        kept = caching_worker_device_properties.get("xpu")
        return kept[device or 0] if kept else None
    return torch.xpu.get_device_properties(device) if torch.xpu.is_available() else None
