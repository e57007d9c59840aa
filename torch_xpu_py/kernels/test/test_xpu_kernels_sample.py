# Owner(s): ["module: intel"]
"""Pooling, upsampling and padding by kernels. As those of test_xpu_kernels.py, the tests
run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase

FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]
INF, NAN = float("inf"), float("nan")


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestSampleProcesses(kernels.Processes):
    def test_sample(self):
        self.run_class("TestKernelSample", **kernels.WITHOUT_VECTORS)


def resized(mode, **kwargs):
    return lambda x: F.interpolate(x, mode=mode, **kwargs)


def padded(mode, *padding):
    return lambda x: F.pad(x, padding, mode)


LINE, IMAGE, BODY = (2, 3, 17), (2, 3, 9, 14), (2, 3, 5, 6, 7)
IMAGES = (11, 29, 5, 9)  # so many that an item takes several rows
CASES = [
    (LINE, lambda x: F.avg_pool1d(x, 3, 2, 1)),
    (IMAGE, lambda x: F.avg_pool2d(x, 2)),
    (IMAGE, lambda x: F.avg_pool2d(x, (3, 4), (2, 3), (1, 2))),
    (IMAGE, lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    (IMAGE, lambda x: F.avg_pool2d(x, 4, 3, 1, ceil_mode=True)),
    (IMAGE, lambda x: F.avg_pool2d(x, 3, 5, divisor_override=2)),
    (BODY, lambda x: F.avg_pool3d(x, (2, 3, 2), 2, 1)),
    (BODY, lambda x: F.avg_pool3d(x, 2, count_include_pad=False, divisor_override=3)),
    (LINE, lambda x: F.adaptive_avg_pool1d(x, 5)),
    (IMAGE, lambda x: F.adaptive_avg_pool2d(x, (4, 20))),
    (IMAGE, lambda x: F.adaptive_avg_pool2d(x, (9, 7))),
    (BODY, lambda x: F.adaptive_avg_pool3d(x, (2, 4, 7))),
    (LINE, lambda x: F.adaptive_max_pool1d(x, 5)),
    (IMAGE, lambda x: F.adaptive_max_pool2d(x, (4, 20))),
    (IMAGE, lambda x: F.adaptive_max_pool2d(x[0], (9, 7))),
    (BODY, lambda x: F.adaptive_max_pool3d(x, (2, 4, 9))),
    (LINE, lambda x: F.max_pool1d(x, 3, 2, 1)),
    (IMAGE, lambda x: F.max_pool2d(x, 2)),
    (IMAGE, lambda x: F.max_pool2d(x, (3, 4), (2, 1), (1, 2), (2, 3))),
    (IMAGE, lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
    (BODY, lambda x: F.max_pool3d(x, 2)),
    (BODY, lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 3), 1, 2, ceil_mode=True)),
    (LINE, lambda x: F.avg_pool1d(x[0], 2)),
    (IMAGE, lambda x: F.max_pool2d(x[0], 3, 2, 1)),
    (IMAGE, lambda x: F.adaptive_avg_pool2d(x[0], 3)),
    (BODY, lambda x: F.max_pool3d(x[0], 2)),
    (LINE, resized("nearest", size=40)),
    (IMAGE, resized("nearest", scale_factor=2)),
    (IMAGE, resized("nearest", scale_factor=(1.7, 0.4))),
    (IMAGE, resized("nearest", scale_factor=1.7, recompute_scale_factor=True)),
    (BODY, resized("nearest", size=(9, 6, 4))),
    (LINE, resized("nearest-exact", size=7)),
    (IMAGE, resized("nearest-exact", size=(20, 5))),
    (BODY, resized("nearest-exact", scale_factor=1.5)),
    (LINE, resized("linear", size=30)),
    (LINE, resized("linear", size=30, align_corners=True)),
    (LINE, resized("linear", scale_factor=1.05)),  # of the same size, which is not resized
    (BODY, resized("trilinear", scale_factor=(1.1, 2, 0.5))),
    (IMAGE, resized("bilinear", size=(20, 5))),
    (IMAGE, resized("bilinear", size=(1, 31), align_corners=True)),
    (IMAGE, resized("bilinear", scale_factor=(0.6, 2.3))),
    (BODY, resized("trilinear", size=(7, 3, 9))),
    (BODY, resized("trilinear", scale_factor=2, align_corners=True)),
    (IMAGE, resized("bicubic", size=(20, 5))),
    (IMAGE, resized("bicubic", size=(3, 40))),
    (IMAGE, resized("bicubic", size=(1, 3), align_corners=True)),
    (IMAGE, resized("bicubic", scale_factor=1.9, align_corners=True)),
    (IMAGES, resized("bilinear", size=(3, 16))),
    (IMAGES, resized("bicubic", size=(9, 4))),
    (LINE, padded("reflect", 3, 5)),
    (IMAGE, padded("reflect", 3, 12, 8, 0)),
    (BODY, padded("reflect", 1, 2, 5, 0, 3, 4)),
    (LINE, padded("replicate", 3, 25)),
    (IMAGE, padded("replicate", 3, 20, -2, 1)),
    (BODY, padded("replicate", 1, 2, -1, 0, 3, 4)),
    (IMAGE, lambda x: F.pad(x[0], (1, 2, 3, 4), "reflect")),
    (IMAGE, lambda x: F.pad(x[0], (1, 2, 3, 4), "replicate")),
]


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelSample(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self):
        self.assertEqual(kernels.fallbacks(), {})

    def layouts(self, x):
        yield x
        yield x.transpose(-1, -2).contiguous().transpose(-1, -2)
        yield x[:1, 1:, ..., 1:]
        if x.dim() > 3:
            last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
            yield x.contiguous(memory_format=last)

    def check(self, function, x, msg, dtype):
        results = []
        for moved in (x.double(), x.xpu()):
            moved = moved.detach().requires_grad_()
            y = function(moved)
            torch.manual_seed(1)
            gradient = torch.rand(y.shape).to(dtype)
            y.backward(gradient.to(y))
            results.append((y.detach(), moved.grad))
        for got, expected in zip(results[1], results[0]):
            self.assertEqual(got.dtype, dtype)
            if x.dim() == got.dim() == 4:
                last = {"memory_format": torch.channels_last}
                kept = (expected.is_contiguous(**last), got.is_contiguous(**last))
                self.assertLessEqual(*kept, msg=msg)
            tolerance = kernels.TOLERANCE[dtype] * 2
            self.assertEqual(
                got.cpu(), expected.to(dtype), rtol=tolerance, atol=tolerance, msg=msg
            )
    def test_cases(self):
        for i, (shape, function) in enumerate(CASES):
            dtypes = [dtype for dtype in FLOATING if kernels.has(dtype)]
            if torch.xpu.get_device_properties(0).type == "cpu":
                dtypes = [dtypes[i % len(dtypes)]]
            for dtype in dtypes:
                torch.manual_seed(0)
                x = torch.randn(shape).to(dtype)
                for k, moved in enumerate(self.layouts(x)):
                    self.check(function, moved, f"case {i}, layout {k}, {dtype}", dtype)
        self.no_fallbacks()

    def test_max_pool(self):
        """Indices, NaN and infinities, and the same bits in each run."""
        x = torch.tensor([[1, NAN, 2, -INF], [NAN, 3, -INF, -INF], [0, 0, -INF, -INF]])
        x = x[None, None].repeat(2, 3, 1, 1)
        for y in (x, x.contiguous(memory_format=torch.channels_last)):
            for size, stride in ((2, 1), (2, 2), (3, 1)):
                got = F.max_pool2d(y.xpu(), size, stride, return_indices=True)
                expected = F.max_pool2d(y, size, stride, return_indices=True)
                for one, other in zip(got, expected):
                    self.assertEqual(one.cpu(), other)
            for size in ((2, 3), (3, 2), (1, 1), (5, 6)):
                got = F.adaptive_max_pool2d(y.xpu(), size, return_indices=True)
                expected = F.adaptive_max_pool2d(y, size, return_indices=True)
                for one, other in zip(got, expected):
                    self.assertEqual(one.cpu(), other)
        results = []
        for _ in range(3):
            torch.manual_seed(0)
            z = torch.randn(2, 3, 40, 40).xpu().requires_grad_()
            y = F.max_pool2d(z, 5, 1) + F.interpolate(z, size=(36, 36), mode="bilinear")
            y.backward(torch.rand(y.shape).xpu())
            results.append(z.grad.cpu())
        self.assertEqual(results[1], results[0], rtol=0, atol=0)
        self.assertEqual(results[2], results[0], rtol=0, atol=0)
        self.no_fallbacks()

    def test_integers(self):
        """Elements are chosen; those of PyTorch 1.13 for the CPU are real numbers."""
        cases = [case for case in CASES if case[1].__qualname__.startswith("padded")]
        for dtype in (torch.uint8, torch.int, torch.long, torch.complex64):
            for shape, function in cases:
                x = torch.randint(0, 200, shape).to(dtype)
                expected = function(x.real.double()).to(dtype)
                self.assertEqual(function(x.xpu()).cpu(), expected)
        for dtype, mode in itertools.product((torch.uint8, torch.long), ("nearest", "nearest-exact")):
            for shape, size in ((LINE, (40,)), (IMAGE, (20, 5)), (BODY, (9, 6, 4))):
                x = torch.randint(0, 200, shape).to(dtype)
                expected = F.interpolate(x.float(), size=size, mode=mode).to(dtype)
                self.assertEqual(F.interpolate(x.xpu(), size=size, mode=mode).cpu(), expected)
            x = torch.randint(0, 200, IMAGE).to(dtype)
            expected = F.interpolate(x.float(), scale_factor=(1.7, 0.4), mode=mode).to(dtype)
            got = F.interpolate(x.xpu(), scale_factor=(1.7, 0.4), mode=mode)
            self.assertEqual(got.cpu(), expected)
        self.no_fallbacks()

    def test_out(self):
        x = torch.randn(2, 3, 8, 9)
        for function in (
            lambda x, out: torch.ops.aten.avg_pool2d.out(x, [2, 2], out=out),
            lambda x, out: torch.ops.aten.upsample_nearest2d.out(x, [4, 4], out=out),
            lambda x, out: torch.ops.aten.reflection_pad3d.out(x, [1] * 6, out=out),
            lambda x, out: torch.ops.aten.upsample_bicubic2d.out(x, [5, 4], False, out=out),
        ):
            got, expected = torch.empty(0).xpu(), torch.empty(0)
            self.assertIs(function(x.xpu(), got), got)
            self.assertEqual(got.cpu(), function(x, expected))
        out = torch.empty(4, 4, 3, 2).xpu().permute(3, 2, 0, 1)
        torch.ops.aten.avg_pool2d.out(x.xpu(), [2, 2], out=out)
        self.assertEqual(out.cpu(), F.avg_pool2d(x, 2))
        self.no_fallbacks()

    def test_far_places(self):
        """That float has no parts of, or that a scale finds beyond the ends."""
        x = torch.ones(1, 1, 40_000_000).xpu().requires_grad_()
        y = F.interpolate(x, size=20_000_000, mode="linear")
        self.assertEqual((y.amin().item(), y.amax().item()), (1, 1))
        y.backward(torch.ones_like(y))
        self.assertEqual(x.grad.sum(dtype=torch.double).item(), y.numel())
        x = torch.arange(16.0).view(1, 1, 4, 4)
        for function in (torch.ops.aten.upsample_bilinear2d, torch.ops.aten.upsample_bicubic2d):
            for scale in (1e-2, 1e-7, 1e-10):  # the CPU may read behind the end
                got = function(x.xpu(), [3, 5], False, scale, scale)
                self.assertEqual(got.cpu(), torch.full((1, 1, 3, 5), 15.0))
        self.no_fallbacks()

    def test_errors(self):
        """The texts are PyTorch's; and what has no elements is as on the CPU."""
        for function in (
            lambda x: F.avg_pool2d(x, 20),
            lambda x: F.avg_pool2d(x, 2, padding=2),
            lambda x: F.max_pool2d(x, 2, stride=0),
            lambda x: F.max_pool2d(x.view(2, 3, 2, 4, 9), 2),
            lambda x: F.max_pool3d(x.view(2, 3, 2, 4, 9), 2, padding=2),
            lambda x: F.pad(x, (9, 0, 0, 0), "reflect"),
            lambda x: F.pad(x, (0, -9, 0, 0), "replicate"),
            lambda x: F.interpolate(x, size=(0, 3)),
            lambda x: F.adaptive_avg_pool2d(x, (-1, 2)),
            lambda x: F.avg_pool2d(x[:0], 2),
            lambda x: F.adaptive_avg_pool2d(x[:0], 2),
            lambda x: F.interpolate(x[:0], size=(3, 3), mode="bilinear"),
            lambda x: F.avg_pool2d(x.long(), 2),
            lambda x: F.max_pool2d(x.int(), 2),
            lambda x: torch.ops.aten.max_pool2d_with_indices_backward(
                x, x, [2, 2], [2, 2], [0, 0], [1, 1], False, x.long()
            ),
        ):
            results = []
            for device in ("cpu", "xpu"):
                try:
                    results.append(function(torch.ones(2, 3, 8, 9).to(device)).cpu())
                except (RuntimeError, ValueError, NotImplementedError) as error:
                    results.append(str(error).splitlines()[0])
            if isinstance(results[0], torch.Tensor) or "not implemented for" not in results[0]:
                self.assertEqual(*results)
            else:
                self.assertIn("not implemented for", results[1])

    @unittest.skipIf(torch.xpu.device_count() < 2, "needs two devices")
    def test_two_devices(self):
        x = torch.randn(2, 3, 8, 9).to("xpu:1")  # not the current one
        for function in (
            lambda x: F.max_pool2d(x, 2),
            lambda x: F.adaptive_avg_pool2d(x, 3),
            lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
        ):
            self.assertEqual(function(x).cpu(), function(x.cpu()))
            self.assertEqual(function(x).device, x.device)

    def test_training(self):
        """A small network with all of it, whose products alone are the host's."""
        results = []
        for device, last in itertools.product(("cpu", "xpu"), (False, True)):
            torch.manual_seed(0)
            x = torch.randn(2, 4, 12, 10).to(device)
            w = torch.randn(4, 4, 1, 1).to(device).requires_grad_()
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
            torch._C._xpu_resetFallbackStatistics()
            y = F.max_pool2d(F.pad(x, (1, 1, 1, 1), "reflect") * w[0], 3, 2)
            y = F.interpolate(F.avg_pool2d(y, 2) * w[1], scale_factor=3, mode="bilinear")
            y = F.adaptive_avg_pool2d(F.pad(y, (2, 0, 1, 1), "replicate").tanh(), 4)
            y.square().mean().backward()
            results.append((y.detach().cpu(), w.grad.cpu()))
        for result in results[1:]:
            self.assertEqual(result, results[0])
        self.no_fallbacks()


if __name__ == "__main__":
    run_tests()
