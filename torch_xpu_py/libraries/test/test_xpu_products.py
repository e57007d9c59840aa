# Owner(s): ["module: intel"]
"""Products of matrices on the device. As those of test_xpu_kernels.py, the tests run in a
process with TORCH_XPU_KERNELS=1."""

import itertools
import time
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase

FLOATING = [torch.float, torch.half, torch.bfloat16, torch.double]
INTEGRAL = [torch.long, torch.int, torch.short, torch.int8, torch.uint8]
NAN = float("nan")


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestProductProcesses(kernels.Processes):
    @slowTest
    def test_products(self):
        self.run_class("TestKernelProducts", **kernels.WITHOUT_VECTORS)

    @slowTest
    def test_products_by_onednn(self):
        self.run_class("TestKernelProductsByOneDnn", **kernels.WITHOUT_VECTORS)


def choose_onednn(test, on):
    """Whether it computes in a test, or kernels; on NVIDIA's devices neither may."""
    problem = torch.xpu.libraries()["onednn"].problem
    if on and (problem or kernels.ON_CUDA):
        test.skipTest(problem or "oneDNN is for devices of Intel's")
    test.addCleanup(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
    torch._C._set_mkldnn_enabled(on)


def matrix(dtype, *sizes):
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    return torch.randint(0, 9, sizes).to(dtype)


def transposed(x):
    return x.transpose(-2, -1).contiguous().transpose(-2, -1)


def gaps(x):
    return torch.stack([x, x.flip(0)], -1)[..., 0]


STRIDES = [lambda x: x, transposed, gaps]



def antialiased(mode, size, corners=False, scale=None):
    return lambda x: F.interpolate(
        x, size, scale, mode=mode, align_corners=corners, antialias=True
    )


CASES = {
    "bilinear, larger and smaller": ([(2, 3, 9, 7)], antialiased("bilinear", (13, 3))),
    "bilinear, with corners": ([(1, 2, 8, 9)], antialiased("bilinear", (3, 2), corners=True)),
    "bilinear, by a scale": ([(1, 2, 9, 8)], antialiased("bilinear", None, scale=(0.4, 1.3))),
    "bicubic": ([(2, 1, 9, 17)], antialiased("bicubic", (13, 4))),
    "bicubic, with corners": ([(2, 1, 9, 17)], antialiased("bicubic", (5, 20), corners=True)),
    "matmul": ([(3, 5), (5, 4)], torch.matmul),
    "mv": ([(7, 9), (9,)], torch.mv),
    "dot": ([(1000,), (1000,)], torch.dot),
    "vdot": ([(30,), (30,)], torch.vdot),
    "outer of a batch": ([(2, 3, 1), (2, 1, 5)], torch.bmm),
    "a batch and a matrix": ([(2, 3, 4, 5), (5, 6)], torch.matmul),
    "two batches": ([(2, 1, 4, 5), (3, 5, 6)], torch.matmul),
    "a vector and a batch": ([(5,), (3, 5, 6)], torch.matmul),
    "einsum": ([(2, 3, 4), (4, 5, 2)], lambda a, b: torch.einsum("bij,jkb->bik", a, b)),
    "tensordot": ([(3, 4, 5), (4, 3, 2)], lambda a, b: torch.tensordot(a, b, ([1, 0], [0, 1]))),
    "linear": ([(2, 3, 70), (65, 70)], F.linear),
    "linear with bias": ([(2, 3, 70), (65, 70), (65,)], F.linear),
    "linear of a matrix": ([(6, 70), (65, 70), (65,)], F.linear),
    "chain": ([(4, 5), (5, 6), (6, 2)], lambda *all: torch.linalg.multi_dot(all)),
    "addmm": (
        [(4, 6), (4, 5), (5, 6)],
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
    ),
    "addmm to a column": ([(4, 1), (4, 5), (5, 6)], torch.addmm),
    "addmm to a number": ([(), (4, 5), (5, 6)], lambda c, a, b: torch.addmm(c, a, b, beta=3)),
    "baddbmm": (
        [(3, 4, 6), (3, 4, 5), (3, 5, 6)],
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2),
    ),
    "baddbmm to a row": ([(6,), (3, 4, 5), (3, 5, 6)], torch.baddbmm),
    "addbmm": (
        [(4, 6), (3, 4, 5), (3, 5, 6)],
        lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2),
    ),
    "addmv": (
        [(4,), (4, 5), (5,)],
        lambda c, a, b: torch.addmv(c, a, b, beta=0.5, alpha=2),
    ),
}
if hasattr(F, "scaled_dot_product_attention"):
    CASES["attention"] = ([(2, 2, 7, 8)] * 3, F.scaled_dot_product_attention)


