r"""What tensors on XPU have beyond other devices: operators that run on the host, and
memory in common with it; and what they do not have, memory in common with another process.
The legacy types of tensors, which PyTorch makes for the CPU and CUDA only."""

import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any, Dict, NoReturn, Tuple, Union

import torch
from torch.multiprocessing import reductions

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "fallback_statistics",
    "reset_fallback_statistics",
]


def fallback_statistics() -> Dict[str, Dict[str, int]]:
    r"""Says which operators had no kernel for XPU and ran the CPU's.

    Returns a dictionary with the operators' names, such as ``aten::add.out``. For each
    there is a dictionary with ``calls``, how often that was since the start of the
    process or :func:`reset_fallback_statistics`, and ``bytes_copied``, how many bytes
    went between host and device for it. Nothing is copied where the memory of the
    device is host memory.

    With ``TORCH_XPU_FALLBACK=warn`` in the environment there is a warning when an
    operator falls back for the first time, with ``TORCH_XPU_FALLBACK=error`` an error.
    """
    return torch._C._xpu_fallbackStatistics()  # type: ignore[attr-defined]


def reset_fallback_statistics() -> None:
    r"""Sets all counts of :func:`fallback_statistics` to zero."""
    torch._C._xpu_resetFallbackStatistics()  # type: ignore[attr-defined]


def _host_alias_storage(storage: Any) -> Any:
    r"""Returns a CPU storage over the memory of an XPU storage, without a copy.

    It keeps the memory alive, and has the size that the XPU storage has now. Neither
    side waits for the other: call :func:`synchronize` between work on a stream and use
    by the host. Raises RuntimeError where the device's memory is not host memory; SYCL's
    CPU device has such memory.
    """
    return torch._C._xpu_hostAliasStorage(storage)  # type: ignore[attr-defined]


def _device_alias_storage(storage: Any, device: Union[int, str, torch.device] = "xpu") -> Any:
    r"""Returns an XPU storage over the memory of a CPU storage: the reverse of
    ``_host_alias_storage``."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index is None:
        index = torch.xpu.current_device()
    return torch._C._xpu_deviceAliasStorage(storage, index)  # type: ignore[attr-defined]


def _reduce_storage(storage: Any) -> Tuple[Any, ...]:
    r"""What ``torch.multiprocessing`` does with a storage, and an error for those of XPU."""
    if storage.device.type == "xpu":
        # A queue of multiprocessing pickles in this thread of its own, which prints an
        # error and drops what was put: the receiver, such as a DataLoader, would wait for
        # ever. So it gets the error.
        if threading.current_thread().name == "QueueFeederThread":
            return _refuse, ()
        _refuse()
    return reductions.reduce_storage(storage)


def _refuse() -> NoReturn:
    raise RuntimeError(
        "A tensor on XPU cannot be sent to another process, which cannot use its "
        "memory; send a copy on the CPU, tensor.cpu(), and move that to XPU there"
    )


ForkingPickler.register(torch.UntypedStorage, _reduce_storage)


class _TensorType(type):
    r"""The type of ``torch.xpu.FloatTensor`` and its like."""

    dtype: torch.dtype

    def __instancecheck__(cls, tensor: Any) -> bool:
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "xpu"
            and tensor.dtype == cls.dtype
            and tensor.layout == torch.strided
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        return torch.empty(0, dtype=cls.dtype, device="xpu").new(*args, **kwargs)


def _tensor_type(name: str, dtype: torch.dtype) -> Any:
    r"""Makes the legacy type of this name."""
    # Tensor.type() takes a class by its name in C, which is all of the first argument.
    return _TensorType(
        f"torch.xpu.{name}",
        (),
        {
            "__doc__": f"Tensors of {dtype} on XPU: for isinstance() and Tensor.type().",
            "__module__": "torch.xpu",
            "__qualname__": name,
            "dtype": dtype,
            "is_cuda": False,
            "is_sparse": False,
            "layout": torch.strided,
        },
    )


BFloat16Tensor = _tensor_type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _tensor_type("BoolTensor", torch.bool)
ByteTensor = _tensor_type("ByteTensor", torch.uint8)
CharTensor = _tensor_type("CharTensor", torch.int8)
DoubleTensor = _tensor_type("DoubleTensor", torch.float64)
FloatTensor = _tensor_type("FloatTensor", torch.float32)
HalfTensor = _tensor_type("HalfTensor", torch.float16)
IntTensor = _tensor_type("IntTensor", torch.int32)
LongTensor = _tensor_type("LongTensor", torch.int64)
ShortTensor = _tensor_type("ShortTensor", torch.int16)
