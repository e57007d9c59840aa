"""For tests that compare XPU with the CPU, and that depend on whether the memory of the device
is host memory."""

import os
import subprocess
import sys
import unittest

import torch

_TIMEOUT = 300  # seconds for one file


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


def run_as_on_a_gpu(test, file):
    """Runs all of a test file with the CPU device treated like a GPU, for `test`."""
    result = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", os.path.basename(file)],
        cwd=os.path.dirname(os.path.abspath(file)),
        env={**os.environ, "TORCH_XPU_HOST_MEMORY": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
    )
    test.assertEqual(result.returncode, 0, result.stdout)
    # What needs_host_memory skips, at least this test.
    test.assertIn("memory is not host memory", result.stdout)
