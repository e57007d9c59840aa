r"""Arrays in common with libraries of CUDA, without a copy, on an NVIDIA device.

Note [Arrays of CUDA]
~~~~~~~~~~~~~~~~~~~~~
SYCL works in CUDA's primary context of a device, so that memory of XPU is CUDA's memory,
and the other way round. Libraries know it by ``__cuda_array_interface__`` or as DLPack's
``kDLCUDA``. PyTorch knows it as XPU and says ``kDLOneAPI``, unless it is asked for
``kDLCUDA``: only the device in the capsule differs.

The consumer of an array passes the stream that it will use it on, and the producer makes
that stream wait for the work so far. Ours is the native stream of the current stream, so
that what runs there is work of the stream from then on.
"""

from typing import Any, Dict, Optional, Tuple

import torch

__all__ = ["as_cuda_array", "from_cuda_array"]

_DL_CUDA = 2
_DL_ONE_API = 14
_LEGACY_STREAM = 1

_TYPES = {
    torch.bool: "|b1",
    torch.uint8: "|u1",
    torch.int8: "|i1",
    torch.int16: "<i2",
    torch.int32: "<i4",
    torch.int64: "<i8",
    torch.float16: "<f2",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.complex64: "<c8",
    torch.complex128: "<c16",
}


def is_of_cuda(tensor: torch.Tensor) -> bool:
    r"""Whether a tensor is on XPU, and its memory CUDA's."""
    return tensor.device.type == "xpu" and _cuda_device(tensor.device.index) is not None


def _cuda_device(index: int) -> Optional[int]:
    return torch._C._xpu_cudaDevice(index)  # type: ignore[attr-defined]


def cuda_array_interface(tensor: torch.Tensor) -> Dict[str, Any]:
    r"""The ``__cuda_array_interface__`` of a tensor for which ``is_of_cuda``."""
    if tensor.layout != torch.strided or tensor.dtype not in _TYPES:
        raise AttributeError(
            f"A tensor of {tensor.dtype} and {tensor.layout} has no "
            "__cuda_array_interface__: convert it to a dense one of a type of NumPy"
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. "
            "If gradients aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    strides = None
    if not tensor.is_contiguous():
        strides = tuple(s * tensor.element_size() for s in tensor.stride())
    return {
        "typestr": _TYPES[tensor.dtype],
        "shape": tuple(tensor.shape),
        "strides": strides,
        "data": (tensor.data_ptr() if tensor.numel() > 0 else 0, False),
        "stream": torch.xpu.current_stream(tensor.device).native_stream,
        "version": 3,
    }


def to_dlpack(
    tensor: torch.Tensor,
    dl_device: Tuple[int, int],
    stream: Optional[int] = -1,
    **kwargs: Any,
) -> Any:
    r"""The capsule of a tensor as ``kDLCUDA``; BufferError if it is not on that device.

    ``stream`` is the ``CUstream`` that waits for the tensor: None for the legacy default
    stream, -1 for none.
    """
    number = _cuda_device(tensor.device.index) if tensor.device.type == "xpu" else None
    if number is None or tuple(dl_device) != (_DL_CUDA, number):
        raise BufferError(
            f"A tensor on {tensor.device} cannot be exported as DLPack's device "
            f"{tuple(dl_device)}: "
            + ("it is no NVIDIA device" if number is None else f"it is {(_DL_CUDA, number)}")
        )
    capsule = tensor.__dlpack__(**kwargs)
    torch._C._xpu_setDLPackDevice(capsule, *dl_device)  # type: ignore[attr-defined]
    stream = _LEGACY_STREAM if stream is None else stream
    if stream not in (-1, torch.xpu.current_stream(tensor.device).native_stream):
        torch._C._xpu_letCudaStreamWait(stream, tensor.device.index)  # type: ignore[attr-defined]
    return capsule


class _CudaArray:
    def __init__(self, tensor: torch.Tensor):
        self._tensor = tensor

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_DL_CUDA, _cuda_device(self._tensor.device.index) or 0)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._tensor.__dlpack__(**{"dl_device": self.__dlpack_device__(), **kwargs})

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return self._tensor.__cuda_array_interface__


def as_cuda_array(tensor: torch.Tensor) -> Any:
    r"""Returns an object that shares the memory of a tensor with libraries of CUDA.

    It has what they ask for: ``__dlpack__`` and ``__dlpack_device__``, which say
    ``kDLCUDA`` where the tensor's own say ``kDLOneAPI``, and ``__cuda_array_interface__``::

        jax.dlpack.from_dlpack(torch.xpu.as_cuda_array(x))

    Args:
        tensor (Tensor): a tensor on an NVIDIA device; another one raises ValueError.
    """
    if not is_of_cuda(tensor):
        raise ValueError(
            f"as_cuda_array was given a tensor on {tensor.device}, which is no NVIDIA device"
        )
    return _CudaArray(tensor)


def _device_of_cuda(number: int) -> int:
    r"""The index that XPU gives a device of CUDA."""
    for index in range(torch.xpu.device_count()):
        if _cuda_device(index) == number:
            return index
    raise ValueError(f"CUDA's device {number} is no device of XPU: see TORCH_XPU_MAPPING")


def is_array_of_cuda(source: Any) -> bool:
    r"""Whether an object gives out DLPack's ``kDLCUDA``."""
    return hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] == _DL_CUDA


def from_dlpack(source: Any) -> torch.Tensor:
    r"""The tensor on XPU over the memory of an object for which ``is_array_of_cuda``."""
    index = _device_of_cuda(source.__dlpack_device__()[1])
    stream = torch.xpu.current_stream(index).native_stream
    capsule = source.__dlpack__(stream=stream)
    torch._C._xpu_setDLPackDevice(capsule, _DL_ONE_API, index)  # type: ignore[attr-defined]
    return torch._C._from_dlpack(capsule)  # type: ignore[attr-defined]


def from_cuda_array(source: Any) -> torch.Tensor:
    r"""Returns a tensor on XPU over the memory of an array of CUDA, without a copy.

    Args:
        source: an object with ``__cuda_array_interface__``, such as an array of Numba
            or CuPy, on an NVIDIA device of XPU. Its stream, if it names one, is waited for.
    """
    interface = source.__cuda_array_interface__
    dtypes = {name: dtype for dtype, name in _TYPES.items()}
    dtype = dtypes.get(interface["typestr"])
    if dtype is None or interface.get("mask") is not None:
        raise TypeError(
            f"A tensor cannot be over an array of type '{interface['typestr']}'"
            + (" with a mask" if interface.get("mask") is not None else "")
            + f": the types are {', '.join(dtypes)}"
        )
    shape = list(interface["shape"])
    size = torch.empty(0, dtype=dtype).element_size()
    strides = [s // size for s in interface.get("strides") or ()]
    if not strides:
        strides = list(torch.empty(shape, dtype=dtype, device="meta").stride())
    if interface.get("stream") is not None:
        torch._C._xpu_synchronizeCudaStream(interface["stream"])  # type: ignore[attr-defined]
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device="xpu")
    return torch._C._xpu_tensorOver(  # type: ignore[attr-defined]
        interface["data"][0], shape, strides, dtype, source
    )
