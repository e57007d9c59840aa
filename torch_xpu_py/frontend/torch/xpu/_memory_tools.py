r"""What :mod:`torch.xpu.memory` has for those who look into the allocator, or put
another in its place."""

import ctypes
import pickle
import sys
from typing import Any, Callable, Dict, List, Optional

import torch

from ._device import _device_t
from ._state import _check_compiled, _lazy_init, is_initialized
from .streams import _check_stream, current_stream, Stream

__all__ = [
    "XPUPluggableAllocator",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "memory_snapshot",
]


def caching_allocator_alloc(
    size: int, device: Optional[_device_t] = None, stream: Optional[Stream] = None
) -> int:
    r"""Allocates device memory for use by another library; returns its address.

    :func:`caching_allocator_delete` frees it.

    Args:
        size (int): the number of bytes.
        device (torch.device or int or str, optional): the device; the current
            one by default.
        stream (Stream, optional): the stream that uses the memory; the device's
            current one by default.
    """
    _lazy_init()
    if stream is None:
        stream = current_stream(device)
    _check_stream(stream)
    return torch._C._xpu_cachingAllocator_raw_alloc(size, stream)


def caching_allocator_delete(mem_ptr: int) -> None:
    r"""Frees what :func:`caching_allocator_alloc` returned.

    Args:
        mem_ptr (int): the address.
    """
    torch._C._xpu_cachingAllocator_raw_delete(mem_ptr)


def memory_snapshot() -> List[Dict[str, Any]]:
    r"""Returns all segments of all devices with their blocks, as
    :func:`torch.cuda.memory_snapshot` does; none before the first use of XPU.
    """
    return _snapshot()["segments"]


def _record_memory_history(
    enabled: Optional[str] = "all",
    context: Optional[str] = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
) -> None:
    r"""Starts or stops the record of what the allocator does, which
    :func:`_snapshot` returns.

    Args:
        enabled (str, optional): ``"all"``: keep a trace of all events, and where
            each block that is held was allocated; ``"state"``: keep the latter
            only; ``None``: stop. Default: ``"all"``.
        context (str, optional): which events have a stack: ``"state"``:
            allocations, as long as their block is held; ``"alloc"``: allocations
            in the trace too; ``"all"``: frees too; ``None``: none of them. An
            event has a stack only if its thread holds the GIL. Default:
            ``"all"``.
        stacks (str, optional): ``"python"``, or ``"all"``, which is the same: no
            frames of C++ are recorded. Default: ``"all"``.
        max_entries (int, optional): how many events are kept; the newest stay.
    """
    _check_compiled()
    torch._C._xpu_recordMemoryHistory(enabled, context, stacks, max_entries)


def _snapshot() -> Dict[str, Any]:
    r"""Returns the allocator's segments with their blocks (``"segments"``), and
    for each device a list of recorded events (``"device_traces"``).

    It has the format of :func:`torch.cuda.memory._snapshot` that PyTorch's memory
    visualiser reads, at https://pytorch.org/memory_viz.
    """
    if not is_initialized():
        return {"segments": [], "device_traces": []}
    return torch._C._xpu_memorySnapshot()


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    r"""Writes :func:`_snapshot` to a file, for PyTorch's memory visualiser.

    Args:
        filename (str, optional): the file. Default: ``"dump_snapshot.pickle"``.
    """
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _attach_out_of_memory_observer(
    observer: Callable[[int, int, int, int], None]
) -> None:
    r"""Calls a function before an out-of-memory error is raised.

    Args:
        observer (callable): is given the index of the device, the bytes that were
            asked for, the bytes of the device's memory, and those of it that are
            free (0 where SYCL does not tell). It cannot be detached.
    """
    _check_compiled()
    torch._C._xpu_attach_out_of_memory_observer(observer)


class XPUPluggableAllocator:
    r"""An allocator whose functions are in a shared library.

    Args:
        path_to_so_file (str): the library.
        alloc_fn_name (str): the name of its function
            ``void* (size_t size, int device, sycl::queue* queue)``.
        free_fn_name (str): the name of its function
            ``void (void* ptr, size_t size, int device, sycl::queue* queue)``.
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        _check_compiled()
        library = ctypes.CDLL(path_to_so_file)
        alloc, free = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            for name in (alloc_fn_name, free_fn_name)
        )
        self._allocator = torch._C._xpu_customAllocator(alloc, free)

    def allocator(self) -> "torch._C._xpu_XPUAllocator":
        r"""Returns the allocator as the runtime knows it."""
        return self._allocator


def change_current_allocator(allocator: XPUPluggableAllocator) -> None:
    r"""Makes an allocator the one from which all XPU tensors get their memory.

    It must be called before the first use of XPU and raises afterwards.

    Args:
        allocator (XPUPluggableAllocator): the allocator.
    """
    torch._C._xpu_changeCurrentAllocator(allocator.allocator())
