# Owner(s): ["module: intel"]
"""XPU as a device type of PyTorch's device-generic tests:

    TORCH_TEST_DEVICES=xpu_test_base.py python -m pytest test_view_ops.py -k XPU

common_device_type.py runs this file with its own globals: see
Note [How to extend DeviceTypeTestBase to add new test device] there.
"""

import fnmatch
import functools
import sys
from unittest import mock

import torch

# What warns once in a process may have done so in the CPU's test.
torch.set_warn_always(True)

# Tests for devices with kernels in PyTorch itself are for XPU too.
_module = sys.modules["torch.testing._internal.common_device_type"]
_module.NATIVE_DEVICES = (*_module.NATIVE_DEVICES, "xpu")


def _active_for_the_cpus_kernels(is_active):
    def of_xpu(self, cls_name, test_name, device_type, dtype):
        device_type = "cpu" if self.device_type == "cpu" else device_type
        return is_active(self, cls_name, test_name, device_type, dtype)

    return of_xpu


# Operators, by patterns of names, that PyTorch refuses to call with float16 or bfloat16
# before there is a kernel, or in making the samples.
_REFUSED = (
    *("*fft_*fft", "*fft_*fft[2n]", "stft", "istft", "complex", "view_as_complex"),
    *("cholesky_inverse", "cholesky_solve", "logdet", "pinverse"),
    *("linalg_inv*", "linalg_lstsq*", "linalg_matrix_rank_hermitian", "linalg_pinv*"),
    *("linalg_slogdet", "linalg_tensorinv", "linalg_vander", "_refs_linalg_svd*"),
    *("*quantile", "sparse_sampled_addmm"),
)


# XPU computes float16 and bfloat16 in float32 where the CPU's kernels lack them. No
# other test is made for these types, whose tolerances are those of CUDA's kernels.
def _with_narrow_types(test_dtypes):
    def widened(dtypes):
        narrow = {torch.float16, torch.bfloat16} if torch.float32 in dtypes else set()
        return lambda device_type: {*dtypes, *narrow}

    @functools.wraps(test_dtypes)
    def of_xpu(self, device, op):
        if any(fnmatch.fnmatchcase(op.formatted_name, one) for one in _REFUSED):
            return test_dtypes(self, device, op)
        forward = widened(op.supported_dtypes(device))
        backward = widened(op.supported_backward_dtypes(device))
        with mock.patch.multiple(
            op, supported_dtypes=forward, supported_backward_dtypes=backward
        ):
            test_dtypes(self, device, op)

    return of_xpu


class XPUTestBase(DeviceTypeTestBase):  # noqa: F821
    device_type = "xpu"

    @classmethod
    def setUpClass(cls):
        torch.xpu.init()
        cls.primary_device = f"xpu:{torch.xpu.current_device()}"

    @classmethod
    def get_primary_device(cls):
        return cls.primary_device

    @classmethod
    def get_all_devices(cls):
        others = {f"xpu:{index}" for index in range(torch.xpu.device_count())}
        return [cls.primary_device, *sorted(others - {cls.primary_device})]

    # What is skipped, expected to fail or given a tolerance because of the CPU's kernels
    # is so for XPU too: it runs the same.
    @classmethod
    def instantiate_test(cls, name, test, *, generic_cls=None):
        # Not at the top: it imports the module that runs this file.
        from torch.testing._internal.opinfo.core import DecorateInfo

        if name == "test_dtypes" and generic_cls.__name__ == "TestCommon":
            test = _with_narrow_types(test)
        is_active = _active_for_the_cpus_kernels(DecorateInfo.is_active)
        with mock.patch.object(DecorateInfo, "is_active", is_active):
            super().instantiate_test(name, test, generic_cls=generic_cls)

    # A failed assertion in a kernel of CUDA ends all work of its process.
    def _should_stop_test_suite(self):
        return False


TEST_CLASS = XPUTestBase
