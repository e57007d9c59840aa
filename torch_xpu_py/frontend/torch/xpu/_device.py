from typing import Any, Dict, Optional, Union

import torch
from torch.types import Device

from ._state import _is_compiled, _is_in_bad_fork, _lazy_init
from ._utils import _get_device_index

_device_t = Union[Device, int]


def is_available() -> bool:
    r"""Returns whether there is an XPU device.

    It says nothing where there is none: :func:`init` raises an error that says
    what was looked for. False in a forked child of a process that had used XPU.
    """
    return _is_compiled() and not _is_in_bad_fork() and torch._C._xpu_isAvailable()


def device_count() -> int:
    r"""Returns the number of XPU devices.

    Where there is none it is 0, and there is a warning, once, that says what was
    looked for. 0 in a forked child of a process that had used XPU.
    """
    if not _is_compiled() or _is_in_bad_fork():
        return 0
    return torch._C._xpu_getDeviceCount()


def current_device() -> int:
    r"""Returns the index of the calling thread's device."""
    _lazy_init()
    return torch._C._xpu_getDevice()


def set_device(device: _device_t) -> None:
    r"""Sets the calling thread's device.

    The context manager :class:`device` is preferable in most cases.

    Args:
        device (torch.device or int or str): the device; a negative integer
            changes nothing.
    """
    index = _get_device_index(device)
    if index >= 0:
        _lazy_init()
        torch._C._xpu_setDevice(index)


def _exchange_device(device: int) -> int:
    r"""Sets the device and returns the one before; -1, and nothing else, for a
    negative index."""
    if device < 0:
        return -1
    _lazy_init()
    return torch._C._xpu_exchangeDevice(device)


def _maybe_exchange_device(device: int) -> int:
    r"""As :func:`_exchange_device`."""
    return _exchange_device(device)


class _DeviceGuard:
    r"""Selects the device of an index for a scope; none for a negative one."""

    def __init__(self, index: int):
        self.idx = index
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class device:
    r"""Context manager that selects a device.

    Args:
        device (torch.device or int or str): the device to select. Nothing is
            changed for a negative integer, ``None``, or a device without an
            index.
    """

    def __init__(self, device: Any):
        if device is None or device in ("xpu", torch.device("xpu")):
            self.idx = -1
        else:
            self.idx = _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any):
        _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    r"""Context manager that selects the device of an object.

    Args:
        obj (Tensor or Storage): the object; nothing is changed unless it is on
            an XPU device.
    """

    def __init__(self, obj):
        where = torch.device(obj.device)
        super().__init__(where.index if where.type == "xpu" else -1)


def get_device_name(device: Optional[_device_t] = None) -> str:
    r"""Returns the name of a device.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    return get_device_properties(device).name


def get_device_capability(device: Optional[_device_t] = None) -> Dict[str, Any]:
    r"""Returns what a device can do: all its properties, by their names.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    properties = get_device_properties(device)
    names = [name for name in dir(properties) if not name.startswith("_")]
    return {name: getattr(properties, name) for name in names}


def get_device_properties(
    device: Optional[_device_t] = None,
) -> "torch._C._XpuDeviceProperties":
    r"""Returns the properties of a device, by the names that SYCL gives them.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    return torch._C._xpu_getDeviceProperties(_get_device_index(device, optional=True))


def can_device_access_peer(device: _device_t, peer_device: _device_t) -> bool:
    r"""Returns whether a device can access the memory of another.

    Args:
        device (torch.device or int or str): the device that accesses.
        peer_device (torch.device or int or str): the device whose memory it is.
    """
    _lazy_init()
    return torch._C._xpu_canDeviceAccessPeer(
        _get_device_index(device, optional=True),
        _get_device_index(peer_device, optional=True),
    )


def synchronize(device: Optional[_device_t] = None) -> None:
    r"""Waits for all work in all streams of a device.

    Errors of that work are raised here.

    Args:
        device (torch.device or int or str, optional): the device; the current
            one by default.
    """
    _lazy_init()
    torch._C._xpu_synchronize(_get_device_index(device, optional=True))


_SYNC_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: Union[int, str]) -> None:
    r"""Sets what happens when the host is about to wait for a stream. An operator
    that runs on the host waits as well.

    Args:
        debug_mode (int or str): ``"default"`` or 0: nothing; ``"warn"`` or 1: a
            warning; ``"error"`` or 2: an error.
    """
    _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of "
                f"{', '.join(_SYNC_DEBUG_MODES)}, but got: {debug_mode!r}"
            )
        debug_mode = _SYNC_DEBUG_MODES[debug_mode]
    torch._C._xpu_set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    r"""Returns what :func:`set_sync_debug_mode` has set: 0, 1 or 2."""
    _lazy_init()
    return torch._C._xpu_get_sync_debug_mode()
