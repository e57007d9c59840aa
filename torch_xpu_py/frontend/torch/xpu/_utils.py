from typing import Any

import torch


def _get_device_index(device: Any, optional: bool = False) -> int:
    r"""Returns the index of an XPU device.

    Args:
        device (torch.device or int or str): the device; an integer is returned
            as it is.
        optional (bool): whether ``None`` and a device without an index stand
            for the current device. They are an error otherwise.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.xpu.device):
        return device.idx
    if isinstance(device, int):
        return device
    if device is not None and not isinstance(device, torch.device):
        raise TypeError(
            f"Expected a torch.device, an integer or a string, but got: {device!r}"
        )
    if device is not None and device.type != "xpu":
        raise ValueError(f"Expected a xpu device, but got: {device}")
    if device is not None and device.index is not None:
        return device.index
    if not optional:
        raise ValueError(
            "Expected a torch.device with a specified index or an integer, "
            f"but got: {device}"
        )
    return torch.xpu.current_device()


def _dummy_type(name: str) -> type:
    r"""A base class in place of one that a build without XPU does not have."""

    def __new__(cls, *args, **kwargs):
        torch.xpu._lazy_init()  # raises, and says why

    return type(name, (object,), {"__new__": __new__})
