# Owner(s): ["module: intel"]
"""Operators with an index, and those that make or move elements by their place, that
the device computes itself. As those of test_xpu_kernels.py, the
tests run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest
import warnings

import torch
import torch.nn.functional as F
from test_xpu_kernels import (
    DTYPES,
    fallbacks,
    has,
    LATER,
    needs_device,
    ON,
    Processes,
    some,
    WITHOUT_VECTORS,
)
from torch.testing._internal.common_utils import run_tests, TestCase

FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]
ROUNDED = {torch.half: 4e-3, torch.bfloat16: 3e-2}  # after some additions
NARROW = (torch.half, torch.bfloat16)
MOVED = [*DTYPES.values(), torch.complex64]


def make(shape, dtype, seed=0):
    torch.manual_seed(seed)
    x = torch.randint(-4 if dtype not in (torch.uint8, torch.bool) else 0, 5, shape)
    return (x.float() / 2 if dtype.is_floating_point else x).to(dtype)


def index_of(size, shape, low=0):
    torch.manual_seed(len(shape))
    return torch.randint(low, size, shape)


def places(size, shape, dim):
    """An index that has no place twice: what is written there twice, is written in any order."""
    torch.manual_seed(len(shape))
    every = torch.rand(*shape[:dim], size, *shape[dim + 1 :]).argsort(dim)
    return every.narrow(dim, 0, shape[dim])


@needs_device
@unittest.skipIf(ON, "it is the process of the tests below")
class TestIndexProcesses(Processes):
    def test_indices(self):
        self.run_class("TestKernelIndex")  # sums of half are sorted

    def test_sequences(self):
        self.run_class("TestKernelSequences", **WITHOUT_VECTORS)


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelIndex(TestCase):
    def setUp(self):
        super().setUp()
        torch._C._xpu_resetFallbackStatistics()

    def no_fallbacks(self):
        self.assertEqual(fallbacks(), {})

    def compare(self, got, expected, msg=None, tolerance=None):
        self.assertEqual(got.device.type, "xpu", msg=msg)
        tolerance = tolerance if tolerance is not None else ROUNDED.get(got.dtype, 1e-5)
        self.assertEqual(
            got.cpu(), expected, rtol=tolerance, atol=tolerance, msg=msg, exact_dtype=True
        )

    def check(self, function, *tensors, msg=None):
        """The CPU computes in float what it adds up in a narrow type, or has not got."""
        wide = [x.float() if x.dtype in NARROW else x for x in tensors]
        expected = function(*(x.clone() for x in wide))
        expected = expected.to(tensors[0].dtype) if tensors[0].dtype in NARROW else expected
        strided = []
        for x in tensors:
            strided.append(x.xpu().t().contiguous().t() if x.dim() == 2 else x.xpu())
        text = f"{msg} {[(x.dtype, tuple(x.shape)) for x in tensors]}"
        self.compare(function(*(x.xpu() for x in tensors)), expected, text)
        self.compare(function(*strided), expected, f"{text} strided")

    def narrow(self, index):
        """As int32 where PyTorch takes it."""
        return index.int() if torch.__version__ >= "2" else index

    def cases(self, dtypes):
        return [dtype for dtype in dtypes if has(dtype)]

    def test_moves(self):
        """Elements of each size, as they are."""
        i, row = index_of(7, (5, 4)), index_of(7, (9,), -7)
        for dtype in self.cases(MOVED):
            x, y = make((7, 6), dtype), make((5, 4), dtype, 1)
            for function in (
                lambda x, y: x.gather(0, i.to(x.device)),
                lambda x, y: x.gather(-1, i.to(x.device)[:, :3].clamp(max=5)),
                lambda x, y: x.gather(0, self.narrow(i).to(x.device)),
                lambda x, y: x.scatter(1, places(6, (4, 5), 1).to(x.device), y.t()),
                lambda x, y: x.index_select(0, row[row >= 0].to(x.device)),
                lambda x, y: x.index_select(1, torch.tensor([0, 5, 5], device=x.device).int()),
                lambda x, y: x[row.to(x.device)],
                lambda x, y: x[:, i.to(x.device) - 3],
                lambda x, y: x[i.to(x.device), i.to(x.device) - 6],
                lambda x, y: x.take(i.to(x.device) * 5 - 2),
                lambda x, y: x.index_copy(0, torch.tensor([6, 0], device=x.device), x[1:3]),
                lambda x, y: x.index_fill(1, torch.tensor([-1, 2], device=x.device), 3),
                lambda x, y: x.index_fill(0, torch.tensor([1], device=x.device), y[0, 0]),
                lambda x, y: x.put(torch.arange(20, device=x.device).view(5, 4) * 2 - 42, y),
                lambda x, y: x.index_put((torch.arange(5, device=x.device),), y[:, :1]),
                lambda x, y: x.index_put((torch.arange(4, device=x.device),) * 2, y[0]),
            ):
                self.check(function, x, y, msg=dtype)
        self.no_fallbacks()

    def test_rows(self):
        """Elements side by side are moved together, if they are aligned."""
        row = index_of(9, (30,), -9)
        for dtype, size in itertools.product((torch.uint8, torch.half, torch.float), (8, 6, 7, 1)):
            x = make((9, 2 * size), dtype)
            for y in (x, x[:, 1:], x[:, :size], x.view(-1)[1:].as_strided((9, size), (2 * size, 1))):
                self.check(lambda y: y[row.to(y.device)], y)
                self.check(lambda y: y.index_copy(0, torch.tensor([7, 2], device=y.device), y[3:5]), y)
                self.check(lambda y: y.gather(0, (row % 9)[:4, None].to(y.device)), y)
        self.no_fallbacks()

    def test_adds(self):
        i = index_of(7, (5, 4))
        for dtype in self.cases(DTYPES.values()):
            x, y = make((7, 6), dtype), make((5, 4), dtype, 1)
            alpha = {} if dtype == torch.bool else {"alpha": 2}
            for function in (
                lambda x, y: x.scatter_add(0, i.to(x.device), y),
                lambda x, y: x.scatter_add(1, i.to(x.device).clamp(max=5)[:3], y),
                lambda x, y: x.index_add(0, i[:, 0].to(x.device), x[1:6], **alpha),
                lambda x, y: x.index_add(1, i[:, 0].int().clamp(max=5).to(x.device), x[:, 1:]),
                lambda x, y: x.index_put((i.to(x.device) - 7,), y[:, :1, None], True),
                lambda x, y: x.index_put((i.to(x.device), (i % 6).to(x.device)), y, accumulate=True),
                lambda x, y: x.put(i.to(x.device) * 3 - 4, y, accumulate=True),
            ):
                self.check(function, x, y, msg=dtype)
            reductions = ("sum", "prod", "amax", "amin")
            few = dtype in some(list(DTYPES.values()), 1)
            for reduce, include in itertools.product(reductions if few else (), (True, False)):
                self.check(
                    lambda x, y: x.scatter_reduce(
                        0, i.to(x.device), y, reduce, include_self=include
                    ),
                    x,
                    y,
                    msg=reduce,
                )
            if dtype.is_floating_point:
                mean = lambda x, y: x.scatter_reduce(0, i.to(x.device), y, "mean")  # noqa: E731
                self.check(mean, x, y)
                for value in (2.5, float("nan")):
                    self.check(lambda x: x.scatter(0, i.to(x.device), value), x)
            for reduce in ("add", "multiply") if few else ():
                self.check(lambda x, y: x.scatter(0, i.to(x.device), y, reduce=reduce), x, y)
                self.check(lambda x: x.scatter(0, i.to(x.device), 1, reduce=reduce), x)
        self.no_fallbacks()
        x = torch.tensor([1.0, float("nan"), 3, 2])
        place = torch.tensor([0, 0, 1, 1])
        for reduce in ("amax", "amin"):
            self.check(lambda x: x[:2].clone().scatter_reduce(0, place.to(x.device), x, reduce), x)
        # as many as wish for one element
        ones = torch.ones(100003)
        for dtype in self.cases((torch.float, torch.long, torch.int)):
            got = torch.zeros(3, dtype=dtype).xpu()
            got.index_add_(0, (torch.arange(100003) % 2).xpu(), ones.to(dtype).xpu())
            self.compare(got, torch.tensor([50002, 50001, 0], dtype=dtype), tolerance=0)
        for dtype in self.cases((torch.half, torch.bfloat16, torch.int16, torch.uint8)):
            got = torch.zeros(3, dtype=dtype).xpu()
            got.scatter_add_(0, (torch.arange(200) % 2).xpu(), ones[:200].to(dtype).xpu())
            self.compare(got, torch.tensor([100, 100, 0], dtype=dtype), tolerance=0)

    def test_in_place_and_out(self):
        x, i = make((7, 6), torch.float), index_of(6, (3, 6))
        for function in (
            lambda x, i: x.scatter_(1, places(6, (3, 4), 1).to(i.device), x[3:6].clone()[:, :4]),
            lambda x, i: x.scatter_(1, i[:, :1], 9),
            lambda x, i: x.scatter_add_(0, i, torch.ones_like(i).float()),
            lambda x, i: x.scatter_(0, i, 2, reduce="multiply"),
            lambda x, i: x.scatter_reduce_(0, i, x[:3].clone(), "amax"),
            lambda x, i: x.index_add_(1, i[0], x.clone()),
            lambda x, i: x.index_copy_(0, i[0, :1], x[2:3].clone()),
            lambda x, i: x.index_fill_(0, i[:, 0], 5),
            lambda x, i: x.put_(i[0, :1], x[0, :1].clone()),
            lambda x, i: x.index_put_((i[:2, 1],), x[0, 0].clone()),
            lambda x, i: x.__setitem__((slice(None), i[0, :2]), 7),
            lambda x, i: x.__setitem__(x > 0, 7),
            lambda x, i: x.__setitem__((slice(1), x[0] > 0), 7),
        ):
            for layout in (lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x.clone()[:6]):
                got, expected = layout(x.xpu()), layout(x.clone())
                at = got.data_ptr()
                function(got, i.xpu())
                function(expected, i)
                self.assertEqual(got.data_ptr(), at)
                self.compare(got, expected)
        self.no_fallbacks()
        d, j = x.xpu(), i.xpu()
        for function, like in (
            (lambda out, x, i: torch.gather(x, 1, i, out=out), (3, 6)),
            (lambda out, x, i: torch.scatter_add(x, 0, i, x[:3], out=out), (7, 6)),
            (lambda out, x, i: torch.index_select(x, 0, i[0], out=out), (6, 6)),
            (lambda out, x, i: torch.take(x, i, out=out), (3, 6)),
            (lambda out, x, i: torch.index_add(x, 0, i[0], x[:6], out=out), (7, 6)),
            (lambda out, x, i: torch.ops.aten.index(x, [None, i], out=out), (7, 3, 6)),
        ):
            out = torch.empty(*like[:-1], 2 * like[-1], device="xpu")[..., ::2]
            self.assertIs(function(out, d, j), out)
            self.compare(out, function(torch.empty(like), x, i))
            new = torch.empty(0, device="xpu")
            self.compare(function(new, d, j), out.cpu())
        self.no_fallbacks()

    def test_indices(self):
        """Where the dimensions that are indexed are, and in what layout."""
        x = make((3, 4, 5, 6), torch.float)
        i, j, k = index_of(3, (2, 1), -3), index_of(4, (1, 3), -4), index_of(5, (2, 3), -5)
        one = torch.tensor(1)
        for y in (x, x.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2), x[..., ::2]):
            for index in (
                (i,),
                (slice(None), j),
                (i, j),
                (i, j, k),
                (i, slice(None), k),
                (slice(None), j, slice(1, 3), index_of(3, (2, 3), -3)),
                (..., index_of(3, (2,))),
                (None, i, ..., None),
                (one, j),
                (one,),
                (slice(None), one, 2),
                (i, j, k, index_of(3, (2, 3))),
                (torch.zeros(0, dtype=torch.long),),
                (i.expand(2, 4),),
            ):
                moved = [z.xpu() if isinstance(z, torch.Tensor) else z for z in index]
                msg = f"{y.stride()} {index}"
                got = y.xpu()[tuple(moved)]
                self.compare(got, y[index], msg, tolerance=0)
                if not any(z is one for z in index):  # the CPU takes it as a number
                    self.assertEqual(got.stride(), y[index].stride(), msg=msg)
                got, expected = y.xpu().clone(), y.clone()
                got[tuple(moved)] += 1
                expected[index] += 1
                self.compare(got, expected, msg, tolerance=0)
        # of the CPU, of one element, of seven dimensions
        self.compare(x.xpu()[i], x[i])
        self.compare(torch.tensor(5.0).xpu().gather(0, torch.tensor(0).xpu()), torch.tensor(5.0))
        self.compare(torch.tensor(5.0).xpu().index_fill(0, torch.tensor(0).xpu(), 1), torch.tensor(1.0))
        self.compare(torch.tensor(5.0).xpu().take(torch.tensor([[0, 0]]).xpu()), torch.full((1, 2), 5.0))
        z = make((2, 3, 2, 3, 2, 3, 2), torch.half).permute(6, 2, 4, 0, 1, 5, 3)
        for index in ((slice(None), one, slice(None), k % 2), (..., j % 3)):
            moved = [z.xpu() if isinstance(z, torch.Tensor) else z for z in index]
            self.compare(z.xpu()[tuple(moved)], z[index], tolerance=0)
        self.compare(x.xpu()[x.xpu() > 0], x[x > 0])  # by nonzero
        self.assertEqual(fallbacks(), {})

    def test_gradients(self):
        i, j = index_of(7, (5, 4)), index_of(7, (5,))
        for function in (
            lambda x, y, i, j: x.gather(0, i) ** 2,
            lambda x, y, i, j: x.scatter(0, places(7, (5, 4), 0).to(i.device), y) ** 2,
            lambda x, y, i, j: x.scatter_add(0, i, y) ** 2,
            lambda x, y, i, j: x.scatter_reduce(0, i, y, "amax") ** 2,
            lambda x, y, i, j: x.index_select(0, j) ** 2,
            lambda x, y, i, j: x[j] * x[j, j.clamp(max=3), None],
            lambda x, y, i, j: x.index_add(0, j, y) ** 2,
            lambda x, y, i, j: x.index_copy(0, j[:1], y[:1]) ** 2,
            lambda x, y, i, j: x.take(i) * y,
            lambda x, y, i, j: x.flip(0) * x.roll(2, 1),
            lambda x, y, i, j: F.embedding(i, x) ** 2,
            lambda x, y, i, j: F.embedding(i, x, padding_idx=2, scale_grad_by_freq=True) ** 2,
        ):
            results = []
            for device in ("cpu", "xpu"):
                torch.manual_seed(0)
                x, y = (torch.randn(shape).to(device).requires_grad_() for shape in ((7, 4), (5, 4)))
                function(x, y, i.to(device), j.to(device)).sum().backward()
                results.append([z.grad.cpu() if z.grad is not None else None for z in (x, y)])
            self.assertEqual(*results)
        self.no_fallbacks()

    def test_embedding(self):
        for dtype, (size, shape) in itertools.product(
            self.cases(FLOATING), ((50, (8, 9)), (3, (200,)), (4, ()), (5, (0, 2)))
        ):
            weight, i = torch.randn(size, 12).to(dtype), index_of(size, shape)
            for options in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}):
                w = weight.double().clone().requires_grad_()
                d = weight.xpu().requires_grad_()
                expected = F.embedding(i, w, **options)
                for index in (i, i.int()):
                    got = F.embedding(index.xpu(), d, **options)
                    self.compare(got.detach(), expected.detach().to(dtype), tolerance=0)
                    d.grad = None
                    got.backward(torch.ones_like(got))
                    w.grad = None
                    F.embedding(i, w, **options).backward(torch.ones_like(expected))
                    self.compare(d.grad, w.grad.to(dtype), f"{dtype} {shape} {options}")
        self.no_fallbacks()

    BAD = (
        (lambda x, i: x.gather(0, i.view(1, 1)), RuntimeError),
        (lambda x, i: x.scatter_(0, i.view(1, 1), 1), RuntimeError),
        (lambda x, i: x.scatter_add_(0, i.view(1, 1), x + 0), RuntimeError),
        (lambda x, i: x.scatter_reduce_(0, i.view(1, 1), x + 0, "amax"), RuntimeError),
        (lambda x, i: x.index_select(0, i), IndexError),
        (lambda x, i: x.index_add_(0, i, x[:1] + 0), IndexError),
        (lambda x, i: x.index_copy_(0, i, x[:1] + 0), IndexError),
        (lambda x, i: x.index_fill_(0, i, 1), IndexError),
        (lambda x, i: x.index_reduce_(0, i, x[:1] + 0, "amax"), IndexError),
        (lambda x, i: x[i], IndexError),
        (lambda x, i: x[torch.zeros_like(i), i], IndexError),
        (lambda x, i: x.index_put_((i,), x[0] + 0), IndexError),
        (lambda x, i: x.index_put_((i, i), x[0, 0] + 0, accumulate=True), IndexError),
        (lambda x, i: x.take(i), IndexError),
        (lambda x, i: x.put_(i, x[0, :1] + 0), IndexError),
    )

    def test_out_of_range(self):
        """Nothing is written, the text is the CPU's, and the device goes on."""
        whole = torch.full((9, 4), 8.0)
        for (function, error), bad in itertools.product(
            self.BAD, (1000, -1000, torch.iinfo(torch.long).min)
        ):
            i = torch.tensor([bad])
            with self.assertRaises((RuntimeError, IndexError)) as raised:
                function(whole[3:6].clone(), i)
            expected = str(raised.exception).splitlines()[0]
            expected = expected.partition("index_copy_(): ")[2] or expected
            for synchronize in (
                torch.xpu.synchronize,
                lambda: torch.xpu.current_stream().synchronize(),
                lambda: whole.xpu()[0, 0].item(),
                lambda: (torch.ones(3).xpu() + 1).cpu(),
            ):
                d = whole.xpu()
                function(d[3:6], i.xpu())
                with self.assertRaises(error) as raised:
                    synchronize()
                text = str(raised.exception)
                self.assertIn(expected, text)
                self.assertIn(str(bad), text)
                self.assertRegex(text, r"aten::\w+ on xpu:0")
                torch.xpu.synchronize()
                self.assertEqual(d.cpu(), whole, msg=text)
        # there are none that could be written
        for size, function in itertools.product(
            ((0, 4), (8, 0, 4)),
            (
                lambda x, d, i, y: x.index_add_(d, i, y),
                lambda x, d, i, y: x.index_copy_(d, i, y),
                lambda x, d, i, y: x.index_reduce_(d, i, y, "amax"),
                lambda x, d, i, y: x.index_fill_(d, i, 1),
            ),
        ):
            d = size.index(0)
            results = []
            for device in ("cpu", "xpu"):
                x = torch.zeros(size, device=device)
                y = torch.ones([2 if one == 0 else one for one in size], device=device)
                try:
                    results.append(function(x, d, torch.zeros(2).long().to(device), y).shape)
                    torch.xpu.synchronize()
                except (IndexError, RuntimeError) as error:
                    results.append(str(error).splitlines()[0])
            self.assertEqual(*results)
        # the others of its elements are written
        d = torch.zeros(4).xpu()
        d.index_put_((torch.tensor([1, 4, 3, -5]).xpu(),), torch.ones(4).xpu())
        with self.assertRaisesRegex(IndexError, "(4|-5) is out of bounds for dimension 0 with size 4"):
            d.cpu()
        self.assertEqual(d.cpu().tolist(), [0, 1, 0, 1])
        x = torch.rand(5, 6).xpu()
        x[torch.zeros(1, dtype=torch.long).xpu(), torch.tensor([6]).xpu()]
        with self.assertRaisesRegex(IndexError, "index 6 is out of bounds for dimension 1 with size 6"):
            torch.xpu.synchronize()

    @unittest.skipIf(torch.xpu.device_count() < 2, "needs two devices")
    def test_out_of_range_of_two_devices(self):
        x, y = (torch.zeros(2 + i).to(f"xpu:{i}") for i in range(2))
        y[torch.tensor([5], device=y.device)]
        torch.xpu.synchronize(0)
        self.assertEqual(x.cpu().tolist(), [0, 0])
        with self.assertRaisesRegex(IndexError, "index 5 .* size 3 .*on xpu:1"):
            torch.xpu.synchronize(1)
        torch.xpu.synchronize(1)
        for function in (
            lambda: x.gather(0, y.long()),
            lambda: x.index_add_(0, y.long(), y),
            lambda: x.scatter_(0, x.long(), y),
            lambda: x.index_select(0, y.long()),
            lambda: x[y.long()],
            lambda: x.take(y.long()),
        ):
            with self.assertRaisesRegex(RuntimeError, "same device"):
                function()

    def test_deterministic(self):
        """What has no order of its own is left to the host."""
        x, i = torch.rand(5, 6), index_of(5, (40, 6))
        y = torch.rand(40, 6)
        torch.use_deterministic_algorithms(True)
        try:
            for function, host in (
                (lambda x, y, i: x.index_put((i[:, 0],), y), True),
                (lambda x, y, i: x.scatter(0, i, y), True),
                (lambda x, y, i: x.index_put((i[:, 0],), y, accumulate=True), False),
                (lambda x, y, i: x.long().scatter_add(0, i, y.long()), False),
                (lambda x, y, i: x.scatter_reduce(0, i, y, "amax"), False),
                (lambda x, y, i: x.scatter(0, i, 2), False),
                (lambda x, y, i: x.gather(0, i), False),
            ):
                torch._C._xpu_resetFallbackStatistics()
                self.compare(function(x.xpu(), y.xpu(), i.xpu()), function(x, y, i), tolerance=0)
                self.assertEqual(bool(fallbacks()), host)
            with self.assertRaisesRegex(RuntimeError, "put_ does not have a deterministic"):
                x.xpu().put_(i.xpu(), y.xpu())
        finally:
            torch.use_deterministic_algorithms(False)

    def sums(self, n):
        """What adds elements of `y` to those of `x` that an index of `n` leads to."""
        rows, every = index_of(3, (n,), -3), index_of(3, (n, 2, 5))
        columns = index_of(5, (n, 2), -5)
        bags = torch.arange(0, n, 3)
        mean = {"dim": 0, "reduce": "mean", "include_self": False}
        yield lambda x, y, to: x.index_add(0, to(rows % 3), y, alpha=0.5)
        yield lambda x, y, to: x.mT.index_add(0, to(rows % 3), y.mT)
        yield lambda x, y, to: x.index_put((to(rows),), y, accumulate=True)
        yield lambda x, y, to: torch.ops.aten.index_put(
            x, [to(rows)[:, None], None, to(columns)], y[..., :2], accumulate=True
        )
        yield lambda x, y, to: x.put(to(rows), y[:, 0, 0], accumulate=True)
        yield lambda x, y, to: x.scatter_add(0, to(every), y)
        yield lambda x, y, to: x.scatter_add(0, to(rows % 3)[:, None, None].expand(n, 2, 5), y)
        yield lambda x, y, to: x.scatter_reduce(index=to(every), src=y, **mean)
        yield lambda x, y, to: torch.ops.aten.index_select_backward(y, x.shape, 0, to(rows % 3))
        yield lambda x, y, to: torch.ops.aten.embedding_dense_backward(
            y[:, 0], to(rows % 3), 5, 1, False
        )
        yield lambda x, y, to: torch.autograd.grad(
            F.embedding_bag(to(rows % 3), leaf := x[:, 0].requires_grad_(), to(bags), mode="sum"),
            leaf,
            y[: len(bags), 0],
        )[0]
        # by an index that is expanded where it is followed
        one = torch.tensor([1])
        two = torch.tensor([[0], [-1]])
        yield lambda x, y, to: x.index_add(0, to(one).expand(n), y)
        yield lambda x, y, to: x.index_put((to(one).expand(n),), y, accumulate=True)
        yield lambda x, y, to: x.index_put((to(two).expand(2, n),), y, accumulate=True)
        yield lambda x, y, to: x.put(to(one).expand(n), y[:, 0, 0], accumulate=True)
        yield lambda x, y, to: x.new_zeros(9 * n).scatter_add(0, to(one).expand(n), y[:, 0, 0])
        yield lambda x, y, to: torch.ops.aten.embedding_dense_backward(
            y[:, 0], to(one).expand(n), 2 * n, -1, False
        )

    def test_sums_of_16_bits(self):
        """They do not stop where an element is too small a part of them."""
        none = torch.ops.aten.embedding_dense_backward(
            torch.empty(3, 0, dtype=torch.half, device="xpu"), index_of(3, (3,)).xpu(), 5, -1, False
        )
        self.assertEqual(none.shape, (5, 0))
        for dtype, n in itertools.product(NARROW, (1, 4, 3000)):
            for case, function in enumerate(self.sums(n)):
                x = torch.randint(-4, 5, (3, 2, 5)).to(dtype)
                y = torch.rand(n, 2, 5).to(dtype)
                got = function(x.xpu(), y.xpu(), torch.Tensor.xpu)
                expected = function(x.double(), y.double(), torch.Tensor.cpu)
                self.assertEqual(got.dtype, dtype)
                with self.subTest(dtype=dtype, n=n, case=case):
                    self.compare(got.double(), expected, tolerance=torch.finfo(dtype).eps)
        self.no_fallbacks()

    def test_sums_in_order(self):
        """Of floats they are the same bit by bit each time, if PyTorch is told so."""
        torch.use_deterministic_algorithms(True)
        try:
            for case, function in enumerate(self.sums(3000)):
                x, y = torch.rand(3, 2, 5), torch.rand(3000, 2, 5)
                first, second = (function(x.xpu(), y.xpu(), torch.Tensor.xpu) for _ in range(2))
                expected = function(x.double(), y.double(), torch.Tensor.cpu)
                with self.subTest(case=case):
                    self.assertTrue(first.cpu().equal(second.cpu()))
                    self.compare(first.double(), expected, tolerance=1e-5)
            self.no_fallbacks()
        finally:
            torch.use_deterministic_algorithms(False)

    def test_errors(self):
        """The texts are PyTorch's."""
        i = torch.tensor([[0, 1]])
        for function in (
            lambda x, i: x.gather(0, i[0]),
            lambda x, i: x.gather(2, i),
            lambda x, i: x[:0].gather(0, i),
            lambda x, i: x[:0].scatter(0, i, 1),
            lambda x, i: x.scatter(0, i, x.double()),
            lambda x, i: x.scatter(0, i.expand(2, 2), x[:1]),
            lambda x, i: x.scatter(0, i, x, reduce="mean"),
            lambda x, i: x.index_select(0, i),
            lambda x, i: x.index_select(0, i[0].float()),
            lambda x, i: x.index_add(0, i[0], x),
            lambda x, i: x.index_copy(0, i[0], x),
            lambda x, i: x.index_fill(0, i, 1),
            lambda x, i: x[i, i, i],
            lambda x, i: x[i.float()],
            lambda x, i: x.__setitem__(i, torch.ones(7).to(x.device)),
            lambda x, i: x.index_put((i,), x.double()),
            lambda x, i: x.take(i.int()),
            lambda x, i: x.put(i, x),
            lambda x, i: x[torch.ones(7, dtype=torch.bool).to(x.device)],
            lambda x, i: torch.gather(x, 0, i, out=x),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(torch.rand(5, 6).to(device), i.to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)


@needs_device
@unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelSequences(TestCase):
    def check(self, function, msg=None, tolerance=1e-6):
        torch._C._xpu_resetFallbackStatistics()
        got = function("xpu")
        left = fallbacks()
        self.assertEqual(left, {}, msg=msg)
        expected = function("cpu")
        self.assertEqual(got.device.type, "xpu", msg=msg)
        tolerance = max(tolerance, ROUNDED.get(got.dtype, 0) / 2)
        self.assertEqual(
            got.cpu(), expected, rtol=tolerance, atol=tolerance, msg=msg, exact_dtype=True
        )
        self.assertEqual(got.stride(), expected.stride(), msg=msg)

    def test_flip_and_roll(self):
        for dtype in (d for d in MOVED if has(d)):
            x = make((3, 4, 5), dtype)
            for y in (x, x.permute(2, 0, 1), x[:, ::2], x[:1].expand(3, 4, 5), x[:, :0]):
                for dims in ((0,), (1, -1), (0, 1, 2), ()):
                    self.check(lambda device: y.to(device).flip(dims), f"{dtype} {dims}")
        for shifts, dims in ((2, 1), (-1, 0), (7, 2), ((1, -2), (0, 2)), (3, ()), (0, 1)):
            self.check(lambda device: x.to(device).roll(shifts, dims), f"{shifts} {dims}")
        self.check(lambda device: torch.tensor(3).to(device).flip(()))
        self.check(lambda device: torch.arange(7).to(device).flip(0))
        image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        self.check(lambda device: image.to(device).flip(1, 2))
        large = torch.arange(1 << 18).view(2, -1)
        self.check(lambda device: large.to(device).flip(0, 1))
        for function in (lambda x: x.flip(0, 0), lambda x: x.flip(3), lambda x: x.roll(1, 3)):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(x.to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    def test_triangles(self):
        for dtype in (d for d in MOVED if has(d)):
            x = make((2, 5, 7), dtype)
            for function, diagonal in itertools.product((torch.tril, torch.triu), (0, 2, -3, 9)):
                msg = f"{function} {dtype} {diagonal}"
                self.check(lambda device: function(x.to(device), diagonal), msg)
        for name, y in itertools.product(("tril", "triu"), (x, x.mT, x[..., ::2], x[0], x[:, :0], x[:0])):
            y = y.float()
            self.check(lambda device: getattr(y.to(device), name)(1).contiguous(), name)
            self.check(lambda device: getattr(y.to(device).clone(), name + "_")(1), name)
            out = lambda device: torch.empty(y.mT.shape, device=device).mT  # noqa: E731
            self.check(lambda device: getattr(torch, name)(y.to(device), out=out(device)), name)
        for function, sizes in itertools.product(
            (torch.tril_indices, torch.triu_indices),
            ((4, 5), (5, 3, 1), (3, 5, -2), (6, 2, 7), (2, 6, -7), (0, 3), (3, 0, 1), (1, 1)),
        ):
            self.check(lambda device: function(*sizes, device=device), f"{function} {sizes}")
        self.check(lambda device: torch.triu_indices(3, 3, dtype=torch.int, device=device))
        for function in (
            lambda device: torch.ones(3, device=device).tril(),
            lambda device: torch.tril_indices(-1, 3, device=device),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(device)
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    def test_numbers(self):
        def check(function, *args, dtype):
            """The CPU computes what is narrow in float: it has not got all of it."""
            wide = torch.float if dtype in NARROW else dtype
            self.check(
                lambda device: function(
                    *args, dtype=wide if device == "cpu" else dtype, device=device
                ).to(dtype),
                f"{function} {dtype} {args}",
                tolerance=1e-5 if function is torch.logspace else 1e-6,
            )

        for dtype in (d for d in DTYPES.values() if has(d) and d != torch.bool):
            for args in ((5,), (0,), (2, 9), (1, 20, 3), (9, 1, -2) if dtype != torch.uint8 else (1,)):
                check(torch.arange, *args, dtype=dtype)
            check(torch.eye, 3, 5, dtype=dtype)
            if dtype.is_floating_point:
                for args in ((0, 1, 0.3), (5.5, -1, -0.7), (0.0, 1000, 0.25)):
                    check(torch.arange, *args, dtype=dtype)
                for args in ((0, 1, 7), (-3, 2.5, 100), (5, 1, 1), (2, 3, 0), (2, 3, 2)):
                    check(torch.linspace, *args, dtype=dtype)
                    check(torch.logspace, *args, dtype=dtype)
        for args in ((0, 1 + 2j, 7), (1 - 1j, 2.5, 2), (1j, 0, 0), (1, 3, 1)):
            for function in (torch.linspace, torch.logspace):
                check(function, *args, dtype=torch.complex64)
        self.check(lambda device: torch.arange(3.0, device=device))
        self.check(lambda device: torch.arange(2**40, 2**40 + 5, device=device))
        self.check(lambda device: torch.arange(300000, device=device))
        self.check(lambda device: torch.logspace(0, 3, 5, base=2, device=device))
        self.check(lambda device: torch.eye(4, device=device))
        self.check(lambda device: torch.eye(0, 3, device=device))
        self.check(lambda device: torch.arange(0, 6, out=torch.empty(12, device=device)[::2]))
        self.check(lambda device: torch.linspace(0, 6, 6, out=torch.empty(12, device=device)[::2]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated
            self.check(lambda device: torch.range(1, 4, 0.5, device=device))
            self.check(lambda device: torch.range(1, 9, 3, dtype=torch.long, device=device))
        # what the host has to say
        for function in (
            lambda device: torch.arange(1, 0, device=device),
            lambda device: torch.arange(0, 1, 0, device=device),
            lambda device: torch.arange(0, float("inf"), device=device),
            lambda device: torch.linspace(0, 1, -1, device=device),
            lambda device: torch.eye(-1, device=device),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises(RuntimeError) as raised:
                    function(device)
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    def test_composites(self):
        x = torch.rand(3, 4)
        for function in (
            lambda x: x.repeat(2, 3),
            lambda x: torch.stack([x, x], 1),
            lambda x: x[0].diag(1),
            lambda x: x.diag(),
            lambda x: x.rot90(),
            lambda x: x.fliplr(),
            lambda x: torch.diag_embed(x),
        ):
            self.check(lambda device: function(x.to(device)))

    def test_masks(self):
        for i, shape in enumerate([(5,), (3, 4), (2, 3, 4), (), (0, 3), (40000,)]):
            for dtype in some([d for d in DTYPES.values() if has(d)], i):
                x = make(shape, dtype)
                msg = f"{dtype} {shape}"
                for y in (x, x.t(), x[:, ::2]) if x.dim() == 2 else (x,):
                    y = y * (y > 1) if dtype != torch.bool else y
                    for function in (
                        lambda x: x.nonzero(),
                        lambda x: x[x != 0],
                        lambda x: x.masked_select(x > 0),
                        lambda x: x.masked_scatter(x > 0, x.flip(0) if x.dim() else x.clone()),
                    ):
                        self.check_masks(function, y, msg)
        x = make((4, 5), torch.float)
        for function in (
            lambda x: x.masked_select(x[0] > 0),
            lambda x: x[0].masked_select(x > 0),
            lambda x: x[x[:, 0] > 0],
            lambda x: x[:, x[0] > 0],
            lambda x: torch.masked_select(x, x > 0, out=torch.empty(0, device=x.device)),
            lambda x: torch.nonzero(x, out=torch.empty(0, dtype=torch.long, device=x.device)),
            lambda x: x.clone().masked_scatter_(x[0] > 0, x * 2),
            lambda x: x.t().clone().t().masked_scatter_(x > 0, x * 2),
            lambda x: x.index_put((x > 0,), x[x > 0] * 2),
            lambda x: torch.stack(x.nonzero(as_tuple=True)),
        ):
            self.check_masks(function, x)
        for size in (0, 3, 50) if LATER else ():  # does not wait for the number of elements
            for y in (x, x[:0], x[0, 0], x > 0, x.t()[1:]):
                self.check_masks(lambda x: torch.nonzero_static(x, size=size), y)
                self.check_masks(lambda x: torch.nonzero_static(x, size=size, fill_value=7), y)
        results = []
        for device in ("cpu", "xpu"):
            y = x.clone().to(device).requires_grad_()
            (y.masked_select(y > 0) ** 2).sum().backward()
            y[y < 0].sum().backward()
            results.append(y.grad.cpu())
        self.assertEqual(*results)
        mask = torch.ones(3, dtype=torch.bool)
        with self.assertRaisesRegex(RuntimeError, "source < number of ones in mask"):
            torch.zeros(3).xpu().masked_scatter_(mask.xpu(), torch.ones(2).xpu())
            torch.xpu.synchronize()
        torch._C._xpu_resetFallbackStatistics()
        y = torch.ones(3).xpu()
        y.masked_scatter_(mask.xpu().logical_not(), torch.empty(0).xpu())
        self.assertEqual(y.cpu(), torch.ones(3))
        with self.assertRaisesRegex(RuntimeError, "source < number of ones in mask"):
            y.masked_scatter_(mask.xpu(), torch.empty(0).xpu())
            torch.xpu.synchronize()
        self.assertEqual(fallbacks(), {})
        for function in (
            lambda x: x.masked_select(x),
            lambda x: x.masked_select(x[:, :3] > 0),
            lambda x: x.masked_scatter_(x > 0, x.double()),
            lambda x: torch.nonzero(x, out=torch.empty(0, device=x.device)),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, IndexError)) as raised:
                    function(x.to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)

    def test_assertions(self):
        """They are raised where the device is waited for, which goes on."""
        calls = [(torch._assert_async, "single nonzero value, but got zero", ())]
        if LATER:
            message = torch.ops.aten._assert_async.msg
            calls += [(message, "first words", ("first words",)), (message, "others", ("others",))]
        for call, words, given in calls:
            for dtype in (torch.bool, torch.float, torch.int):
                call(torch.ones((), dtype=dtype).xpu(), *given)
                torch.xpu.synchronize()
                with self.assertRaisesRegex(RuntimeError, words):
                    call(torch.zeros(1, dtype=dtype).xpu(), *given)
                    torch.xpu.synchronize()
        self.assertEqual(fallbacks(), {})
        with self.assertRaisesRegex(RuntimeError, "more than one value"):
            torch._assert_async(torch.ones(2).xpu())

    def check_masks(self, function, x, msg=None):
        """Reading how many there are is no operator of the host."""
        torch._C._xpu_resetFallbackStatistics()
        got = function(x.xpu())
        self.assertEqual(fallbacks(), {}, msg=msg)
        expected = function(x)
        self.assertEqual(got.device.type, "xpu", msg=msg)
        self.assertEqual(got.cpu(), expected, rtol=0, atol=0, msg=msg, exact_dtype=True)
        self.assertEqual(got.stride(), expected.stride(), msg=msg)


if __name__ == "__main__":
    run_tests()
