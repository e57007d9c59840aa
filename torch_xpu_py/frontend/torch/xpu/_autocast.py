r"""What :class:`torch.autocast` keeps for XPU. It is the calling thread's, and
needs no device."""

import torch


def is_autocast_xpu_enabled() -> bool:
    r"""Returns whether operators on XPU tensors are cast, as inside
    ``torch.autocast("xpu")``."""
    return torch._C._is_autocast_xpu_enabled()


def set_autocast_xpu_enabled(enabled: bool) -> None:
    r"""Sets whether operators on XPU tensors are cast.

    Use :class:`torch.autocast`, which undoes it at the end of its scope.

    Args:
        enabled (bool): whether they are.
    """
    torch._C._set_autocast_xpu_enabled(enabled)


def get_autocast_xpu_dtype() -> torch.dtype:
    r"""Returns the type that operators on XPU tensors are cast to; by default it
    is ``torch.bfloat16``."""
    return torch._C._get_autocast_xpu_dtype()


def set_autocast_xpu_dtype(dtype: torch.dtype) -> None:
    r"""Sets the type that operators on XPU tensors are cast to.

    Use :class:`torch.autocast`, which undoes it at the end of its scope.

    Args:
        dtype (torch.dtype): ``torch.bfloat16`` or ``torch.float16``.
    """
    torch._C._set_autocast_xpu_dtype(dtype)
