# Owner(s): ["module: intel"]
"""Operators that are made of those that have kernels. As those of test_xpu_kernels.py, the
tests run in a process with TORCH_XPU_KERNELS=1."""

import importlib.util
import os
import itertools
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase

NAN = float("nan")


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestComposedProcesses(kernels.Processes):
    def test_composed(self):
        self.run_class("TestKernelComposed", **kernels.WITHOUT_VECTORS)

    @unittest.skipIf(not importlib.util.find_spec("test_xpu_ops"), "it is with later releases")
    @slowTest
    def test_samples(self):
        """PyTorch's own samples, some that TEST_SEED chooses."""
        share = {"TEST_SHARE": os.environ.get("TEST_SHARE", "0.003")}
        self.assertIn("OK", self.run_python("-m", "unittest", "test_xpu_ops", CI="1", **share))


def addr(x, **numbers):
    """The gradients of the vectors are products of a matrix, which the host computes."""
    return torch.addr(x, x[:, 0].detach(), x[0].detach(), **numbers)


CASES = [
    ((6, 4), lambda x: addr(x, beta=2, alpha=3)),
    ((6, 4), lambda x: addr(x, beta=0)),
    ((6, 4), lambda x: F.glu(x)),
    ((6, 4), lambda x: F.glu(x.t(), 1)),
    ((2, 8, 3), lambda x: F.glu(x, -2)),
    ((2, 12, 3, 5), lambda x: F.pixel_shuffle(x, 2)),
    ((2, 1, 6, 4), lambda x: F.pixel_unshuffle(x, 2)),
    ((5, 7), lambda x: x.trace()),
    ((4, 3), lambda x: torch.linalg.cross(x, x.flip(0).square())),
    ((3, 4, 2), lambda x: torch.linalg.cross(x, x[:, :1] + 1, dim=0)),
    ((4, 5, 3), lambda x: x.renorm(2, 1, 1.5)),
    ((4, 5), lambda x: (x * 9).renorm(1, 0, 7)),
    ((4, 5), lambda x: torch.narrow_copy(x.detach(), 1, 2, 2) + x[:, :2]),
    ((9, 4), lambda x: x.unfold(0, 3, 2)),
    ((9, 4), lambda x: x.unfold(0, 4, 1)),
    ((9, 4), lambda x: x.unfold(0, 2, 4)),
    ((9, 4), lambda x: x.unfold(0, 8, 1)),
    ((5, 6), lambda x: x.nansum()),
    ((5, 6), lambda x: x.nansum(1, keepdim=True)),
    ((4, 3, 5), lambda x: F.prelu(x, x[0, :, 0])),
    ((4, 3), lambda x: F.prelu(x.t(), x[0, 0])),
    ((2, 3, 12), lambda x: F.max_unpool1d(*F.max_pool1d(x, 3, return_indices=True), 3)),
    ((2, 3, 8, 6), lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    ((3, 4, 6, 4), lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2)),
    ((5, 6), lambda x: torch.view_as_complex(x.float().reshape(5, 3, 2)).real.to(x.dtype)),
]
COMPLEX = [
    lambda x, y: x + y,
    lambda x, y: torch.sub(x, y, alpha=2),
    lambda x, y: torch.add(x, y, alpha=1 - 2j),
    lambda x, y: x * y / (x + 9),
    lambda x, y: x * y.real + y.imag,
    lambda x, y: x.real * 2j - (1 + 3j),
    lambda x, y: y * x.real[:, :1] + torch.tensor(2j) * x.real - y / x.imag[:, 1:2],
    lambda x, y: 1 / x - x.reciprocal() * 2,
    lambda x, y: torch.addcmul(x, y, y, value=2) + torch.addcdiv(x, y, x, value=0.5),
    lambda x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, x),
    lambda x, y: x.exp() + x.sigmoid(),
    lambda x, y: x.log() + x.log2() + x.log10(),
    lambda x, y: x.sqrt() + x.rsqrt(),
    lambda x, y: x.sin() + x.cos() + x.tan(),
    lambda x, y: x.sinh() + x.cosh() + x.tanh(),
    lambda x, y: x.asin() + x.acos() + x.atan(),
    lambda x, y: x.asinh() + x.acosh() + x.atanh(),
    lambda x, y: x**2 + x**3 + x**-1 + x**0.5,
    lambda x, y: x**y + x ** (1.5 + 1j),
    lambda x, y: x.abs() + x.angle(),
    lambda x, y: x.sgn() * -y,
    lambda x, y: torch.polar(x.real, x.imag),
    lambda x, y: torch.where(x.real > 0, x, y).masked_fill(x.imag > 0, 3 + 1j),
    lambda x, y: (x == x[0]).logical_xor(y != x[1]).logical_or(x).logical_and(y),
    lambda x, y: x.sum() + x.mean() + x.sum(1, keepdim=True) + x.mean(0),
    lambda x, y: torch.linalg.vector_norm(x, 2, 1) + x.norm(),
    lambda x, y: x.var() + x.std(1) + torch.var_mean(x.conj(), 1)[1],
    lambda x, y: x.std(0, unbiased=False, keepdim=True) + torch.std_mean(x, 0)[0],
    lambda x, y: x.prod() + y.conj().prod(0) + x.prod(1, keepdim=True) + x[:3].prod(0),
    lambda x, y: x.cumsum(1) + x.conj().cumsum(-1),
    lambda x, y: x.cumprod(1) + x.conj().cumprod(0),
    lambda x, y: x[[3, 0, 3]] + x.flip(0)[:3],
    lambda x, y: x.index_add(0, x.real[:, 0].long().clamp(0, 3), x, alpha=2),
    lambda x, y: x.unfold(1, 3, 1) + x.trace(),
]
if kernels.LATER:  # what PyTorch 1.13 has not got on the CPU
    COMPLEX.append(lambda x, y: x.exp2() + x.expm1() + x.log1p() + F.silu(x.detach()))
    CASES.append(((2, 12, 3, 5), lambda x: F.channel_shuffle(x, 4)))
    CASES.append(((2, 3, 12, 5), lambda x: F.channel_shuffle(x.transpose(1, 2), 4)))


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelComposed(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        self.assertEqual(kernels.fallbacks(), {})
        super().tearDown()

    def test_cases(self):
        """Results and gradients, of a tensor without gaps and of one with."""
        types = [torch.float, torch.half, torch.bfloat16]
        for i, (shape, function) in enumerate(CASES):
            for gaps in (False, True):
                dtype = types[(i + gaps) % 3]
                torch.manual_seed(0)
                x = torch.randn(*shape, 1 + gaps).to(dtype)[..., 0]
                results = []
                for moved in (x.double(), x.xpu()):
                    moved = moved.detach().requires_grad_()
                    y = function(moved)
                    torch.manual_seed(1)
                    y.backward(torch.rand(y.shape).to(dtype).to(y))
                    results.append((y.detach(), moved.grad))
                tolerance = kernels.TOLERANCE[dtype] * 4
                for expected, got in zip(*results):
                    self.assertEqual(got.dtype, dtype)
                    self.assertEqual(
                        got.cpu(),
                        expected.to(dtype),
                        rtol=tolerance,
                        atol=tolerance,
                        msg=f"case {i}, {dtype}, gaps {gaps}",
                    )

    def test_complex(self):
        """Results and gradients."""
        for i, function in enumerate(COMPLEX):
            dtype = torch.complex128 if i % 2 and kernels.has(torch.double) else torch.complex64
            tolerance = 1e-4 if dtype == torch.complex64 else 1e-10
            torch.manual_seed(i)
            x, y = torch.randn(4, 5, dtype=dtype), torch.randn(5, dtype=dtype)
            for moved in (function, lambda x, y: function(x.t().contiguous().t(), y)):
                self.assertEqual(
                    *kernels.on_both(moved, x, y),
                    rtol=tolerance,
                    atol=tolerance,
                    msg=f"{i}, {dtype}, transposed: {moved is not function}",
                )

    def test_complex_numbers_at_the_ends(self):
        """Division by large ones, small ones and 0, roots on both sides of the cut."""
        x = torch.tensor([1e30 + 1e30j, 1e-30 - 1e-30j, 0, 1 + 0j, -4 + 0j, -4 - 0.0j, 1j])
        # PyTorch 1.13 divides no such ones of complex64
        y = torch.tensor([1e30 - 1e30j, 1e-30 + 2e-30j, 2 + 1j, 3j, -1, 1 + 1e-9j, 2 - 2j])
        both = x.to(torch.complex128), y.to(torch.complex128)
        for function in (
            lambda x, y: x / y,
            lambda x, y: x.sqrt(),
            lambda x, y: x.log(),
            lambda x, y: x[3:].asin() + x[3:].acosh(),
            lambda x, y: x[3:].acos() + x[4:5].asinh(),
            lambda x, y: x[4:].atanh() + x[3:6].atan(),
            lambda x, y: x[:0].prod() + x[2:].prod() + x[:0].prod(0) + x[0].prod(0) + y[0].prod(),
            lambda x, y: x**y.real.clamp(-0.75, 0.75).to(x),
            lambda x, y: x.abs(),
            lambda x, y: x.angle(),
            lambda x, y: (y / 0).abs().isfinite(),
            lambda x, y: x == y,
            lambda x, y: x.any() & y.all() if kernels.LATER else x.any(),
            lambda x, y: torch.count_nonzero(x),
            lambda x, y: torch.zeros_like(x) ** 0 + torch.zeros_like(x) ** y.real.abs().to(x),
            lambda x, y: (x.real / 0).to(x) == (x.real / 0).to(x),
            lambda x, y: (x.real / 0).to(x) != (y.real / 0).to(x),
            lambda x, y: torch.equal(x, y),
            lambda x, y: torch.conj_physical(x.conj()) if kernels.LATER else x,
            lambda x, y: x.clone().conj().conj_physical_() if kernels.LATER else x,
            lambda x, y: x.clone().conj_physical_() if kernels.LATER else x.clone(),
            lambda x, y: torch.empty_like(x)[::2].fill_(1 + 2j),
        ):
            got, expected = function(x.xpu(), y.xpu()), function(*both)
            if isinstance(got, torch.Tensor):
                got, expected = got.cpu(), expected.to(got.dtype)
            self.assertEqual(got, expected, rtol=1e-5, atol=1e-38)

    @unittest.skipIf(not kernels.LATER, "the CPU of PyTorch 1.13 has asin and others as NaN")
    def test_infinite_complex_numbers(self):
        inf = float("inf")
        parts = (0.0, -0.0, 0.5, -2.0, inf, -inf)
        x = torch.tensor([complex(*both) for both in itertools.product(parts, parts)])
        names = ["asin", "acos", "atan", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "log", "log10"]
        for name in (*names, "sin", "cos", "sinh", "cosh", "exp", "tan", "tanh"):
            # the CPU has sin of an infinite part in one way or in another
            cut = (x.real if name in ("sin", "cos", "tan") else x.imag).isfinite()
            y = x if name in names else x[cut]
            both = (getattr(y.to(device), name)() for device in ("xpu", "cpu"))
            got, expected = (torch.view_as_real(one.cpu()).nan_to_num(nan=7.0) for one in both)
            self.assertEqual(got, expected, msg=name)
            self.assertEqual(got.signbit(), expected.signbit(), msg=name)

    def test_strides_of_complex_numbers(self):
        x = torch.randn(3, 4, dtype=torch.complex64).t()
        for function in (torch.abs, torch.exp, lambda x: x * 2):
            self.assertEqual(function(x.xpu()).stride(), function(x).stride())

    def test_strides_of_outputs(self):
        """An out= that is resized has the order of strides that the CPU gives it."""
        x = torch.rand(2, 5, 3).transpose(1, 2)
        z = torch.view_as_complex(torch.rand(2, 5, 3, 2)).transpose(1, 2)
        calls = {
            "conj_physical": lambda z, x, out: torch.conj_physical(z, out=out),
            "complex": lambda z, x, out: torch.complex(x, x, out=out),
            "ldexp": lambda z, x, out: torch.ldexp(x, torch.ones_like(x), out=out),
            "nan_to_num": lambda z, x, out: torch.nan_to_num(x.long(), out=out),
        }
        dtypes = {"ldexp": torch.float, "nan_to_num": torch.long}
        for name, call in calls.items():
            dtype = dtypes.get(name, torch.complex64)
            expected = call(z, x, torch.empty(0, dtype=dtype))
            got = call(z.xpu(), x.xpu(), torch.empty(0, dtype=dtype, device="xpu"))
            self.assertEqual(got.stride(), expected.stride(), msg=name)
            self.assertEqual(got.cpu(), expected, msg=name)

    def test_errors(self):
        x = torch.ones(3, device="xpu")
        with self.assertRaisesRegex(RuntimeError, "must be either none or tanh"):
            F.gelu(x, approximate="erf")
        with self.assertRaisesRegex(RuntimeError, "without overflow"):
            x.long().masked_fill(x > 0, torch.tensor(float("inf")))
        for value in (1e9, torch.tensor(-1e9)):
            with self.assertRaisesRegex(RuntimeError, "without overflow"):
                x.half().masked_fill(x > 0, value)
        with self.assertRaisesRegex(RuntimeError, "not implemented for 'Long'"):
            torch.nansum(x, out=torch.empty((), dtype=torch.long, device="xpu"))

    def test_too_large_for_half(self):
        """What is in the middle of an operator may be."""
        x, grad = torch.tensor([[300, 300, 20, 0.5]]), torch.tensor([[300.0, 300]])
        for function in (
            lambda x, grad: torch.ops.aten.glu_backward(grad, x, 1),
            lambda x, grad: (x * 200).renorm(2, 0, 1.0),
            lambda x, grad: torch.addr(grad, grad[0, :1], grad[0], alpha=1e-3),
            lambda x, grad: torch.addr(grad, grad[0, :1], grad[0], beta=300, alpha=-1),
        ):
            got = function(x.half().xpu(), grad.half().xpu())
            expected = function(x.double(), grad.double())
            self.assertEqual(got.cpu(), expected.half(), rtol=2e-3, atol=2e-3)

    def test_antialias(self):
        """Also beside what is infinite, and along an axis that keeps its size."""
        x = torch.randn(2, 3, 9, 12)
        self.assertEqual(
            F.interpolate(x.half().xpu(), (4, 5), mode="bilinear", antialias=True).cpu(),
            F.interpolate(x.half().float(), (4, 5), mode="bilinear", antialias=True).half(),
            rtol=2e-3,
            atol=2e-3,
        )
        for mode, corners, (size, scale), gaps in itertools.product(
            ("bilinear", "bicubic"),
            (False, True),
            (
                *(((4, 5), None), ((9, 7), None), ((20, 12), None), ((13, 30), None)),
                *((None, 0.3), (None, (1.1, 0.6)), (None, (1.01, 1.01))),
            ),
            (False, True),
        ):
            results = []
            for device in ("cpu", "xpu"):
                y = x.to(device).clone()
                if mode == "bilinear":  # where the other is 0, the CPU may round it
                    y[0, 0, 3, 4], y[1, 2, 8, 0] = float("inf"), NAN
                y = y.mT if gaps else y
                y.requires_grad_()
                z = F.interpolate(
                    y, size, scale, mode=mode, align_corners=corners, antialias=True
                )
                grad = torch.arange(float(z.numel()), device=device).view(z.shape).fmod(7)
                if mode == "bilinear":
                    grad[0, 0, 1, 1] = float("inf")
                z.backward(grad)
                results += [z.detach().cpu(), y.grad.cpu()]
            for i in (0, 1):
                # The CPU also adds some that are infinite 0 times.
                known = ~results[i].isnan()
                self.assertEqual(
                    results[i + 2][known],
                    results[i][known],
                    rtol=1e-4,
                    atol=1e-4,
                    msg=f"{mode} {corners} {size} {scale} {gaps} {i}",
                )

    def test_nan(self):
        x = torch.tensor([[1, NAN, 2], [NAN, NAN, NAN]])
        for function in (torch.nansum, lambda x: torch.nansum(x, 1)):
            self.assertEqual(function(x.xpu()).cpu(), function(x))
        out = torch.empty(0).xpu()
        torch.nansum(x.xpu(), (0,), out=out)
        self.assertEqual(out.cpu(), torch.nansum(x, 0))

    def test_integers(self):
        for dtype in (torch.uint8, torch.int, torch.long, torch.bool):
            x = torch.randint(0, 9, (4, 3), dtype=torch.uint8).to(dtype)
            for function in (
                torch.nansum,
                torch.isposinf,
                torch.isneginf,
                torch.signbit,
                lambda x: torch.nansum(x, 1, dtype=torch.float),
                lambda x: torch.linalg.cross(x, x.flip(0)) if x.dtype != torch.bool else x,
            ):
                self.assertEqual(function(x.xpu()).cpu(), function(x))

    def test_shifts(self):
        for dtype in (torch.long, torch.int):
            x = torch.randint(0, 9, (4, 3)).to(dtype)
            for function in (
                lambda x: (x << 2) + (x >> 1) + ((x > 3) << 1),
                lambda x: (x << x[0]) + (x[:, :1] >> x),
                lambda x: (x.long() + 0).__ilshift__(3).__irshift__(1),
                lambda x: (x.long() + 0).__ilshift__(x).__irshift__(x[0]),
            ):
                self.assertEqual(function(x.xpu()).cpu(), function(x), exact_dtype=True)
        texts = []
        for device in ("cpu", "xpu"):
            with self.assertRaises(RuntimeError) as raised:
                torch.ones(3, device=device) << 1
            texts.append(str(raised.exception).splitlines()[0])
        self.assertEqual(*texts)
        torch._C._xpu_resetFallbackStatistics()

    def test_empty(self):
        """What has no images, or no elements at all, with the gradients of weights."""
        weight = torch.randn(6, requires_grad=True)
        for shape, function in (
            ((0, 6), lambda x, w: F.layer_norm(x, (6,), w, w)),
            ((2, 0, 6), lambda x, w: F.layer_norm(x, (6,), w, w)),
            ((0, 6, 4), lambda x, w: F.group_norm(x, 2, w, w)),
            ((0, 6), lambda x, w: F.group_norm(x, 2, w, w)),
            ((0, 4, 6), lambda x, w: F.adaptive_avg_pool1d(x * w, 3)),
            ((0, 4, 5, 6), lambda x, w: F.adaptive_avg_pool2d(x * w, 3)),
            ((0, 4, 5, 4, 6), lambda x, w: F.adaptive_avg_pool3d(x * w, 3)),
            ((0, 4, 5, 6), lambda x, w: F.max_pool3d(x[:, None] * w, 2)),
            ((0, 4, 5, 6), lambda x, w: F.pad(x * w, (1, 2, 3, 1), "reflect")),
            ((0, 4, 5, 6), lambda x, w: F.pad(x * w, (1, 2, 3, 1), "replicate")),
            ((0, 4, 5, 6), lambda x, w: F.unfold(x * w, 2, padding=1)),
            ((0, 12, 6), lambda x, w: F.fold(x * w, (3, 4), (2, 2))),
            ((2, 0, 6), lambda x, w: torch.roll(x * w, (1, 2), (0, 1))),
            ((0, 6), lambda x, w: torch.roll(x * w, 3)),
        ):
            results = []
            for device in ("cpu", "xpu"):
                x = torch.randn(shape).to(device).requires_grad_()
                w = weight.detach().to(device).requires_grad_()
                y = function(x, w)
                y.sum().backward()
                results.append([one.detach().cpu() for one in (y, x.grad, w.grad)])
            self.assertEqual(*results, msg=str(shape))

    def test_zeros_without_memory(self):
        x = torch.randn(3, 4).xpu().requires_grad_()
        zeros = torch._efficientzerotensor((3, 4), device="xpu")
        self.assertEqual((zeros.device, zeros.dtype), (x.device, torch.float))
        self.assertEqual((x + zeros).cpu(), x.cpu())
        self.assertEqual((x * zeros).cpu(), torch.zeros(3, 4))
        torch.sgn(x).sum().backward()
        self.assertEqual(x.grad.cpu(), torch.zeros(3, 4))

    def test_unpool(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 3, 8, 6).contiguous(memory_format=layout)
            y, indices = F.max_pool2d(x, 2, return_indices=True)
            got = F.max_unpool2d(y.xpu(), indices.xpu(), 2, output_size=(8, 7))
            expected = F.max_unpool2d(y, indices, 2, output_size=(8, 7))
            self.assertEqual(got.cpu(), expected)
            self.assertEqual(got.stride(), expected.stride())
        with self.assertRaisesRegex(RuntimeError, "out of bounds"):
            F.max_unpool2d(y.xpu(), indices.xpu() + 99, 2)
            torch.xpu.synchronize()

    def test_equal(self):
        x = torch.arange(12.0).view(3, 4).xpu()
        y = x.clone()
        self.assertTrue(torch.equal(x, y))
        self.assertFalse(torch.equal(x, y.view(4, 3)))
        y[2, 3] = 0
        self.assertFalse(torch.equal(x, y))
        self.assertFalse(torch.equal(x * NAN, x * NAN))
        self.assertTrue(torch.equal(x[:0], y[:0]))

    def test_fill(self):
        """With a number of the device, which the host does not read."""
        x, value = torch.zeros(3, 4).xpu(), torch.tensor(2.5).xpu()
        torch.Tensor.fill_(x.t()[1:], value)
        expected = torch.zeros(3, 4)
        expected[:, 1:] = 2.5
        self.assertEqual(x.cpu(), expected)

        for number in (torch.tensor(7), torch.tensor(7.5)):  # on the CPU
            x[1:, 2:] = number
            expected[1:, 2:] = number
        x[0] = x[1, 3]  # its own
        expected[0] = expected[1, 3]
        for one in (x, expected):
            one[one == 0] = one[0, 0]
            one.masked_fill_(one < 7, one[0, 1])
            one.t()[0].fill_(one[1, 1])
        self.assertEqual(x.cpu(), expected)

    def alike(self, function, *given):
        """As the CPU: the result, or the error."""
        results = []
        for device in ("cpu", "xpu"):
            try:
                results.append(function(*(one.to(device) for one in given)).cpu())
            except RuntimeError as error:
                results.append(str(error).splitlines()[0])
        if any(isinstance(result, str) for result in results):
            results = [str(result) for result in results]
        self.assertEqual(results[1], results[0], rtol=0, atol=0)

    @unittest.skipIf(not kernels.LATER, "the CPU of PyTorch 1.13 has few kernels for half")
    def test_numbers_that_are_compared(self):
        """They have the type of the tensor."""
        for dtype in (torch.half, torch.bfloat16):
            x = torch.tensor([0.1, 0.3, 0.7, -0.3], dtype=dtype)
            for function in (
                lambda x: x == 0.1,
                lambda x: x != 0.7,
                lambda x: x > 0.3,
                lambda x: x.clone().ge_(0.7),
                lambda x: x < torch.tensor(-0.3, dtype=torch.double),
                lambda x: F.hardshrink(x, 0.3),
                lambda x: torch.ops.aten.hardshrink_backward(x + 1, x, 0.3),
                lambda x: torch.ops.aten.softshrink_backward(x + 1, x, 0.7),
                lambda x: torch.fmod(x, 0.1),
                lambda x: torch.remainder(x, 0.3),
                lambda x: torch.autograd.grad(
                    x.requires_grad_().clamp(max=0.7).float().sum(), x
                )[0],
            ):
                self.alike(function, x)

    def test_numbers_that_the_type_lacks(self):
        for dtype, function in (
            (torch.int, lambda x: x.clamp(max=2**31)),
            (torch.uint8, lambda x: x.clamp(-1, 255)),
            (torch.uint8, lambda x: x.clamp(0, 256)),
            (torch.int, lambda x: torch.add(x, x, alpha=2**32)),
            (torch.int8, lambda x: F.threshold(x, 200, 1)),
            (torch.int8, lambda x: x**256),
            (torch.int, lambda x: torch.addcmul(x, x, x, value=2**40)),
            (torch.int, lambda x: x.index_add(0, x.long()[:1], x[:1], alpha=2**40)),
            (torch.float, lambda x: torch.addcdiv(x, x, x, value=1e300)),
            (torch.float, lambda x: x.clamp(max=1e300)),
            (torch.float, lambda x: x.nan_to_num(1e300)),
            (torch.float, lambda x: F.softplus(x, threshold=1e300)),
            (torch.float, lambda x: x**1e300),
            (torch.float, lambda x: torch.lerp(x, x, 1e300)),
            (torch.float, lambda x: x < 1e300),
            (torch.int8, lambda x: x < 300),
            (torch.uint8, lambda x: x >= -300),
            (torch.int, lambda x: x != 2**40),
            (torch.half, lambda x: x.fill_(1e6)),
            (torch.half, lambda x: x[::2].fill_(1e6)),
            (torch.float, lambda x: x.masked_fill(x > 0, torch.tensor(1j).to(x.device))),
        ):
            self.alike(function, torch.ones(3, dtype=dtype))

    def test_numbers_of_the_cpu(self):
        x, mask = torch.arange(4.0), torch.tensor([True, False, True, False])
        one, two, yes = torch.tensor(1.5), torch.tensor(2), torch.tensor(True)
        self.alike(lambda mask: torch.where(mask, one, two), mask)
        self.alike(lambda x: torch.where(yes, one, x), x)
        self.alike(lambda x: torch.where(yes, x, two), x)

    def test_ends(self):
        x = torch.tensor([-float("inf"), -0.0, 0.0, 4, float("inf")])
        for dtype in (torch.float, torch.double):
            self.alike(lambda x: x**-0.5, x.to(dtype))
        large = torch.tensor([1e37, 1e38, -1e38, 3e38])
        got = torch.special.i0e(large.xpu())
        self.assertEqual(got.cpu(), torch.special.i0e(large), rtol=1e-4, atol=1e-24)

    def test_copies_of_parts(self):
        """What conjugates, negates, or is complex on one side, does not wait either."""
        z = torch.view_as_complex(torch.randn(3, 4, 2))
        cases = [
            lambda z: z.conj().clone(),
            lambda z: z.conj().resolve_conj().t() * z.conj().t(),
            lambda z: z.real.to(z.dtype),
            lambda z: z.conj().imag.clone(),
            lambda z: z.conj().imag + 1,
            lambda z: z.conj().to(torch.cdouble),
            lambda z: z.clone().t().copy_(z.conj().t()),
            lambda z: z.clone().copy_(z.real.long()),
            lambda z: torch.zeros_like(z).conj().copy_(z).resolve_conj(),
            lambda z: torch.zeros_like(z).conj().imag.copy_(z.real).resolve_neg(),
            lambda z: z.clone().conj().imag.copy_(z.conj().imag).contiguous(),
            lambda z: (lambda y: y.copy_(y.conj()))(z.clone()),
            lambda z: z.conj_physical() * z.conj(),
            lambda z: torch.zeros(3, 4, device=z.device).copy_(z),
        ]
        for i, case in enumerate(cases):
            expected = case(z)
            moved = z.xpu()
            torch._C._xpu_set_sync_debug_mode(2)
            try:
                got = case(moved)
            finally:
                torch._C._xpu_set_sync_debug_mode(0)
            self.assertEqual(got.cpu(), expected, msg=str(i))
        self.alike(lambda z: z.to(torch.bool), z * torch.tensor([0, 1j, 1, 0]))

    @unittest.skipIf(not kernels.LATER, "PyTorch 1.13 takes one dimension")
    def test_any_and_all(self):
        x = torch.rand(3, 4, 5) > 0.8
        for dims in ((0, 2), (-1,), None, ()):
            for moved in (x, x.transpose(0, 2)):
                self.assertEqual(moved.xpu().any(dims).cpu(), moved.any(dims))
                self.assertEqual(moved.xpu().all(dims, True).cpu(), moved.all(dims, True))

    @unittest.skipIf(not kernels.LATER, "PyTorch 1.13 has other operators")
    def test_batch_norm(self):
        function = torch.ops.aten._native_batch_norm_legit
        for dims in ((6, 3), (2, 3, 4, 5)):
            x = torch.randn(dims)
            results = []
            for device in ("cpu", "xpu"):
                running = [torch.zeros(3).to(device), torch.ones(3).to(device)]
                y = x.to(device)
                results.append(running)
                results[-1] += function(y, None, None, *running, True, 0.1, 1e-5)
                results[-1] += function.no_stats(y, None, None, True, 0.1, 1e-5)
            self.assertEqual([each.cpu() for each in results[1]], results[0])

    @unittest.skipIf(not kernels.LATER, "PyTorch 1.13 has other operators")
    def test_batch_norm_of_a_library(self):
        """The numbers that it keeps of bfloat16 are floats, as torch.compile expects."""
        x, grad = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
        weight = torch.rand(3)
        results = {}
        for device, dtype in (("cpu", torch.float), ("xpu", torch.float), ("xpu", torch.bfloat16)):
            running = [torch.zeros(3).to(device), torch.ones(3).to(device)]
            y, direction = (one.to(device, dtype) for one in (x, grad))
            norm = torch.ops.aten._batch_norm_with_update
            result, *saved, kept = norm(y, weight.to(device), None, *running, 0.1, 1e-5)
            grads = torch.ops.aten.batch_norm_backward(
                *(direction, y, weight.to(device), *running, *saved),
                *(True, 1e-5, [True] * 3, kept),
            )
            results[device, dtype] = [one.cpu() for one in (*running, result, *saved, *grads)]
        self.assertEqual(results["xpu", torch.float], results["cpu", torch.float])
        self.assertEqual([one.dtype for one in saved], [torch.float] * 2)
        for one, other in zip(results["xpu", torch.bfloat16], results["cpu", torch.float]):
            self.assertEqual(one.float(), other, rtol=0.05, atol=0.1)


if __name__ == "__main__":
    run_tests()
