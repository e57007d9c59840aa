# Owner(s): ["module: intel"]
"""Attention on the device. As those of test_xpu_kernels.py, the tests run in a process with
TORCH_XPU_KERNELS=1."""

import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestAttentionProcesses(kernels.Processes):
    def test_attention(self):
        self.run_class("TestKernelAttention")


def of_one_tensor(images, heads, queries, numbers):
    """Queries, keys and values as a model has them, side by side in one tensor."""
    whole = torch.randn(images, queries, 3, heads, numbers)
    return whole.permute(2, 0, 3, 1, 4).unbind()


def apart(images, heads, queries, numbers, keys=None, of_value=None):
    return (
        torch.randn(images, heads, queries, numbers),
        torch.randn(images, heads, keys or queries, numbers),
        torch.randn(images, heads, keys or queries, of_value or numbers),
    )


CASES = {
    "one": (lambda: apart(1, 1, 1, 8), {}),
    "some": (lambda: apart(2, 3, 7, 8), {}),
    "of one tensor": (lambda: of_one_tensor(2, 3, 70, 16), {}),
    "causal": (lambda: of_one_tensor(2, 3, 70, 16), {"is_causal": True}),
    "causal, in blocks": (lambda: apart(1, 2, 300, 8), {"is_causal": True}),
    "causal, more keys": (lambda: apart(1, 2, 140, 8, keys=200), {"is_causal": True}),
    "causal, fewer keys": (lambda: apart(1, 2, 200, 8, keys=90), {"is_causal": True}),
    "more keys": (lambda: apart(2, 2, 5, 8, keys=33), {}),
    "scaled": (lambda: apart(2, 2, 5, 8), {"scale": 0.3}),
    "mask": (lambda: apart(2, 3, 7, 8), {"attn_mask": torch.randn(7, 7)}),
    "mask of heads": (lambda: apart(2, 3, 7, 8), {"attn_mask": torch.randn(1, 3, 7, 7)}),
    "mask of images": (lambda: apart(2, 3, 7, 8, keys=9), {"attn_mask": torch.randn(2, 1, 1, 9)}),
    "mask of bools": (lambda: apart(2, 3, 7, 8), {"attn_mask": torch.rand(7, 7).tril() + 1 > 1}),
    "no gradient": (lambda: apart(2, 3, 7, 8), {}),
}


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelAttention(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        self.assertEqual(kernels.fallbacks(), {})
        super().tearDown()

    def test_cases(self):
        """Results and gradients beside what the CPU composes in double."""
        dtypes = [torch.float, torch.bfloat16, torch.half, torch.double]
        dtypes = [dtype for dtype in dtypes if kernels.has(dtype)]
        for name, (make, options) in CASES.items():
            inputs = make()
            mask = options.get("attn_mask")
            for dtype in dtypes:
                results = []
                for to in (
                    lambda x, dtype=dtype: x.to(dtype).double(),
                    lambda x, dtype=dtype: x.to(dtype).xpu(),
                ):
                    moved = [to(x).detach().requires_grad_(name != "no gradient") for x in inputs]
                    own = dict(options)
                    if mask is not None:
                        own["attn_mask"] = mask.to(moved[0].device)
                        if mask.is_floating_point():
                            own["attn_mask"] = to(mask)
                    y = F.scaled_dot_product_attention(*moved, **own)
                    results.append([y.detach()])
                    if y.requires_grad:
                        y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape).to(y))
                        results[-1] += [x.grad for x in moved]
                tolerance = kernels.TOLERANCE[dtype] * 8
                for expected, got in zip(*results):
                    self.assertEqual(got.dtype, dtype)
                    self.assertEqual(
                        got.cpu().double(), expected, rtol=tolerance, atol=tolerance, msg=f"{name}, {dtype}"
                    )

    def test_a_query_that_sees_nothing(self):
        q, k, v = (x.xpu().requires_grad_() for x in apart(1, 2, 4, 8))
        mask = torch.ones(4, 4, dtype=torch.bool).tril(-1).xpu()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y.sum().backward()
        self.assertEqual(y[:, :, 0].abs().sum().item(), 0)
        for x in (q, k, v):
            self.assertTrue(x.grad.isfinite().all())
        torch._C._xpu_resetFallbackStatistics()

    def test_the_same_from_run_to_run(self):
        results = []
        for _ in range(2):
            torch.manual_seed(1)
            x = [x.xpu().requires_grad_() for x in apart(2, 2, 150, 16)]
            y = F.scaled_dot_product_attention(*x, is_causal=True)
            y.square().sum().backward()
            results.append([y.detach().cpu(), *(one.grad.cpu() for one in x)])
        self.assertEqual(*results, rtol=0, atol=0)

    def test_results_have_the_cpus_strides(self):
        x = of_one_tensor(2, 3, 7, 8)
        y = F.scaled_dot_product_attention(*(one.xpu() for one in x))
        self.assertTrue(y.transpose(1, 2).is_contiguous())


if __name__ == "__main__":
    run_tests()