class Recurrent(torch.nn.Module):
    """A language model of an LSTM."""

    def __init__(self, words=40, width=16):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.layers = torch.nn.LSTM(width, width, 2, batch_first=True)
        self.last = torch.nn.Linear(width, words)

    def forward(self, x):
        return self.last(self.layers(self.words(x))[0])


def rotated(x):
    """Turns pairs of numbers by angles that grow with the place."""
    half = x.size(-1) // 2
    places, numbers = (torch.arange(n, device=x.device) for n in (x.size(-2), half))
    angles = places[:, None] * (numbers / half * -4.0).exp()
    low, high = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def attention(q, k, v):
    """Causal; some heads share keys and values."""
    if kernels.LATER:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    times = q.size(1) // k.size(1)
    k, v = (torch.stack(times * [x], 2).flatten(1, 2) for x in (k, v))
    later = torch.ones(q.size(-2), k.size(-2), device=q.device).triu(1) > 0
    products = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
    return products.masked_fill(later, -float("inf")).softmax(-1) @ v


class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(torch.nn.Module):
    def __init__(self, width, heads, shared):
        super().__init__()
        linear = lambda of, to: torch.nn.Linear(of, to, bias=False)  # noqa: E731
        self.heads, self.sizes = heads, [n * width // heads for n in (heads, shared, shared)]
        self.before, self.between = Norm(width), Norm(width)
        self.qkv, self.out = linear(width, sum(self.sizes)), linear(width, width)
        self.up, self.down = linear(width, 4 * width), linear(2 * width, width)

    def forward(self, x):
        parts = self.qkv(self.before(x)).split(self.sizes, -1)
        size = x.size(-1) // self.heads
        q, k, v = (part.unflatten(-1, (-1, size)).transpose(1, 2) for part in parts)
        y = attention(rotated(q), rotated(k), v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, y = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * y)


class Decoder(torch.nn.Module):
    """As Llama is: four heads share two keys, and the embedding is the last layer, too."""

    def __init__(self, words=40, width=32, heads=4, shared=2):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        layers = (Layer(width, heads, shared) for _ in range(2))
        self.layers = torch.nn.Sequential(*layers, Norm(width))

    def forward(self, x):
        return F.linear(self.layers(self.words(x)), self.words.weight)


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelProducts(TestCase):
    onednn = False

    def setUp(self):
        super().setUp()
        choose_onednn(self, self.onednn)
        torch.manual_seed(0)
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        self.assertEqual(kernels.fallbacks(), {})
        super().tearDown()

    def near(self, got, expected, dtype, msg=None):
        tolerance = kernels.TOLERANCE[dtype] * 8
        scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1
        self.assertEqual(got.dtype, dtype, msg=msg)
        self.assertEqual(
            got.cpu().double(),
            expected.to(dtype).double(),
            rtol=tolerance,
            atol=tolerance * scale,
            msg=msg,
        )

    def test_cases(self):
        """Results and gradients beside the CPU's in double, of matrices with different
        strides."""
        dtypes = [dtype for dtype in FLOATING if kernels.has(dtype)]
        for i, (name, (shapes, function)) in enumerate(CASES.items()):
            for j, dtype in enumerate(dtypes):
                inputs = [matrix(dtype, *shape) for shape in shapes]
                results = []
                for k, to in enumerate((torch.Tensor.double, torch.Tensor.xpu)):
                    moved = [
                        STRIDES[(i + j + n) % 3 * k](to(x)) if x.dim() > 1 else to(x)
                        for n, x in enumerate(inputs)
                    ]
                    moved = [x.detach().requires_grad_() for x in moved]
                    y = function(*moved)
                    weights = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype)
                    y.backward(weights.to(y))
                    results.append([y.detach(), *(x.grad for x in moved)])
                for expected, got in zip(*results):
                    self.near(got, expected, dtype, msg=f"{name}, {dtype}")

    def test_sizes(self):
        """Tiles that are whole, cut, and several, and inner sizes that are divided."""
        sizes = [(1, 1, 1), (64, 64, 16), (65, 63, 17), (130, 3, 5), (2, 200, 40), (3, 2, 5000)]
        for (rows, cols, inner), dtype in itertools.product(sizes, (torch.float, torch.bfloat16)):
            a, b = matrix(dtype, rows, inner), matrix(dtype, inner, cols)
            for left, right in itertools.product(STRIDES, STRIDES):
                got = left(a.xpu()) @ right(b.xpu())
                self.near(got, a.double() @ b.double(), dtype)
            again = a.xpu() @ b.xpu()
            self.assertEqual(again.cpu(), (a.xpu() @ b.xpu()).cpu(), rtol=0, atol=0)

    @unittest.skipUnless(kernels.LATER, "PyTorch 1.13 has no such products")
    def test_int8(self):
        """Also sizes that cuBLASLt does not take."""
        for rows, cols, inner in [(32, 16, 64), (33, 7, 130), (1, 8, 16), (3, 4, 0), (0, 2, 5)]:
            a, b = (torch.randint(-128, 128, shape).char() for shape in ((rows, inner), (inner, cols)))
            for left, right in itertools.product(STRIDES, STRIDES):
                got = torch._int_mm(left(a.xpu()), right(b.xpu()))
                self.assertEqual(got.cpu(), (a.long() @ b.long()).int())
            out = torch.empty(cols, rows, dtype=torch.int32).xpu().t()
            self.assertEqual(torch._int_mm(a.xpu(), b.xpu(), out=out).cpu(), got.cpu())
        with self.assertRaisesRegex(RuntimeError, "Expected result.size"):  # as the CPU
            torch._int_mm(a.xpu(), b.xpu(), out=torch.empty(7, 7, dtype=torch.int32).xpu())
        torch._C._xpu_resetFallbackStatistics()

    @unittest.skipUnless(kernels.LATER, "PyTorch 1.13 has no float8")
    def test_float8(self):
        """Scales of matrices, and of rows and columns; also sizes that cuBLASLt does not take."""
        types = (torch.float8_e4m3fn, torch.float8_e5m2)
        wide = (torch.bfloat16, torch.half, torch.float)
        sizes = [(32, 16, 64), (1, 32, 16), (15, 18, 33), (15, 32, 16), (16, 16, 0)]
        strides = itertools.cycle(itertools.product(STRIDES, STRIDES))
        cases = itertools.product(sizes, types, types, wide, (False, True), (False, True))
        for (rows, cols, inner), left, right, dtype, by_row, with_bias in cases:
            a, b = torch.randn(rows, inner).to(left), torch.randn(cols, inner).to(right).t()
            scales = [torch.rand(()) + 0.5, torch.rand(1) + 0.5]
            if by_row:
                scales = [torch.rand(rows, 1) + 0.5, torch.rand(1, cols) + 0.5]
            bias = torch.randn(cols).to(dtype) if with_bias else None
            expected = (a.double() @ b.double()) * scales[0] * scales[1]
            expected = expected + (bias.double() if with_bias else 0)
            moved = [x.xpu() for x in (a, b, *scales)]
            moved[:2] = (of(x) for of, x in zip(next(strides), moved))
            options = {"bias": bias.xpu() if with_bias else None, "out_dtype": dtype}
            got = torch._scaled_mm(*moved, **options)
            self.near(got, expected, dtype, msg=f"{rows, cols, inner, left, right, by_row}")
            out = torch.empty(cols, rows, dtype=dtype).xpu().t()
            torch._scaled_mm(*moved, **options, out=out)
            self.assertEqual(out.cpu(), got.cpu())
            torch._scaled_mm(*moved, bias=options["bias"], out=out.zero_())  # of its type
            self.assertEqual(out.cpu(), got.cpu())
            narrow = torch._scaled_mm(*moved, **{**options, "out_dtype": left}).float()
            self.assertEqual(narrow.cpu(), expected.to(left).float(), rtol=0.26, atol=0.1)
            got = torch._scaled_mm(*moved, **options, use_fast_accum=True)
            self.near(got, expected, dtype)
            recipe = F.ScalingType.RowWise if by_row else F.ScalingType.TensorWise
            again = F.scaled_mm(
                *moved[:3], recipe, moved[3], recipe, bias=options["bias"], output_dtype=dtype
            )
            self.near(again, expected, dtype)

    @unittest.skipUnless(kernels.LATER, "PyTorch 1.13 has no float8")
    def test_float8_in_blocks(self):
        part, block = F.ScalingType.BlockWise1x128, F.ScalingType.BlockWise128x128

        def scaled(rows, inner, recipe):
            """A matrix, its scales, and what both are."""
            x = torch.randn(rows, inner).to(torch.float8_e4m3fn)
            parts = -(-inner // 128)
            if recipe == part:
                scale = torch.rand(parts, rows).t() + 0.5
                factors = scale.repeat_interleave(128, 1)
            else:
                scale = torch.rand(-(-rows // 128), -(-parts // 4) * 4).t() + 0.5
                factors = scale[:parts].t().repeat_interleave(128, 0).repeat_interleave(128, 1)
            return x, scale, x.double() * factors[:rows, :inner]

        sizes = [(128, 256, 384), (256, 128, 1024), (16, 272, 640), (5, 7, 130)]
        recipes = ((part, block), (block, part), (part, part))
        types = (torch.bfloat16, torch.half, torch.float)
        for (rows, cols, inner), (left, right), dtype in itertools.product(sizes, recipes, types):
            a, scale_a, exact_a = scaled(rows, inner, left)
            b, scale_b, exact_b = scaled(cols, inner, right)
            bias = torch.randn(cols).to(dtype)
            for add in (None, bias):
                got = F.scaled_mm(
                    a.xpu(), b.xpu().t(), scale_a.xpu(), left, scale_b.xpu(), right,
                    bias=add if add is None else add.xpu(), output_dtype=dtype,
                )  # fmt: skip
                expected = exact_a @ exact_b.t() + (0 if add is None else add.double())
                # The card adds up products of float8 in fewer bits than float has.
                near = torch.half if dtype == torch.float else dtype
                self.assertEqual(got.dtype, dtype)
                text = f"{rows, cols, inner, left, right}"
                self.near(got.to(near), expected, near, msg=text)

    def test_integers(self):
        for dtype in INTEGRAL:
            a, b, c = matrix(dtype, 5, 70), matrix(dtype, 70, 6), matrix(dtype, 5, 6)
            self.assertEqual((a.xpu() @ b.xpu()).cpu(), a @ b)
            got = torch.addmm(c.xpu(), a.xpu(), transposed(b.xpu()), beta=3, alpha=2)
            self.assertEqual(got.cpu(), torch.addmm(c, a, b, beta=3, alpha=2))
            self.assertEqual(torch.dot(a[0].xpu(), b[:, 0].xpu()).cpu(), torch.dot(a[0], b[:, 0]))
            x, y = a.view(5, 10, 7), matrix(dtype, 5, 7, 3)
            self.assertEqual(torch.bmm(x.xpu(), y.xpu()).cpu(), torch.bmm(x, y))

    def test_inner_sizes_in_parts(self):
        """Of every type; factors are taken as for one part."""
        for dtype in (*INTEGRAL, torch.float, torch.double):
            a, b, c = matrix(dtype, 4, 2000), matrix(dtype, 2000, 5), matrix(dtype, 4, 5)
            for beta, alpha in ((1, 1), (2.0, 3.0), (True, 2)):
                got = torch.addmm(c.xpu(), a.xpu(), b.xpu(), beta=beta, alpha=alpha)
                expected = torch.addmm(c.double(), a.double(), b.double(), beta=beta, alpha=alpha)
                if not dtype.is_floating_point:  # what does not fit wraps
                    expected = expected.long()
                self.assertEqual(got.cpu(), expected.to(dtype), rtol=1e-4, atol=1e-3)

    def test_large_factors(self):
        a, b, c = (torch.randn(4, 4).double() for _ in range(3))
        got = torch.addmm(c.xpu(), a.xpu(), b.xpu(), beta=1e100, alpha=1e300)
        self.assertEqual(got.cpu(), torch.addmm(c, a, b, beta=1e100, alpha=1e300))

    def test_more_shapes_than_plans(self):
        """What is made for a shape is found again, though a loop has too many."""
        a = torch.randn(4, 1200).xpu()
        times = []
        for _ in range(4):
            start = time.perf_counter()
            for cols in range(1, 1200):
                a[:, :cols] @ a[:, :cols].t()
            times.append(time.perf_counter() - start)
        if self.onednn:
            self.assertLess(min(times[1:]) * 2, times[0])

    def test_zeros_without_memory(self):
        """As forward-mode differentiation has them for what has no tangent."""
        a = torch.randn(5).xpu()
        zeros = torch._efficientzerotensor((5,), device="xpu")
        for dot in (torch.dot, torch.vdot):
            for found in (dot(a, zeros), dot(zeros, a), dot(zeros, zeros)):
                self.assertEqual(found.cpu(), torch.tensor(0.0))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, torch.ones_like(a))
            found = torch.autograd.forward_ad.unpack_dual(torch.dot(dual, a)).tangent
        self.assertEqual(found.cpu(), a.cpu().sum())

    def test_complex(self):
        """Results and gradients, of conjugates too."""
        functions = [
            lambda x, y: x @ x.mH + x.conj() @ x.t(),
            lambda x, y: x @ y.conj() + x @ x[0],
            lambda x, y: torch.addmm(x[:, :4] * 1, x, x.t(), beta=2, alpha=1j),
            lambda x, y: torch.baddbmm(x[None, :, :4], x[None], x.conj().t()[None], beta=0.5),
            lambda x, y: torch.bmm(x[None, :0], x.t()[None]) + x[:0, :4],
        ]
        if kernels.LATER:  # the CPU of PyTorch 1.13 may have 0
            functions.append(lambda x, y: torch.dot(y, y) + torch.vdot(y, x[1]))
            functions.append(lambda x, y: torch.dot(y.conj(), x[0].conj()) + torch.vdot(y, y.conj()))
        types = [torch.complex64] + [torch.complex128] * kernels.has(torch.double)
        for i, function in enumerate(functions):
            for dtype in types:
                x, y = torch.randn(4, 5, dtype=dtype), torch.randn(5, dtype=dtype)
                tolerance = 1e-4 if dtype == torch.complex64 else 1e-10
                results = kernels.on_both(function, x, y)
                self.assertEqual(*results, rtol=tolerance, atol=tolerance, msg=f"{i}, {dtype}")

    def test_nothing(self):
        """Without rows, columns, or anything between them."""
        for rows, inner, cols in ((0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)):
            a, b, c = torch.randn(rows, inner), torch.randn(inner, cols), torch.randn(cols)
            self.assertEqual((a.xpu() @ b.xpu()).cpu(), a @ b)
            got = torch.addmm(c.xpu(), a.xpu(), b.xpu(), beta=2)
            self.assertEqual(got.cpu(), torch.addmm(c, a, b, beta=2))
            x, y = a.expand(2, rows, inner), b.expand(2, inner, cols)
            self.assertEqual(torch.bmm(x.xpu(), y.xpu()).cpu(), torch.bmm(x, y))
        a = torch.randn(0, 3, 4)
        self.assertEqual(torch.bmm(a.xpu(), a.xpu().mT).cpu(), torch.bmm(a, a.mT))
        self.assertEqual(torch.dot(a.view(-1).xpu(), a.view(-1).xpu()).cpu(), torch.tensor(0.0))

    def test_beta_of_0(self):
        """What is not added is not read."""
        a, b = torch.randn(4, 5), torch.randn(5, 3)
        for beta in (0, 2):
            got = torch.addmm(torch.ones(4, 3).xpu(), a.xpu() * NAN, b.xpu(), alpha=0, beta=beta)
            self.assertEqual(got.cpu(), torch.full((4, 3), float(beta)))
        got = torch.addmm(torch.full((4, 3), NAN).xpu(), a.xpu(), b.xpu(), beta=0)
        self.assertEqual(got.cpu(), a @ b)
        got = torch.addmv(torch.full((4,), NAN).xpu(), a.xpu(), b[:, 0].xpu(), beta=0)
        self.assertEqual(got.cpu(), a @ b[:, 0])

    def test_results_that_are_given(self):
        a, b, c = torch.randn(4, 5), torch.randn(5, 3), torch.randn(4, 3)
        expected = torch.addmm(c, a, b)
        for out in (torch.empty(0).xpu(), torch.empty(4, 3).xpu(), torch.empty(3, 4).xpu().t()):
            self.assertIs(torch.addmm(c.xpu(), a.xpu(), b.xpu(), out=out), out)
            self.assertEqual(out.cpu(), expected)
        wide = torch.zeros(8, 6).xpu()
        torch.mm(a.xpu(), b.xpu(), out=wide[::2, ::2])
        self.assertEqual(wide.cpu()[::2, ::2], a @ b)
        self.assertEqual(wide.cpu()[1::2].abs().sum(), torch.tensor(0.0))
        x = c.xpu()
        self.assertIs(x.addmm_(a.xpu(), b.xpu()), x)
        self.assertEqual(x.cpu(), expected)
        x = c.expand(2, 4, 3).contiguous().xpu()
        x.baddbmm_(a.expand(2, 4, 5).xpu(), b.expand(2, 5, 3).xpu(), beta=2)
        self.assertEqual(x.cpu(), (c + expected).expand(2, 4, 3))
        x = c.xpu()
        x.addbmm_(a.expand(2, 4, 5).xpu(), b.expand(2, 5, 3).xpu())
        self.assertEqual(x.cpu(), c + 2 * (a @ b))
        x = c[:, 0].xpu()
        x.addmv_(a.xpu(), b[:, 0].xpu())
        self.assertEqual(x.cpu(), expected[:, 0])

    def test_activations(self):
        a, b, c = torch.randn(4, 5), torch.randn(5, 3), torch.randn(3)
        for gelu in (False, True):
            got = torch._addmm_activation(c.xpu(), a.xpu(), b.xpu(), use_gelu=gelu)
            expected = torch.addmm(c, a, b)
            form = "none" if torch.xpu.libraries()["cublasLt"].problem else "tanh"  # its own
            expected = F.gelu(expected, approximate=form) if gelu else expected.relu()
            self.assertEqual(got.cpu(), expected)
            got = torch._addmm_activation(
                expected.xpu(), a.xpu(), b.xpu(), beta=2, alpha=-1, use_gelu=gelu
            )
            expected = torch.addmm(expected, a, b, beta=2, alpha=-1)
            expected = F.gelu(expected, approximate=form) if gelu else expected.relu()
            self.assertEqual(got.cpu(), expected)

    def test_infinities(self):
        a = torch.tensor([[float("inf"), 1], [NAN, 0], [0, 3]])
        b = torch.tensor([[0.0, 1], [2, -1]])
        self.assertEqual((a.xpu() @ b.xpu()).cpu(), a @ b)

    def test_models(self):
        """A step of training of a transformer and of an LSTM."""
        for make, shape in (
            (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0), (5, 3, 8)),
            (lambda: torch.nn.LSTM(8, 6, 2), (5, 3, 8)),
            (lambda: torch.nn.GRU(8, 6, bidirectional=True), (5, 3, 8)),
        ):
            results = []
            for device in ("cpu", "xpu"):
                torch.manual_seed(0)
                model = make().to(device)
                x = torch.randn(shape).to(device).requires_grad_()
                y = model(x)
                (y if isinstance(y, torch.Tensor) else y[0]).square().sum().backward()
                results.append([x.grad.cpu(), *(p.grad.cpu() for p in model.parameters())])
            for expected, got in zip(*results):
                self.assertEqual(got, expected, rtol=1e-4, atol=1e-4)

    def test_language_models(self):
        """Train as on the CPU, and wait for nothing."""
        text = torch.randint(40, (3, 12))
        self.addCleanup(torch._C._xpu_set_sync_debug_mode, 0)
        for make in (Recurrent, Decoder):
            results = []
            for device in ("cpu", "xpu"):
                torch.manual_seed(0)
                model, x = make().to(device), text.to(device)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
                losses = []
                torch._C._xpu_set_sync_debug_mode(2)
                for _ in range(4):
                    optimizer.zero_grad()
                    y = model(x[:, :-1])
                    loss = F.cross_entropy(y.flatten(0, 1), x[:, 1:].flatten())
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.detach())
                torch._C._xpu_set_sync_debug_mode(0)
                self.assertLess(losses[-1].cpu(), losses[0].cpu())
                weights = (p.detach().cpu() for p in model.parameters())
                results.append([torch.stack(losses).cpu(), y.detach().cpu(), *weights])
            for expected, got in zip(*results):
                self.assertEqual(got, expected, rtol=1e-4, atol=1e-4)


