# Owner(s): ["module: intel"]
"""Operators that put elements in order, or find them by it, that the device computes
itself. As those of test_xpu_kernels.py, the tests run in a process with
TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import torch
from test_xpu_kernels import (
    DTYPES,
    fallbacks,
    has,
    LATER,
    needs_device,
    ON,
    Processes,
    types_of,
)
from torch.testing._internal.common_utils import run_tests, TestCase

ALL = list(DTYPES.values())
CHOSEN = types_of(TestCase(), ALL) if torch.xpu.is_available() else ALL  # once for all tests
# Short rows, of which a group has one or more, and long ones; and their dimension.
SHAPES = [
    ((300,), 0),
    ((9000,), -1),
    ((3, 700), 1),
    ((70, 3), 0),
    ((2, 5000, 3), 1),
    ((400, 1), 1),
    ((0, 4), 1),
    ((4, 0), 1),
    ((), -1),
]


def make(shape, dtype, nan=True):
    """With many that are the same, and all kinds of numbers."""
    torch.manual_seed(len(shape))
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        few = torch.randint(0, 5, shape) - (2 if dtype.is_signed else 0)
        info = torch.iinfo(dtype)
        ends = torch.where(torch.rand(shape) < 0.5, info.min, info.max)
        random = torch.randint(info.min // 2, info.max // 2, shape) * 2
        kind = torch.rand(shape)
        return torch.where(kind < 0.3, few, torch.where(kind < 0.4, ends, random)).to(dtype)
    x = torch.randn(shape).to(dtype)
    x = torch.where(torch.rand(shape) < 0.3, x.float().round().to(dtype), x)
    for value in (0.0, -0.0, float("inf"), -float("inf")) + (float("nan"),) * nan:
        x.masked_fill_(torch.rand(shape) < 0.05, value)
    return x


@needs_device
@unittest.skipIf(ON, "it is the process of the tests below")
class TestSortProcesses(Processes):
    def test_order(self):
        self.run_class("TestKernelSort")

    def test_search(self):
        self.run_class("TestKernelSearch")

    def test_numbers_without_kernels(self):
        """They are the same."""
        code = "import torch; g = torch.Generator('xpu').manual_seed(5)\n"
        code += "order = torch.randperm(3000, device='xpu', generator=g)\n"
        code += "drawn = torch.arange(9.0).to('xpu').multinomial(99, True, generator=g)\n"
        code += "print(order.tolist(), drawn.tolist(), g.get_state().tolist())"
        outputs = [self.run_python("-c", code, TORCH_XPU_KERNELS=on) for on in ("0", "1")]
        self.assertEqual(outputs[0].splitlines()[-1], outputs[1].splitlines()[-1])


class Compared(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self):
        self.assertEqual(fallbacks(), {})

    def compare(self, got, expected, msg):
        self.assertEqual(got.device.type, "xpu", msg=msg)
        self.assertEqual(got.cpu(), expected, rtol=0, atol=0, msg=msg, exact_dtype=True)

    def cases(self, dtypes=CHOSEN, shapes=SHAPES):
        for dtype, (shape, dim) in itertools.product(dtypes, shapes):
            if has(dtype):
                yield make(shape, dtype), dim, f"{dtype} {shape}"


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelSort(Compared):
    def test_sort(self):
        for x, dim, msg in self.cases():
            for descending in (False, True):
                expected = torch.sort(x, stable=True, dim=dim, descending=descending)
                got = torch.sort(x.xpu(), stable=True, dim=dim, descending=descending)
                self.compare(got[0], expected[0], msg)
                self.compare(got[1], expected[1], msg)
                self.assertEqual(got[0].stride(), expected[0].stride(), msg=msg)
        # not asked to be stable, it is so all the same
        x = make((9000,), torch.float)
        self.compare(x.xpu().sort(descending=True)[1], x.sort(stable=True, descending=True)[1], "")
        self.compare(x.xpu().argsort(), x.sort(stable=True)[1], "argsort")
        self.compare(x.view(90, 100).xpu().msort(), x.view(90, 100).msort(), "msort")
        self.no_fallbacks()

    def test_signs_of_zeros_stay(self):
        for size in (8, 9000):
            x = torch.tensor([0.0, -0.0]).repeat(size // 2)
            self.assertEqual(x.xpu().sort()[0].cpu().signbit(), x.signbit())

    def test_layouts_and_outputs(self):
        x = make((60, 50, 3), torch.float)
        views = (
            lambda x: x.transpose(0, 1),
            lambda x: x[::2, 1:],
            lambda x: x[:1].expand(5, 50, 3),
            lambda x: x.permute(2, 0, 1),
        )
        for view, dim in itertools.product(views, range(3)):
            expected = view(x).sort(stable=True, dim=dim)
            got = view(x.xpu()).sort(stable=True, dim=dim)
            for a, b in zip(got, expected):
                self.compare(a, b, dim)
                self.assertEqual(a.stride(), b.stride())
        for shape in ((9000,), (40, 300)):
            x = make(shape, torch.float)
            d, expected = x.xpu(), x.sort(stable=True)
            values = torch.empty(3).xpu()
            indices = torch.empty(*shape, 2, dtype=torch.long).xpu()[..., 1]
            torch.sort(d, stable=True, out=(values.resize_(0), indices))
            self.compare(values, expected[0], "out")
            self.compare(indices, expected[1], "out")
            torch.sort(d, stable=True, out=(d, indices))
            self.compare(d, expected[0], "in place")
            self.compare(indices, expected[1], "in place")
        self.no_fallbacks()

    def test_topk(self):
        shapes = [shape for shape in SHAPES if 0 not in shape[0]]
        dtypes = [dtype for dtype in CHOSEN if dtype != torch.bool]
        for x, dim, msg in self.cases(dtypes, shapes):
            size = x.size(dim) if x.dim() else 1
            for largest, k in itertools.product((True, False), {1, 2, size // 3, size}):
                k = min(k, size)
                values, indices = x.sort(stable=True, dim=dim, descending=largest)
                first = (
                    (values, indices)
                    if x.dim() == 0
                    else (values.narrow(dim, 0, k), indices.narrow(dim, 0, k))
                )
                got = torch.topk(x.xpu(), k, dim, largest, sorted=True)
                self.compare(got[0], first[0], f"{msg} {k}")
                self.compare(got[1], first[1], f"{msg} {k}")
                some = torch.topk(x.xpu(), k, dim, largest, sorted=False)
                self.assertEqual(
                    some[1].cpu().sort(dim)[0] if x.dim() else some[1].cpu(),
                    first[1].sort(dim)[0] if x.dim() else first[1],
                    msg=f"{msg} {k}",
                )
                again = torch.topk(x.xpu(), k, dim, largest, sorted=False)
                self.assertEqual(some[1].cpu(), again[1].cpu())
        self.no_fallbacks()

    def test_kthvalue(self):
        shapes = [shape for shape in SHAPES if 0 not in shape[0]]
        for x, dim, msg in self.cases(shapes=shapes):
            size = x.size(dim) if x.dim() else 1
            values, indices = x.sort(stable=True, dim=dim)
            for k, keepdim in itertools.product({1, size // 2 + 1, size}, (True, False)):
                expected = (
                    (values, indices)
                    if x.dim() == 0
                    else [
                        y.narrow(dim, k - 1, 1) if keepdim else y.select(dim, k - 1)
                        for y in (values, indices)
                    ]
                )
                got = x.xpu().kthvalue(k, dim, keepdim)
                self.compare(got[0], expected[0], f"{msg} {k}")
                self.compare(got[1], expected[1], f"{msg} {k}")
        self.no_fallbacks()
        with self.assertRaisesRegex(RuntimeError, "selected number k out of range"):
            torch.ones(3).xpu().kthvalue(4)
        with self.assertRaisesRegex(IndexError, "to have non-zero size"):
            torch.ones(2, 0).xpu().kthvalue(1)

    def test_median(self):
        shapes = [shape for shape in SHAPES if 0 not in shape[0]]
        for dtype, (shape, dim), nan in itertools.product(
            (torch.float, torch.int, torch.double), shapes, (True, False)
        ):
            x = make(shape, dtype, nan) if has(dtype) else make(shape, torch.float, nan)
            msg = f"{dtype} {shape}"
            for function in (torch.median, torch.nanmedian):
                self.compare(function(x.xpu()), function(x), msg)
                for keepdim in (True, False):
                    expected = function(x, dim, keepdim)
                    got = function(x.xpu(), dim, keepdim)
                    self.compare(got[0], expected[0], msg)
                    self.compare(got[1], expected[1], msg)
        self.no_fallbacks()
        x = torch.full((3, 4), float("nan"))
        self.compare(x.xpu().nanmedian(1)[0], x.nanmedian(1)[0], "all are NaN")
        self.compare(torch.ones(0).xpu().median(), torch.ones(0).median(), "of none")

    def test_mode(self):
        """Of which place the CPU gives, depends on its sort."""
        shapes = [shape for shape in SHAPES if 0 not in shape[0]]
        for dtype, (shape, dim) in itertools.product((torch.float, torch.long), shapes):
            x = make(shape, dtype, nan=False)
            for keepdim in (True, False):
                expected = x.mode(dim, keepdim)[0]
                values, indices = x.xpu().mode(dim, keepdim)
                self.compare(values, expected, f"{dtype} {shape}")
                if x.dim():
                    place = indices.cpu() if keepdim else indices.cpu().unsqueeze(dim)
                    found = x.gather(dim, place)
                    self.assertEqual(found if keepdim else found.squeeze(dim), expected)
        self.no_fallbacks()

    def test_gradients(self):
        x = torch.randn(5, 30)
        for function in (
            lambda x: x.sort(descending=True)[0] * torch.arange(30, device=x.device),
            lambda x: x.topk(4, 1)[0],
            lambda x: x.kthvalue(3)[0],
            lambda x: x.median(0)[0],
        ):
            a, b = x.clone().requires_grad_(), x.xpu().requires_grad_()
            function(a).square().sum().backward()
            function(b).square().sum().backward()
            self.assertEqual(b.grad.cpu(), a.grad)
        self.no_fallbacks()


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelSearch(Compared):
    def same(self, function, *tensors, msg=None):
        got = function(*(x.xpu() for x in tensors))
        expected = function(*tensors)
        single = isinstance(expected, torch.Tensor)
        for a, b in zip((got,) if single else got, (expected,) if single else expected):
            self.compare(a, b, f"{msg} {[(x.dtype, x.shape) for x in tensors]}")

    def test_unique(self):
        for dtype in CHOSEN:
            if dtype == torch.half and not LATER:  # the CPU of PyTorch 1.13 has none
                continue
            for shape in ((2000,), (1,), (30, 4), ()):
                x = make(shape, dtype, nan=False)
                if dtype.is_floating_point:  # without -0, which PyTorch 1.13's takes for another
                    x = x.float().round().add(0).to(dtype)
                for inverse, counts in itertools.product((True, False), (True, False)):
                    asked = (True, inverse, counts)  # the CPU may give more
                    for function in (
                        lambda x: torch._unique2(x, True, inverse, counts),
                        lambda x: torch._VF.unique_consecutive(x, inverse, counts, None),
                    ):
                        self.same(lambda x: list(itertools.compress(function(x), asked)), x)
                self.same(lambda x: torch._unique(x, True, True), x)
                self.same(torch.unique, x.t() if x.dim() == 2 else x)
        x = torch.tensor([2.0, float("nan"), 1.0, float("nan"), 2.0])
        if LATER:  # PyTorch 1.13's has NaN in any place
            self.same(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
        self.no_fallbacks()
        self.same(lambda x: torch.unique(x, return_inverse=True), torch.ones(0))

    def test_unique_parts(self):
        for dtype, dim in itertools.product((torch.float, torch.long, torch.bool), (0, 1, -1)):
            torch.manual_seed(1)
            x = torch.randint(0, 2, (40, 30, 3)).to(dtype)[:, :2]
            x = x if dim else torch.cat((x, x.flip(0)))
            for inverse, counts in itertools.product((True, False), (True, False)):
                for function in (
                    lambda x: torch._VF.unique_dim(x, dim, True, inverse, counts),
                    lambda x: torch._VF.unique_consecutive(x, inverse, counts, dim),
                ):  # the CPU may give what is not asked for
                    asked = (True, inverse, counts)
                    self.same(lambda x: list(itertools.compress(function(x), asked)), x)
        self.same(lambda x: torch.unique(x, dim=0, return_inverse=True), torch.tensor([3, 1, 3]))
        for dim in (0, -1):
            self.same(
                lambda x: torch._VF.unique_consecutive(x, True, True, dim),
                torch.tensor([3, 3, 1, 3]),
            )
        self.no_fallbacks()

    def test_randperm(self):
        for n, dtype in ((0, torch.long), (1, torch.long), (5000, torch.int), (200, torch.half)):
            generator = torch.Generator("xpu").manual_seed(3)
            got = [
                torch.randperm(n, dtype=dtype, device="xpu", generator=generator) for _ in range(2)
            ]
            for x in got:
                self.compare(x.sort()[0], torch.arange(n, dtype=dtype), n)
            self.assertEqual(n > 1 and torch.equal(got[0].cpu(), got[1].cpu()), False)
            again = torch.Generator("xpu").manual_seed(3)
            out = torch.empty(2, n, dtype=dtype, device="xpu").t()[:, 1]
            torch.randperm(n, generator=again, out=out)
            self.assertEqual(out.cpu(), got[0].cpu())
        self.no_fallbacks()
        # each is as likely: 6 orders of 3, 600 times
        orders = torch.stack([torch.randperm(3, device="xpu") for _ in range(600)]).cpu()
        counts = torch.unique(orders, dim=0, return_counts=True)[1]
        self.assertEqual(len(counts), 6)
        self.assertTrue((counts > 60).all() and (counts < 140).all(), msg=str(counts))
        with self.assertRaisesRegex(RuntimeError, "generator"):
            torch.randperm(3, device="xpu", generator=torch.Generator())
        with self.assertRaisesRegex(RuntimeError, "must be non-negative"):
            torch.randperm(-1, out=torch.empty(0, dtype=torch.long, device="xpu"))

    def test_multinomial(self):
        for dtype in filter(has, (torch.float, torch.half, torch.double)):
            p = torch.tensor([[0, 1, 0, 5, 4, 0], [7, 0, 0, 0, 0, 1]], dtype=dtype)
            x = torch.multinomial(p.xpu(), 20000, replacement=True).cpu()
            for row, weights in zip(x, p.double()):
                counts = row.bincount(minlength=6) / 20000.0
                self.assertEqual(counts.double(), weights / weights.sum(), atol=0.02, rtol=0)
                self.assertEqual(counts[weights == 0], torch.zeros(6)[weights == 0])
        # among so many that their sum is rounded, each with 0 on both sides
        p = torch.rand(2**18) * torch.arange(2**18).remainder(2)
        x = torch.multinomial(p.xpu(), 2**16, True).cpu()
        self.assertGreater(p[x].min(), 0)
        self.assertEqual(x.double().mean() / 2**17, 1.0, atol=0.02, rtol=0)
        self.no_fallbacks()
        for bad in ([1, -1.0], [1, float("nan")], [float("inf"), 1], [0.0, 0]):
            with self.assertRaises(RuntimeError):
                torch.multinomial(torch.tensor(bad).xpu(), 3, replacement=True)
                torch.xpu.synchronize()
        for shape in ((0,), (0, 3), (2, 0), (2, 2, 2)):
            results = []
            for device in ("cpu", "xpu"):
                try:
                    results.append(torch.multinomial(torch.ones(shape).to(device), 3, True).cpu())
                except RuntimeError as error:
                    results.append(str(error).splitlines()[0])
            self.assertEqual(*results)

    def test_searchsorted(self):
        dtypes = [dtype for dtype in CHOSEN if dtype != torch.bool]
        for dtype, nan in itertools.product(dtypes, (True, False)):
            rows = make((5, 300), dtype, nan).sort()[0]
            values = make((5, 70), dtype)
            for right, int32 in itertools.product((True, False), (True, False)):
                more = {"right": right, "out_int32": int32}
                self.same(lambda r, v: torch.searchsorted(r, v, **more), rows, values)
                self.same(lambda r, v: torch.searchsorted(r[2], v.t(), **more), rows, values)
                self.same(lambda r, v: torch.bucketize(v[:, ::2], r[1], **more), rows, values)
        x, v = torch.randn(4, 50), torch.randn(4, 9)
        for side in ("left", "right"):
            more = {"side": side}
            self.same(lambda r, v: torch.searchsorted(r, v, sorter=r.argsort(-1), **more), x, v)
            self.same(lambda x: torch.searchsorted(x.sort()[0][0], 0.25, side=side), x)
        self.same(lambda x: torch.bucketize(3, x), torch.tensor([1, 3, 3, 9]))
        self.same(lambda x: torch.bucketize(2.5, x), torch.tensor([1, 2, 3, 9]))
        self.same(lambda x: torch.bucketize(x, x[:0]), torch.arange(3))
        self.same(lambda x, y: torch.searchsorted(x, y), torch.arange(9), torch.rand(3) * 9)
        out = torch.empty(9, 4, dtype=torch.long).xpu().t()
        torch.searchsorted(x.sort()[0].xpu(), v.xpu(), out=out)
        self.compare(out, torch.searchsorted(x.sort()[0], v), "out")
        self.no_fallbacks()
        for call in (
            lambda d: torch.searchsorted(x.to(d), v.to(d)[:2]),
            lambda d: torch.searchsorted(x.to(d), v.to(d), right=True, side="left"),
            lambda d: torch.searchsorted(x.to(d), v.to(d), side="middle"),
            lambda d: torch.searchsorted(x.to(d), v.to(d), sorter=v.to(d).long()),
            lambda d: torch.bucketize(v.to(d), x.to(d)),
        ):
            with self.assertRaises(RuntimeError) as expected:
                call("cpu")
            with self.assertRaises(RuntimeError) as got:
                call("xpu")
            self.assertEqual(str(got.exception), str(expected.exception))

    def test_bincount(self):
        torch.manual_seed(2)
        for dtype in (torch.long, torch.int, torch.uint8):
            x = torch.randint(0, 90, (3000,)).to(dtype)
            self.same(torch.bincount, x)
            self.same(lambda x: torch.bincount(x[:7], minlength=200), x)
        x = torch.randint(0, 9, (500,))
        for weights in (torch.randint(0, 5, (500,)).float(), torch.randint(0, 5, (500,))):
            self.same(lambda x, w: torch.bincount(x, w), x, weights)
        self.no_fallbacks()
        for bad in (torch.tensor([-1, 3]), torch.ones(2, 2).long(), torch.ones(3)):
            with self.assertRaises(RuntimeError):
                torch.bincount(bad.xpu())
        self.same(lambda x: torch.bincount(x, minlength=4), torch.ones(0).long())

    def test_histc(self):
        torch.manual_seed(2)
        x = torch.randint(-40, 40, (3000,)).float() / 8
        for dtype in (torch.float, torch.double):
            if has(dtype):
                y = x.to(dtype)
                self.same(torch.histc, y)
                self.same(lambda x: torch.histc(x, 10, -3, 4), y)
                self.same(lambda x: torch.histc(x.view(3, -1).t(), bins=7, min=-1, max=1), y)
        self.same(lambda x: torch.histc(x, 4), torch.ones(5))
        edges = torch.cat([torch.linspace(0.1, 0.7, 61), torch.rand(5000)])
        self.same(lambda x: torch.histc(x, 60, 0.1, 0.7), edges)
        nan = torch.tensor([1.0, float("nan"), 9, float("inf"), 2])
        if LATER:  # PyTorch 1.13's counts NaN
            self.same(lambda x: torch.histc(x, 4, min=0, max=4), nan)
        out = torch.empty(0).xpu()
        torch.histc(x.xpu(), 5, out=out)
        self.compare(out, torch.histc(x, 5), "out")
        self.no_fallbacks()
        for call in (lambda x: torch.histc(x, 4), lambda x: torch.histc(x, 4, min=3, max=1)):
            with self.assertRaises(RuntimeError):
                call(nan.xpu())

    def test_isin(self):
        for dtype in (torch.long, torch.int, torch.float, torch.half)[: 4 if LATER else 3]:
            x = torch.randint(9, (5, 7)).to(dtype)
            for tests in (torch.tensor([3, 8, 3, -1]), torch.arange(4).view(2, 2), torch.empty(0)):
                tests = tests.to(dtype)
                for invert in (False, True):
                    got = torch.isin(x.t().xpu(), tests.xpu(), invert=invert)
                    self.assertEqual(got.cpu(), torch.isin(x.t(), tests, invert=invert))
        x = torch.tensor([1, float("nan"), float("inf"), 2])
        for tests in (x[:2], x[1:2], x[1:3], x):
            self.assertEqual(torch.isin(x.xpu(), tests.xpu()).cpu(), torch.isin(x, tests))
        self.no_fallbacks()

    def test_repeat_interleave(self):
        for dtype in (torch.long, torch.int):
            repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
            for size in ({}, {"output_size": 6}):
                got = torch.repeat_interleave(repeats.xpu(), **size)
                expected = torch.repeat_interleave(repeats, **size)
                self.assertEqual((got.cpu(), got.dtype), (expected, dtype))
        with self.assertRaisesRegex(RuntimeError, "allocated size does not match required size"):
            torch.repeat_interleave(repeats.xpu(), output_size=9).cpu()
        x = torch.randn(4, 3)
        got = x.xpu().repeat_interleave(repeats.xpu(), 0)
        self.assertEqual(got.cpu(), x.repeat_interleave(repeats, 0))
        self.no_fallbacks()


if __name__ == "__main__":
    run_tests()
