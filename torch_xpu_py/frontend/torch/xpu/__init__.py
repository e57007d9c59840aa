r"""
This package is the runtime for XPU devices: Intel GPUs and other devices of
SYCL.

It is initialized by the first use of a device, so that it can always be
imported; :func:`is_available` tells whether there is a device.
"""

from typing import Tuple

import torch

from . import _state
from ._device import (
    _DeviceGuard,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    is_available,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from ._mapping import mapping, set_mapping
from ._state import (
    _is_compiled,
    _is_in_bad_fork,
    _lazy_call,
    _lazy_init,
    DeferredXpuCallError,
    init,
    is_initialized,
)
from ._utils import _get_device_index
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .streams import *  # noqa: F403
from .streams import _set_stream_by_id

# The default generators of all devices, from the first use on.
default_generators: Tuple[torch._C.Generator, ...] = ()

__all__ = [
    "DeferredXpuCallError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "mapping",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_mapping",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
]

# What is public here is so by this name, wherever it is defined.
for _name in __all__:
    if "._" in getattr(globals()[_name], "__module__", ""):
        globals()[_name].__module__ = __name__
