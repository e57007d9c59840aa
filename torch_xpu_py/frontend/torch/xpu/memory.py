import collections
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ._device import _device_t
from ._state import _lazy_init, is_initialized
from ._utils import _get_device_index

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "mem_get_info",
    "memory_summary",
    "set_per_process_memory_fraction",
]

# What is raised where a device has no memory left; one class for all devices.
OutOfMemoryError = torch._C._OutOfMemoryError


def empty_cache() -> None:
    r"""Gives the memory that the caching allocator holds and nothing uses back to
    the SYCL runtime, so that others can use it.

    It waits until the work that uses the memory is done, except for work that
    waits for a host task: that memory stays.

    It does nothing before the first use of XPU.
    """
    if is_initialized():
        torch._C._xpu_emptyCache()


def memory_stats(device: Optional[_device_t] = None) -> Dict[str, Any]:
    r"""Returns statistics of the caching allocator for a device; empty before the
    first use of XPU.

    The keys are those of :func:`torch.cuda.memory_stats`. Those of the form
    ``"<what>.<pool>.<value>"`` have

    - for ``what``: ``allocation`` (blocks that are held), ``segment`` (what was
      obtained from the SYCL runtime), ``active`` (blocks that are held or that a
      stream may still use), ``inactive_split`` (free blocks that cannot be given
      back alone), and in bytes ``allocated_bytes``, ``reserved_bytes``,
      ``active_bytes``, ``inactive_split_bytes``, ``requested_bytes`` (what was
      asked for, before it was rounded);
    - for ``pool``: ``all``, ``large_pool``, ``small_pool``;
    - for ``value``: ``current``, ``peak``, ``allocated`` (the sum of all
      increases), ``freed`` (the sum of all decreases).

    The others are ``num_alloc_retries`` (requests that the runtime refused at
    first, so that the cache was freed), ``num_ooms`` (requests that failed),
    ``num_device_alloc`` and ``num_device_free`` (calls to the SYCL runtime),
    ``max_split_size`` (bytes, -1 where there is no limit), and
    ``oversize_allocations.<value>`` and ``oversize_segments.<value>`` for what
    is larger than that.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    stats = memory_stats_as_nested_dict(device)
    return collections.OrderedDict(sorted(_flattened(stats)))


def _flattened(stats: Dict[str, Any], prefix: str = "") -> Iterator[Tuple[str, Any]]:
    for key, value in stats.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def memory_stats_as_nested_dict(device: Optional[_device_t] = None) -> Dict[str, Any]:
    r"""Returns the result of :func:`memory_stats` as a dictionary of dictionaries.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    if not is_initialized():
        return {}
    return torch._C._xpu_memoryStats(_get_device_index(device, optional=True))


def memory_allocated(device: Optional[_device_t] = None) -> int:
    r"""Returns the bytes of a device that tensors occupy.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Optional[_device_t] = None) -> int:
    r"""Returns the most bytes of a device that tensors occupied at a time, since
    the process began or :func:`reset_peak_memory_stats` was called.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Optional[_device_t] = None) -> int:
    r"""Returns the bytes of a device that the caching allocator holds.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Optional[_device_t] = None) -> int:
    r"""Returns the most bytes of a device that the caching allocator held at a
    time, since the process began or :func:`reset_peak_memory_stats` was called.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Optional[_device_t] = None) -> None:
    r"""Lets each ``peak`` of :func:`memory_stats` begin anew at the present value.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    torch._C._xpu_resetPeakMemoryStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Optional[_device_t] = None) -> None:
    r"""Lets each ``allocated`` and ``freed`` of :func:`memory_stats`, and the
    counts of retries and failures, begin anew at 0.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    torch._C._xpu_resetAccumulatedMemoryStats(_get_device_index(device, optional=True))


