# Owner(s): ["module: intel"]
"""softmax on XPU that takes float16 and returns float32."""

import unittest

import torch
from torch.testing._internal.common_utils import run_tests, TestCase

aten = torch.ops.aten
needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


@needs_device
class TestSoftmax(TestCase):
    def test_half_to_float(self):
        x = torch.randn(3, 4, dtype=torch.half)
        for function, operator in (
            (torch.softmax, aten._softmax),
            (torch.log_softmax, aten._log_softmax),
        ):
            host = x.float().requires_grad_()
            expected = function(host, 1)
            device = x.xpu().requires_grad_()
            out = torch.empty(0, device="xpu")
            results = [
                operator(device, 1, True),
                function(device, 1, dtype=torch.float),
                operator.out(device.detach(), 1, True, out=out),
            ]
            for result in results:
                self.assertEqual(result.dtype, torch.float)
                self.assertEqual(result.cpu(), expected)
            expected[0, 1].backward()
            for result in results[:2]:
                (gradient,) = torch.autograd.grad(result[0, 1], device)
                self.assertEqual(gradient.dtype, torch.half)
                self.assertEqual(gradient.cpu(), host.grad.half())


if __name__ == "__main__":
    run_tests()
