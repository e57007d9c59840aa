r"""``torch.distributed`` for XPU tensors: the backend ``xpu_gloo``, which is gloo.

Note [Collectives on XPU] in GlooBackend.cpp says how.
"""

import atexit
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

NAME = "xpu_gloo"


def register() -> None:
    r"""Makes it known to ``torch.distributed``, as the default for XPU. Starts
    nothing."""
    if dist.is_available() and dist.is_gloo_available():
        dist.Backend.register_backend(NAME, _create, devices=["xpu"])
        # PyTorch names a backend here that a CPU build does not have.
        dist.Backend.default_device_backend_map["xpu"] = NAME
        # Packages ask for that one by its name.
        c10d: Any = dist.distributed_c10d
        c10d._XCCL_AVAILABLE = True
        c10d.ProcessGroupXCCL = _ForXccl
        atexit.register(torch._C._xpu_endGloo)  # type: ignore[attr-defined]


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    gloo._set_sequence_number_for_group()
    return torch._C._xpu_glooBackend(gloo)  # type: ignore[attr-defined]


class _ForXccl:
    r"""Makes ``xpu_gloo`` where PyTorch makes ``xccl``."""

    Options = SimpleNamespace

    def __new__(cls, store: Any, rank: int, size: int, options: Any) -> Any:
        return _create(store, rank, size, options._timeout)
