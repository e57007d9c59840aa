r"""What ``torch.nn.parallel.comm``, and so ``DataParallel``, wants from ``torch._C``
and a build for the CPU lacks: copies between the devices of one process.

Devices are indices, with -1 for the CPU.
"""

from contextlib import nullcontext
from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor


def broadcast(tensor: Tensor, devices: Sequence[int]) -> List[Tensor]:
    r"""Returns a tensor for each device; the tensor itself where it is there."""
    return [_to(tensor, device) for device in devices]


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> List[Tensor]:
    r"""Copies a tensor to those of ``out``."""
    return [one.copy_(tensor, non_blocking=True) for one in out]


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int
) -> List[List[Tensor]]:
    r"""Returns a list of all tensors for each device. They are copied one by one:
    ``buffer_size`` is for what copies many at a time."""
    return [[_to(tensor, device) for tensor in tensors] for device in devices]


def scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Optional[Sequence[int]],
    dim: int,
    streams: Optional[Sequence[Any]],
) -> List[Tensor]:
    r"""Cuts a tensor along ``dim``, and copies each part to a device, on its stream."""
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split(list(chunk_sizes), dim)
    parts = []
    for chunk, device, stream in zip(chunks, devices, streams or [None] * len(chunks)):
        with stream or nullcontext():
            parts.append(_to(chunk, device))
    return parts


def scatter_out(
    tensor: Tensor,
    out: Sequence[Tensor],
    dim: int,
    streams: Optional[Sequence[Any]],
) -> List[Tensor]:
    r"""Cuts a tensor along ``dim`` into parts that fit those of ``out``."""
    chunks = tensor.split([one.size(dim) for one in out], dim)
    for chunk, one, stream in zip(chunks, out, streams or [None] * len(out)):
        with stream or nullcontext():
            one.copy_(chunk, non_blocking=True)
    return list(out)


def gather(tensors: Sequence[Tensor], dim: int, destination: Optional[int]) -> Tensor:
    r"""Puts tensors together along ``dim``, on the current device without another."""
    if destination is None:
        destination = torch.xpu.current_device()
    return torch.cat([_to(tensor, destination) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    r"""Puts tensors together along ``dim``, into ``out``."""
    parts = out.split([tensor.size(dim) for tensor in tensors], dim)
    for part, tensor in zip(parts, tensors):
        part.copy_(tensor)
    return out


def _to(tensor: Tensor, device: int) -> Tensor:
    if device < 0:
        return tensor.to("cpu")
    return tensor.to(torch.device("xpu", device), non_blocking=True)


def register() -> None:
    r"""Puts the functions where PyTorch looks for them."""
    for function in (
        broadcast,
        broadcast_out,
        broadcast_coalesced,
        scatter,
        scatter_out,
        gather,
        gather_out,
    ):
        setattr(torch._C, f"_{function.__name__}", function)
