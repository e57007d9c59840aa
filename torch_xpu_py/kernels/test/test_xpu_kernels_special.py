# Owner(s): ["module: intel"]
"""Special functions and other rarer pointwise operators by kernels. As those of
test_xpu_kernels.py, the tests run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, TestCase

INF, NAN = float("inf"), float("nan")
INTEGERS = (torch.long, torch.int, torch.short, torch.int8, torch.uint8)


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestSpecialProcesses(kernels.Processes):
    def test_special(self):
        self.run_class("TestKernelSpecial", **kernels.WITHOUT_VECTORS)


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelSpecial(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        self.assertEqual(kernels.fallbacks(), {})
        super().tearDown()

    def arguments(self, op, dtype, choice):
        """Numbers for which the function of the CPU is right to a few digits in double."""
        torch.manual_seed(0)
        tensors = []
        for i in range(sum(isinstance(x, tuple) for x in choice)):
            x = torch.randn(24, 20) * 5
            if "polynomial" in op.name:
                x = torch.randint(-1, 12, (24, 20)).float() if i else x / 6
            elif any(x in op.name for x in ("erfinv", "ndtri", "logit")):
                x = torch.rand(24, 20) if not ("backward" in op.name and i == 0) else x
            elif "zeta" in op.name:
                x = x.abs() + 1.125
            elif any(x in op.name for x in ("gamma", "bessel_y", "bessel_k")):
                # the CPU's has large numbers in the place of infinite ones
                x = x.floor() + 0.375 if "polygamma" in op.name else x.abs() + 0.0625
            elif "erfcx" in op.name:
                x = x.clamp(min=-8)
            tensors.append(x.to(dtype))
        return tensors

    def test_table(self):
        """Each function, against the CPU's in double; out= and in place."""
        table = [op for op in kernels.operators() if op.is_special]
        self.assertGreater(len(table), 90)
        tolerance = {torch.float: 1e-4, torch.double: 1e-5}
        for i, op in enumerate(table):
            plain = op.out is None and not op.is_in_place
            dtypes = op.dtypes if plain else op.dtypes[1:2]
            for dtype, choice in itertools.product(dtypes, op.choices(torch.float)):
                if op.is_in_place and choice[0] is None:
                    continue
                tensors = self.arguments(op, dtype, choice)
                expected = op.run(op.new, choice, [x.double() for x in tensors]).to(dtype)
                device = [x.xpu() for x in tensors]
                if op.out is not None:
                    got = torch.empty(24, 40, dtype=dtype, device="xpu")[:, ::2]
                    self.assertIs(op.run(op.call, choice, device, **{op.out: got}), got)
                else:
                    got = op.run(op.call, choice, device)
                    self.assertEqual(got is device[0], op.is_in_place)
                msg = f"{op.name} {dtype} {choice}"
                # the CPU's is an approximation
                most = 1e-2 if "gamma_grad" in op.name else tolerance.get(dtype)
                least = most  # polynomials cancel beside their zeros
                if most and "polynomial" in op.name:
                    least = most * max(1, expected.abs().max().item())
                self.assertEqual(got.cpu(), expected, atol=least, rtol=most, msg=msg)
                if plain and dtype == torch.float and i % 5 == 0:
                    for view in (lambda x: x.t()[::2, 1:], lambda x: x[:0], lambda x: x[3, 4]):
                        got = op.run(op.call, choice, [view(x) for x in device])
                        self.assertEqual(got.cpu(), view(expected), atol=least, rtol=most, msg=msg)

    def test_edges(self):
        s = torch.special
        for function, x, expected in (
            (torch.i0, [INF, -INF], [INF, INF]),
            (s.i1, [INF, -INF], [INF, -INF]),
            (s.i0e, [INF, 1e30], [0, 3.9894228e-16]),
            (torch.erfinv, [1, -1, 2, NAN, 0], [INF, -INF, NAN, NAN, 0]),
            (torch.digamma, [0.0, -0.0, -2, INF, -INF], [-INF, INF, NAN, INF, NAN]),
            (torch.lgamma, [0, -1, -INF, INF], [INF, INF, INF, INF]),
            (lambda x: torch.polygamma(1, x), [-1, 0, INF], [INF, INF, 0]),
            (s.ndtri, [0, 1, -1, 2, 1e-30], [-INF, INF, NAN, NAN, -11.4640246]),
            (s.log_ndtr, [-INF, INF, -1e4], [-INF, 0, -5.0000012e7]),
            (s.erfcx, [-INF, INF, -20, 1e20], [INF, 0, INF, 5.6418958e-21]),
            (s.modified_bessel_k0, [0, -1, INF, 1e-30], [INF, NAN, 0, 69.193500]),
            (s.scaled_modified_bessel_k1, [0, INF, 1e-20], [INF, 0, 1e20]),
            (s.bessel_y0, [0, -1], [-INF, NAN]),
            (s.bessel_j0, [0, 1e-20], [1, 1]),
            (s.bessel_j1, [0, 1e-20], [0, 5e-21]),
            (s.spherical_bessel_j0, [0, INF], [1, 0]),
            (lambda x: s.zeta(x, torch.ones_like(x)), [1, 0.5, 2], [INF, NAN, 1.6449341]),
            (lambda x: torch.igamma(x, torch.ones_like(x)), [0, INF, -1], [1, 0, NAN]),
            (lambda x: torch.igammac(x, x), [0, INF, 1e6], [NAN, NAN, 0.49986702]),
            (lambda x: s.chebyshev_polynomial_t(x, 1000), [1, -1, 0], [1, 1, 1]),
            (lambda x: s.chebyshev_polynomial_u(x, 1001), [1, -1], [1002, -1002]),
            (lambda x: s.chebyshev_polynomial_v(x, 9), [1, -1], [1, -19]),
            (lambda x: s.chebyshev_polynomial_w(x, 9), [1, -1], [19, -1]),
            (lambda x: s.legendre_polynomial_p(x, 10**6 + 1), [1, -1], [1, -1]),
            (lambda x: s.laguerre_polynomial_l(x, 10**6), [0], [1]),
            (torch.logit, [0, 1, 2, 0.5], [-INF, INF, NAN, 0]),
            (torch.angle, [-1, 1, NAN], [3.1415927, 0, NAN]),
        ):
            got = function(torch.tensor(x, dtype=torch.float, device="xpu"))
            self.assertEqual(got.tolist(), expected, atol=0, rtol=2e-5, msg=str((x, expected)))

    def check(self, function, *args, **kwargs):
        expected = function(*args)
        got = function(*(x.xpu() if isinstance(x, torch.Tensor) else x for x in args))
        if not isinstance(got, (tuple, list)):
            expected, got = [expected], [got]
        for x, y in zip(got, expected):
            self.assertEqual(x.device.type, "xpu")
            self.assertEqual(x.cpu(), y, exact_dtype=True, **kwargs)

    def test_gamma_grad(self):
        """The part of the distribution below the number stays as the shape grows."""
        dtype = torch.double if kernels.has(torch.double) else torch.float
        step, most = (1e-4, 1e-9) if dtype == torch.double else (1e-2, 1e-5)
        a = torch.linspace(0.25, 40, 60, dtype=dtype)
        x = a * torch.linspace(0.3, 2.5, 7, dtype=dtype)[:, None]
        slope = torch._standard_gamma_grad(a.expand_as(x).xpu(), x.xpu()).cpu()
        low = torch.igamma(a - step, x - step * slope)
        self.assertEqual(torch.igamma(a + step, x + step * slope), low, atol=most, rtol=0)

    def test_gradients(self):
        for function in (
            torch.lgamma,
            torch.digamma,
            torch.erfinv,
            torch.i0,
            torch.special.i1e,
            torch.special.ndtri,
            torch.special.log_ndtr,
            torch.special.erfcx,
            lambda x: torch.logit(x, 0.125),
            lambda x: torch.mvlgamma(x + 3, 3),
            lambda x: torch.xlogy(x, x),
        ):

            def gradients(x, function=function):
                x = x.detach().requires_grad_()
                (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
                return first.detach()

            self.check(gradients, torch.linspace(0.0625, 0.9375, 60), atol=1e-4, rtol=1e-4)

    def test_division(self):
        """Of integers: as the CPU, and a divisor of 0 is said at the next synchronization."""
        torch.manual_seed(0)
        divisions = (
            torch.remainder,
            torch.fmod,
            torch.floor_divide,
            lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            lambda a, b: torch.div(a, b, rounding_mode="floor"),
        )
        for dtype, function in itertools.product(INTEGERS, divisions):
            a = torch.randint(-100, 100, (300,)).to(dtype)
            b = torch.randint(1, 9, (300,)).to(dtype)
            b = b if dtype == torch.uint8 else b * (torch.arange(300) % 2 * 2 - 1).to(dtype)
            self.check(function, a, b)
            self.check(function, a, 7)
            self.check(lambda a, b, f=function: f(a.t(), b[:, None])[1:], a.view(20, 15), b[:15])
        least = torch.full((3,), -(2**63), device="xpu")
        self.assertEqual((least // -1).tolist(), least.tolist())
        self.assertEqual((least % -1).tolist(), [0, 0, 0])
        x = torch.arange(6, device="xpu")
        y = x.clone()
        y.remainder_(4)
        self.assertEqual(y.tolist(), [0, 1, 2, 3, 0, 1])
        for dtype, function in zip((*INTEGERS, torch.long), divisions):
            with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError.*on xpu:0"):
                function(x.to(dtype), x.to(dtype))
                torch.xpu.synchronize()
            torch.xpu.synchronize()
        self.assertEqual((x // 2).tolist(), [0, 0, 1, 1, 2, 2])
        self.check(torch.floor_divide, torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3))

    def test_integers(self):
        for dtype in INTEGERS:
            a = torch.randint(-90, 120, (40, 30)).to(dtype)
            b = torch.randint(-20, 20, (30,)).to(dtype)
            self.check(torch.gcd, a, b)
            self.check(torch.lcm, a, b)
            self.check(lambda a: a.clone().gcd_(a.t().reshape_as(a)), a)
            for function in (torch.ceil, torch.floor, torch.round, torch.trunc, torch.signbit):
                self.check(function, a)
                self.check(function, a.t()[::2])
            self.check(torch.nan_to_num, a)
            self.check(torch.angle, a)
            self.check(torch.logit, a.clamp(0, 1))
            self.check(torch.lgamma, a.clamp(1, 9))
            if dtype != torch.uint8:
                self.check(lambda x: F.hardtanh(x, -3, 4), a)
                self.check(F.relu6, a)

    def test_several(self):
        """What has several results or kernels."""
        for dtype in (torch.float, torch.half, torch.bfloat16, torch.double):
            if not kernels.has(dtype):
                continue
            x = kernels.numbers(dtype)
            mantissa, exponent = torch.frexp(x.xpu())
            of_cpu = torch.frexp(x.double())
            self.assertEqual(mantissa.cpu(), of_cpu[0].to(dtype))
            finite = x.isfinite()
            self.assertEqual(exponent.cpu()[finite], of_cpu[1][finite])
            if hasattr(torch.ops.aten, "_prelu_kernel"):  # or it is of other operators
                self.assertEqual(torch.ldexp(mantissa, exponent).cpu(), x)
                out = torch.empty(0, dtype=dtype, device="xpu")
                self.assertIs(torch.ldexp(mantissa, exponent, out=out), out)
                self.assertEqual(mantissa.ldexp_(exponent).cpu(), out.cpu())
            self.check(torch.nan_to_num, x)
            self.check(lambda x: torch.nan_to_num(x[::3], 2, 3, -4), x)
            self.check(lambda x: torch.nan_to_num(x[::3], posinf=5.5, out=x[::3]), x)
            if dtype in (torch.half, torch.bfloat16):
                continue
            a, b = x[8:508].view(20, 25), x[8:33]
            self.check(torch.complex, a, b)
            self.check(lambda a, b: torch.view_as_real(torch.polar(a, b)), a.abs(), b)
            self.check(lambda x: torch.round(x, decimals=2), a)
            self.check(lambda x: torch.round(x * 100, decimals=-1), a)
        out = torch.empty(0, device="xpu"), torch.empty(0, dtype=torch.int, device="xpu")
        torch.frexp(torch.tensor([0.75, -6.0, 0.0], device="xpu"), out=out)
        self.assertEqual([x.tolist() for x in out], [[0.75, -0.75, 0], [0, 3, 0]])

    @unittest.skipIf(not hasattr(torch.ops.aten, "_prelu_kernel"), "a later release has it")
    def test_prelu(self):
        def both(x, weight):
            x, weight = (y.detach().requires_grad_() for y in (x, weight))
            y = F.prelu(x, weight)
            y.backward(torch.arange(y.numel()).view(y.shape).to(y))
            return y.detach(), x.grad, weight.grad

        torch.manual_seed(0)
        for dtype in (torch.float, torch.double):
            if kernels.has(dtype):
                x = torch.randn(4, 5, 6, dtype=dtype)
                self.check(both, x, torch.rand(5, dtype=dtype))
                self.check(both, x.transpose(0, 1)[1:], torch.rand(1, dtype=dtype))


if __name__ == "__main__":
    run_tests()
