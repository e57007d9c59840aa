"""For tests that compare XPU with the CPU, and that depend on whether the memory of the device
is host memory."""

import unittest

import torch


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


def on_cpu_and_xpu(function, *tensors):
    """The results of a function of tensors on both devices, as CPU tensors."""
    expected = function(*tensors)
    found = function(*(tensor.to("xpu") for tensor in tensors))
    assert found.device.type == "xpu", found.device
    return expected, found.cpu()


def has_host_memory():
    if not torch.xpu.is_available():
        return False
    try:
        torch.xpu._host_alias_storage(storage_of(torch.empty(1, device="xpu")))
    except RuntimeError:
        return False
    return True


needs_host_memory = unittest.skipIf(
    not has_host_memory(), "the device's memory is not host memory"
)