class TestKernelProductsByOneDnn(TestKernelProducts):
    onednn = True


@kernels.needs_device
@unittest.skipIf(not kernels.ON, "TORCH_XPU_KERNELS is not 1")
class TestKernelProductErrors(TestCase):
    def test_errors(self):
        """Those of PyTorch's CPU."""
        m, v = torch.ones(3, 4), torch.ones(4)
        for function in (
            lambda d: torch.mm(m.to(d), m.to(d)),
            lambda d: torch.mm(m.to(d), v.to(d)),
            lambda d: torch.mm(m.to(d), m.t().double().to(d)),
            lambda d: torch.mv(m.to(d), m.to(d)),
            lambda d: torch.dot(v.to(d), m[0, :2].to(d)),
            lambda d: torch.bmm(m.to(d), m.to(d)),
            lambda d: torch.bmm(m.expand(2, 3, 4).to(d), m.expand(2, 3, 4).to(d)),
            lambda d: torch.addmm(torch.ones(2, 2).to(d), m.to(d), m.t().to(d)),
            lambda d: torch.ones(1, 1).to(d).addmm_(m.to(d), m.t().to(d)),
            lambda d: torch.mm(m.to(d), m.t().to(d), out=torch.empty(0).double().to(d)),
            lambda d: torch.ones(2).to(d).addmv_(m.to(d), v.to(d)),
            lambda d: torch.ones(4).to(d).addr_(torch.ones(3).to(d), v.to(d)),
            lambda d: torch.ones(1, 4).to(d).addr_(torch.ones(3).to(d), v.to(d)),
            lambda d: torch.addr(m.to(d), m.to(d), v.to(d)),
            lambda d: torch.addr(m.to(d), m[:, 0].to(d), v.to(d), beta=True),
            lambda d: torch.addr(*(x.long().to(d) for x in (m, m[:, 0], v)), alpha=0.5),
        ):
            self.raises_alike(function)

    def test_overlap(self):
        """What is written overlaps what is read, or itself."""
        for dtype in (torch.float, torch.long):
            m, v = torch.ones(4, 4, dtype=dtype), torch.ones(4, dtype=dtype)
            for function in (
                lambda x, m, v: torch.addmm(x[:4].t(), m, m, out=x[:4]),
                lambda x, m, v: torch.addmm(x[1:], m, m, out=x[:4]),
                lambda x, m, v: torch.mm(m, m, out=x[:1].expand(4, 4)),
                lambda x, m, v: x[:1].expand(4, 4).addmm_(m, m),
                lambda x, m, v: torch.addmv(v, m, v, out=x[0, :1].expand(4)),
                lambda x, m, v: torch.addr(x[:4].t(), v, v, out=x[:4]),
            ):
                self.raises_alike(
                    lambda d: function(torch.ones(5, 4, dtype=dtype).to(d), m.to(d), v.to(d))
                )

    def raises_alike(self, function):
        texts = []
        for device in ("cpu", "xpu"):
            with self.assertRaises((RuntimeError, ValueError)) as caught:
                function(device)
            texts.append(str(caught.exception).splitlines()[0])
        self.assertEqual(*texts)


if __name__ == "__main__":
    run_tests()
