r"""What PyTorch's methods of tensors do for arrays of CUDA: see Note [Arrays of CUDA].
All else is left to PyTorch's own."""

from typing import Any, Dict, Optional, Tuple

import torch
from torch.overrides import has_torch_function_unary

from . import _cuda_arrays

_dlpack = torch.Tensor.__dlpack__
_cuda_array_interface = torch.Tensor.__cuda_array_interface__.fget
_from_dlpack = torch.from_dlpack


def _to_dlpack(
    self: torch.Tensor,
    *,
    dl_device: Optional[Tuple[int, int]] = None,
    **kwargs: Any,
) -> Any:
    if (
        dl_device is not None
        and dl_device[0] == torch.utils.dlpack.DLDeviceType.kDLCUDA
        and not has_torch_function_unary(self)
        and self.device.type == "xpu"
    ):
        return _cuda_arrays.to_dlpack(self, dl_device, **kwargs)
    return _dlpack(self, dl_device=dl_device, **kwargs)


def _interface(self: torch.Tensor) -> Dict[str, Any]:
    if not has_torch_function_unary(self) and _cuda_arrays.is_of_cuda(self):
        return _cuda_arrays.cuda_array_interface(self)
    return _cuda_array_interface(self)


def from_dlpack(
    ext_tensor: Any,
    *,
    device: Any = None,
    copy: Optional[bool] = None,
) -> torch.Tensor:
    if not _cuda_arrays.is_array_of_cuda(ext_tensor):
        return _from_dlpack(ext_tensor, device=device, copy=copy)
    tensor = _cuda_arrays.from_dlpack(ext_tensor)
    if device is not None and torch.device(device) != tensor.device and copy is False:
        raise ValueError(
            f"cannot move DLPack tensor from {tensor.device} to {device} without copying. "
            "Set copy=None or copy=True."
        )
    return tensor.to(tensor.device if device is None else device, copy=bool(copy))


def install() -> None:
    for wrapper, own in (
        (_to_dlpack, _dlpack),
        (_interface, _cuda_array_interface),
        (from_dlpack, _from_dlpack),
    ):
        wrapper.__name__, wrapper.__doc__ = own.__name__, own.__doc__
        wrapper.__module__, wrapper.__qualname__ = own.__module__, own.__qualname__
    torch.Tensor.__dlpack__ = _to_dlpack
    torch.Tensor.__cuda_array_interface__ = property(_interface, doc=_interface.__doc__)
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack
