# Owner(s): ["module: intel"]
"""Convolutions by kernels. As those of test_xpu_kernels.py, the tests run in a process with
TORCH_XPU_KERNELS=1."""

import itertools
import random
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from test_xpu_products import choose_onednn
from torch.testing._internal.common_utils import run_tests, slowTest

DTYPES = [torch.float, torch.half, torch.bfloat16, torch.double]
PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestConvolutionProcesses(kernels.Processes):
    @slowTest
    def test_convolutions(self):
        self.run_class("TestKernelConvolutions", **kernels.WITHOUT_VECTORS)

    @slowTest
    def test_convolutions_by_onednn(self):
        self.run_class("TestKernelConvolutionsByOneDnn", **kernels.WITHOUT_VECTORS)


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelConvolutions(kernels.BesideCpu):
    onednn = False

    def setUp(self):
        super().setUp()
        choose_onednn(self, self.onednn)
        # By default cuDNN computes float in TF32.
        self.addCleanup(torch._C._set_cudnn_allow_tf32, torch._C._get_cudnn_allow_tf32())
        torch._C._set_cudnn_allow_tf32(False)

    def test_all_kinds(self):
        chooser = random.Random(0)
        dtypes = kernels.types_of(self, DTYPES)
        steps = [(1, 0, 1), (1, 2, 1), (2, 1, 1), (3, 0, 2), (2, 2, 2), (4, 3, 6)]
        channels = [(1, 4, 10), (1, 1, 1), (2, 6, 20), (6, 6, 6), (6, 6, 12)]
        kinds = list(itertools.product((1, 2, 3), (False, True), channels, steps))
        kinds = chooser.sample(kinds, 90)
        for i, (dims, transposed, (groups, inputs, outputs), axis) in enumerate(kinds):
            dtype = dtypes[i % len(dtypes)]
            stride, padding, dilation = zip(axis, *(chooser.choice(steps) for _ in range(dims - 1)))
            taps = [chooser.randint(1, 4) for _ in range(dims)]
            reach = [d * (k - 1) + 1 for d, k in zip(dilation, taps)]
            least = [max(r - 2 * p, 1) for r, p in zip(reach, padding)]
            if transposed:
                least = [1 + 2 * p // s + (r == 1) for r, p, s in zip(reach, padding, stride)]
            size = [n + chooser.randint(0, 5) for n in least]
            x = torch.randn(chooser.randint(1, 3), inputs, *size).to(dtype)
            shape = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
            weight = torch.randn(*shape, *taps).to(dtype) / 4
            more = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
            if transposed:
                most = [max(s, d) for s, d in zip(stride, dilation)]
                more["output_padding"] = [chooser.randrange(n) for n in most]
            given = [x, weight]
            if i % 3:
                given.append(torch.randn(outputs).to(dtype))
            layout = chooser.choice(["plain", "last", "weight last", "strided"])
            if dims in LAST and layout != "plain":
                at = 1 if layout == "weight last" else 0
                given[at] = given[at].contiguous(memory_format=LAST[dims])
            if layout == "strided":
                given[0] = x.expand(2, *x.shape)[1].transpose(0, -1).contiguous().transpose(0, -1)
            function = (TRANSPOSED if transposed else PLAIN)[dims]
            msg = f"{i}: {dims} {transposed} {x.shape} {weight.shape} {more} {dtype} {layout}"
            self.check(lambda *given: function(*given, **more), *given, msg=msg)
        self.no_fallbacks()

    def test_pixels(self):
        """Of one tap: a product for each pixel, or for all."""
        for dims, last, images in itertools.product((1, 2, 3), (False, True), (1, 3)):
            for i, dtype in enumerate(kernels.types_of(self, DTYPES)):
                x = torch.randn(images, 6, *(5, 4, 3)[:dims]).to(dtype)
                weight = torch.randn(10, 6, *[1] * dims).to(dtype)
                if last and dims in LAST:
                    x = x.contiguous(memory_format=LAST[dims])
                given = [x, weight, torch.randn(10).to(dtype)][: 2 + i % 2]
                self.check(PLAIN[dims], *given, msg=f"{dims} {last} {images} {dtype}")
        for last in (False, True):  # long sums, for which a product is divided
            x = torch.randn(2, 3000, 2, 2)
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
            self.check(F.conv2d, x, torch.randn(5, 3000, 1, 1) / 64, torch.randn(5))
        self.no_fallbacks()

    def test_many_tiles(self):
        """Several tiles each way, and sums of parts."""
        for dtype in kernels.types_of(self, DTYPES):
            for last in (False, True):
                x = torch.randn(2, 70, 19, 9).to(dtype)
                weight = torch.randn(66, 70, 3, 3).to(dtype) / 16
                if last:
                    x = x.contiguous(memory_format=torch.channels_last)
                bias = torch.randn(66).to(dtype)
                self.check(lambda *given: F.conv2d(*given, padding=1), x, weight, bias)
        x, weight = torch.randn(1, 520, 3, 3), torch.randn(9, 520, 3, 3) / 64
        results = [self.check(F.conv2d, x, weight) for _ in range(2)]
        self.assertEqual(results[0], results[1], rtol=0, atol=0)
        x, weight = torch.randn(3, 2, 40, 41), torch.randn(3, 2, 2, 2)
        results = [self.check(F.conv2d, x, weight) for _ in range(2)]
        self.assertEqual(results[0], results[1], rtol=0, atol=0)
        self.no_fallbacks()

    def test_benchmark(self):
        """Where cuDNN computes, the fastest way is found with the first result."""
        x, weight = torch.randn(2, 8, 9, 9), torch.randn(4, 8, 3, 3)
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
            results = [self.check(F.conv2d, x, weight) for _ in range(2)]
        self.assertEqual(*results, rtol=0, atol=0)
        self.no_fallbacks()

    def test_formats(self):
        for dims, function in ((2, F.conv2d), (3, F.conv3d)):
            x, weight = torch.randn(2, 4, *[6] * dims).xpu(), torch.randn(8, 4, *[3] * dims).xpu()
            for lasts in itertools.product((False, True), repeat=2):
                given = [
                    t.contiguous(memory_format=LAST[dims] if last else torch.contiguous_format)
                    for t, last in zip((x, weight), lasts)
                ]
                for t in given:
                    t.requires_grad_()
                y = function(*given)
                is_last = y.is_contiguous(memory_format=LAST[dims])
                self.assertEqual((is_last, y.is_contiguous()), (any(lasts), not any(lasts)))
                of_x, of_weight = torch.autograd.grad(y.sum(), given)
                self.assertEqual(of_x.is_contiguous(memory_format=LAST[dims]), any(lasts))
                self.assertEqual(of_weight.stride(), given[1].stride())
        self.no_fallbacks()

    def test_one_column(self):
        """Of the result, or one row: those oneDNN computes wrong on some CPUs."""
        for (width, taps, step), dtype in itertools.product(
            (((2, 4), 4, (2, 1, 1)), ((9, 14), 4, (4, 3, 6)), ((5, 1), 3, (2, 1, 1))),
            kernels.types_of(self, DTYPES),
        ):
            stride, padding, dilation = ((1, n) for n in step)
            x, weight = torch.randn(2, 6, *width), torch.randn(10, 3, 2, taps) / 4
            x = x.to(dtype).contiguous(memory_format=torch.channels_last)
            more = {"stride": stride, "padding": (0, padding[1]), "dilation": dilation}
            self.check(lambda *given: F.conv2d(*given, groups=2, **more), x, weight.to(dtype))
        self.no_fallbacks()

    def test_other_ways(self):
        x, weight, bias = torch.randn(3, 4, 9), torch.randn(6, 4, 3), torch.randn(6)
        self.check(F.conv1d, x[0], weight, bias)  # without images
        self.check(lambda *given: F.conv1d(*given, padding="same", dilation=2), x, weight, bias)
        self.check(lambda *given: F.conv1d(*given, padding="same"), x, torch.randn(6, 4, 2))
        self.check(F.conv_tbc, torch.randn(7, 3, 4), torch.randn(3, 4, 6), bias)
        for shape in ((0, 4, 9), (0, 4, 3)):
            self.check(F.conv1d, torch.randn(shape), weight, bias)
        x, weight = x.xpu(), weight.xpu().requires_grad_()
        (of_weight,) = torch.autograd.grad(F.conv1d(x, weight).sum(), weight)
        expected = x.cpu().unfold(2, 7, 1).sum((0, 3)).expand(6, 4, 3)
        self.assertEqual(of_weight.cpu(), expected)
        frozen = F.conv1d(x.requires_grad_(), weight.detach()).sum()
        (of_x,) = torch.autograd.grad(frozen, x)
        self.assertEqual(of_x.shape, x.shape)
        fallbacks = {name for name in kernels.fallbacks() if "conv" in name}
        self.assertEqual(fallbacks, set())

    def test_second_gradients(self):
        for transposed, groups in ((False, 1), (False, 2), (True, 1)):
            x, weight = torch.randn(2, 4, 5, 6), torch.randn(4, 4 // groups, 3, 2)
            function = F.conv_transpose2d if transposed else F.conv2d
            results = []
            for device in ("cpu", "xpu"):
                given = [t.to(device).requires_grad_() for t in (x, weight)]
                y = function(*given, stride=2, padding=1, groups=groups)
                first = torch.autograd.grad(y.square().sum(), given, create_graph=True)
                second = torch.autograd.grad(sum(t.square().sum() for t in first), given)
                results.append([t.cpu() for t in second])
            self.assertEqual(results[1], results[0], rtol=1e-4, atol=1e-2)
        self.no_fallbacks()

    def test_host(self):
        """What kernels do not take, and errors."""
        x, weight = torch.arange(12).view(1, 2, 6), torch.arange(8).view(2, 2, 2)
        self.assertEqual(F.conv1d(x.xpu(), weight.xpu()).cpu(), F.conv1d(x, weight))
        self.assertIn("aten::convolution", kernels.fallbacks())
        for function, shapes, more in (
            (F.conv2d, [(1, 2, 3, 3), (1, 3, 2, 2)], {}),
            (F.conv2d, [(1, 2, 3, 3), (1, 2, 4, 4)], {}),
            (F.conv1d, [(1, 2, 3), (1, 2, 2)], {"stride": 0}),
            (F.conv1d, [(1, 2, 3), (1, 2, 2), (2,)], {}),
            (F.conv1d, [(1, 2, 3), (1, 2, 2), (1,)], {"dtype": torch.double}),
            (F.conv_transpose2d, [(1, 2, 3, 3), (2, 1, 2, 2)], {"output_padding": 1}),
            (F.conv_transpose2d, [(1, 2, 1, 1), (2, 1, 2, 2)], {"padding": 1}),
        ):
            texts = []
            dtype = more.pop("dtype", torch.float)
            for device in ("cpu", "xpu"):
                given = [torch.ones(shape).to(device) for shape in shapes]
                given[1] = given[1].to(dtype)
                with self.assertRaises(RuntimeError) as caught:
                    function(*given, **more)
                texts.append(str(caught.exception).splitlines()[0])
            self.assertEqual(texts[1], texts[0])

    def test_huge_strides(self):
        results = []
        for device in ("cpu", "xpu"):
            x, weight = (torch.ones(1, 1, n, n).to(device).requires_grad_() for n in (5, 2))
            F.conv2d(x, weight, stride=2**33).sum().backward()
            results.append([x.grad.cpu(), weight.grad.cpu()])
        self.assertEqual(*results)

    def test_more_than_31_bits(self):
        """Images that are too large together, of which few elements are touched."""
        far = 2**26
        places = [0, 1, far // 2, far // 2 + 1]
        small = torch.randn(33, 1, 4).bfloat16()
        weight, bias = torch.randn(3, 1, 2).bfloat16(), torch.randn(3).bfloat16()
        x = torch.empty(33, 1, far, dtype=small.dtype, device="xpu")
        for i, place in enumerate(places):
            x[..., place] = small[..., i].xpu()
        results = []
        for given, stride in ((small.double(), 2), (x, far // 2)):
            like = {"dtype": given.dtype, "device": given.device}
            own = [each.to(**like).requires_grad_() for each in (weight, bias)]
            y = F.conv1d(given, *own, stride=stride)
            grad = torch.arange(y.numel()).fmod(7).view(y.shape)
            results.append([y, *torch.autograd.grad(y, own, grad.to(**like))])
        for got, expected in zip(results[1], results[0]):
            self.assertEqual(got.cpu().double(), expected, rtol=0.03, atol=0.03)
        if torch.xpu.get_device_properties(0).type == "gpu":
            y = torch.randn(33, 3, 2, dtype=x.dtype, device="xpu")
            got = F.conv_transpose1d(y, weight.xpu(), stride=far)
            expected = F.conv_transpose1d(y.cpu().double(), weight.double(), stride=2)
            found = got[..., [0, 1, far, far + 1]].cpu().double()
            self.assertEqual(found, expected, rtol=0.03, atol=0.03)
            self.assertEqual(got[..., 2].count_nonzero().item(), 0)
        self.no_fallbacks()


class TestKernelConvolutionsByOneDnn(TestKernelConvolutions):
    onednn = True


if __name__ == "__main__":
    run_tests()