def mem_get_info(device: Optional[_device_t] = None) -> Tuple[int, int]:
    r"""Returns the bytes of a device that are free, and all it has.

    Of the CPU device, what the system or the container has available. Raises
    where SYCL does not tell what is free. What the device has in all is
    ``total_memory`` of :func:`get_device_properties`.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    return torch._C._xpu_getMemoryInfo(_get_device_index(device, optional=True))


def set_per_process_memory_fraction(
    fraction: float, device: Optional[_device_t] = None
) -> None:
    r"""Limits what this process reserves on a device to a part of its memory.

    A request that would exceed it fails as one for which there is no memory.

    Args:
        fraction (float): the part, from 0 to 1.
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    if not isinstance(fraction, float):
        raise TypeError(
            f"Invalid type for fraction argument, must be `float`: {fraction!r}"
        )
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _lazy_init()
    torch._C._xpu_setMemoryFraction(fraction, _get_device_index(device, optional=True))


# What memory_summary shows: key, title, whether it is in bytes.
_POOLED = [
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "XPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "XPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
]
_UNPOOLED = [
    ("oversize_allocations", "Oversize allocations", False),
    ("oversize_segments", "Oversize XPU segments", False),
]
_POOLS = [("large_pool", "from large pool"), ("small_pool", "from small pool")]
_COLUMNS = [
    ("current", "Cur Usage"),
    ("peak", "Peak Usage"),
    ("allocated", "Tot Alloc"),
    ("freed", "Tot Freed"),
]
_WIDTH = 75  # of a line, without the bars at its ends


def memory_summary(
    device: Optional[_device_t] = None, abbreviated: bool = False
) -> str:
    r"""Returns :func:`memory_stats` as a table for people.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
        abbreviated (bool, optional): whether to leave out the two pools.
            Default: ``False``.
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    stats = memory_stats_as_nested_dict(index)
    counts = (
        f"XPU OOMs: {stats['num_ooms']}",
        f"XPU alloc retries: {stats['num_alloc_retries']}",
    )
    lines = [
        "=" * _WIDTH,
        f"PyTorch XPU memory summary, device ID {index}".center(_WIDTH),
        "-" * _WIDTH,
        "|".join((counts[0].center(_WIDTH // 2), counts[1].center(_WIDTH // 2))),
        "=" * _WIDTH,
        _row("Metric".center(21), [title for _, title in _COLUMNS]),
    ]
    for key, title, is_bytes in _POOLED:
        lines.append("-" * _WIDTH)
        # Parts are shown in the unit of the whole.
        units = _units(stats[key]["all"], is_bytes)
        lines.append(_row(title, _cells(stats[key]["all"], units)))
        for pool, pool_title in [] if abbreviated else _POOLS:
            cells = _cells(stats[key][pool], units)
            lines.append(_row(pool_title.rjust(21), cells))
    for key, title, is_bytes in _UNPOOLED:
        lines.append("-" * _WIDTH)
        lines.append(_row(title, _cells(stats[key], _units(stats[key], is_bytes))))
    lines.append("=" * _WIDTH)
    return "".join(f"|{line}|\n" for line in lines)


def _row(title: str, cells: List[str]) -> str:
    return f" {title:<21} | " + " | ".join(f"{cell:<10}" for cell in cells) + " "


def _units(stat: Dict[str, int], is_bytes: bool) -> Dict[str, Tuple[int, str]]:
    r"""For each value of a statistic, what to divide it by, and the unit's name."""
    names = ["B", "KB", "MB", "GB", "TB", "PB"] if is_bytes else ["", "K", "M"]
    step, enough = (1024, 768 * 1024) if is_bytes else (1000, 750 * 1000)
    units = {}
    for key, value in stat.items():
        power = 0
        while power + 1 < len(names) and value / step**power >= enough:
            power += 1
        units[key] = (step**power, names[power])
    return units


def _cells(stat: Dict[str, int], units: Dict[str, Tuple[int, str]]) -> List[str]:
    cells = []
    for key, _ in _COLUMNS:
        divisor, name = units[key]
        cells.append(f"{stat[key] // divisor:7d} {name}")
    return cells
