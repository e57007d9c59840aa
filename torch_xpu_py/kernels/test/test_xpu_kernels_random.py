# Owner(s): ["module: intel"]
"""Random numbers, against Philox written in Python. The tests run as they are, where the
CPU device gets its numbers from the host, and in a process with kernels: the same seed
gives the same numbers."""

import itertools
import math
import os
import unittest
import warnings

import torch
import torch.nn.functional as F
from test_xpu_kernels import LATER, needs_device, Processes, WITHOUT_VECTORS
from torch.testing._internal.common_utils import run_tests, TestCase
from torch.utils.checkpoint import checkpoint

ON = os.environ.get("TORCH_XPU_KERNELS") == "1"
THREADS = 132 * 2048
REAL = (torch.float, torch.half, torch.bfloat16, torch.double)
INTEGERS = (torch.long, torch.int, torch.short, torch.int8, torch.uint8)
TWO = torch.xpu.device_count() > 1
CPU = torch.xpu.is_available() and torch.xpu.get_device_properties(0).type == "cpu"


def philox(key, counter):
    """Philox4x32-10 of Salmon and others: the four words of a counter of 128 bits."""
    a, b, c, d = (counter >> 32 * i & 0xFFFFFFFF for i in range(4))
    k, other = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (y >> 32) ^ b ^ k, y & 0xFFFFFFFF, (x >> 32) ^ d ^ other, x & 0xFFFFFFFF
        k, other = (k + 0x9E3779B9) & 0xFFFFFFFF, (other + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d


def words(seed, offset, i, in_group=4):
    """The words of an element's group, and its number there."""
    j = i // THREADS
    group = philox(seed, (i % THREADS) << 64 | offset // 4 + j // in_group)
    return group, j % in_group


def uniform(seed, offset, i, double=False):
    group, k = words(seed, offset, i, 2 if double else 4)
    if double:
        return ((group[2 * k] ^ group[2 * k + 1] << 21) + 0.5) * 2**-53
    return (group[k] + 0.5) * 2**-32


def normal(seed, offset, i, double=False):
    group, k = words(seed, offset, i, 2 if double else 4)
    if double:
        u, v = ((group[j] ^ group[j + 1] << 21) + 0.5 for j in (0, 2))
        length, angle = u * 2**-53, v * 2**-53
    else:
        length, angle = ((group[k // 2 * 2 + j] + 0.5) * 2**-32 for j in (0, 1))
    return math.sqrt(-2 * math.log(length)) * (math.cos if k % 2 else math.sin)(2 * math.pi * angle)


def uniforms(seed, offset, i):
    """Those of an element that takes as many as it happens to."""
    for counter in itertools.count(offset // 4):
        for word in philox(seed, i << 64 | counter):
            yield (word + 0.5) * 2**-32


def poisson(draws, mean):
    """By products of uniform numbers, for small means."""
    k, product = -1, 1.0
    while product >= math.exp(-mean):
        product *= next(draws)
        k += 1
    return k


def binomial(draws, count, p):
    k, at = 0, 0
    while True:
        at += math.ceil(math.log(next(draws)) / math.log1p(-p))
        if at > count:
            return k
        k += 1


def gamma(draws, shape):
    """By Marsaglia and Tsang."""
    scale = next(draws) ** (1 / shape) if shape < 1 else 1
    d = shape + (shape < 1) - 1 / 3
    while True:
        length = math.sqrt(-2 * math.log(next(draws)))
        x = length * math.cos(2 * math.pi * next(draws))
        cube = (1 + x / math.sqrt(9 * d)) ** 3
        if cube > 0 and math.log(next(draws)) < x * x / 2 + d * (1 - cube + math.log(cube)):
            return scale * d * cube


def has(dtype):
    return dtype != torch.double or bool(torch.xpu.get_device_properties(0).has_fp64)


def offset(generator=None):
    state = torch.xpu.get_rng_state() if generator is None else generator.get_state()
    return int.from_bytes(bytes(state.tolist()[8:]), "little")


def empty(*size, dtype=torch.float):
    return torch.empty(*size, dtype=dtype, device="xpu")


@needs_device
@unittest.skipIf(ON, "it is the process of the test below")
class TestRandomProcesses(Processes):
    def test_random(self):
        self.run_class("TestKernelRandom", **WITHOUT_VECTORS)


@unittest.skipIf(not torch.xpu.is_available(), "there is no device")
class TestKernelRandom(TestCase):
    SEED = 0xA409382229F31D0

    def setUp(self):
        super().setUp()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.filterwarnings("error", message="The kernels of .* cannot be compiled")
        empty(1)
        torch._C._xpu_resetFallbackStatistics()

    def tearDown(self):
        fallbacks = torch._C._xpu_fallbackStatistics()
        drawn = ("uniform", "normal", "bernoulli", "random_", "exponential", "cauchy", "geometric")
        drawn += ("poisson", "binomial", "gamma", "dirichlet")
        drawn += ("dropout", "mul", "lt") if ON else ()
        self.assertEqual([x for x in fallbacks if any(y in x for y in drawn)], [])
        super().tearDown()

    def draw(self, function, seed=None, at=0):
        torch.xpu.manual_seed(self.SEED if seed is None else seed)
        if at:
            state = torch.xpu.get_rng_state()
            state[8:] = torch.tensor(list(at.to_bytes(8, "little")), dtype=torch.uint8)
            torch.xpu.set_rng_state(state)
        return function().cpu()

    def test_known_answers(self):
        """Of Random123, and of torch.cuda with the seed 0."""
        most = 2**64 - 1
        self.assertEqual(philox(0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))
        self.assertEqual(
            philox(most, most << 64 | most), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
        )
        self.assertEqual(
            philox(0x299F31D0A4093822, 0x0370734413198A2E85A308D3243F6A88),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        )
        x = self.draw(lambda: empty(2, dtype=torch.long).random_(-(2**63), None), seed=0)
        self.assertEqual(x[0].item(), 0x6627E8D5E169C58D)
        x = self.draw(lambda: torch.rand(6, device="xpu"), seed=0)
        self.assertEqual(
            x, torch.tensor([0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967]), atol=5e-5, rtol=0
        )
        x = self.draw(lambda: torch.randn(4, device="xpu"), seed=0)
        self.assertEqual(x, torch.tensor([-0.9247, -0.4253, -2.6438, 0.1452]), atol=5e-5, rtol=0)

    # more than one number of a group of 32 bits, and all of a group of 64
    PLACES = (0, 1, 255, THREADS - 1, THREADS, 2 * THREADS + 7, 3 * THREADS, 4 * THREADS + 2)

    def test_sequence(self):
        """Numbers of every place in a group, of all types, at any offset."""
        size = 4 * THREADS + 3
        for dtype in REAL:
            if not has(dtype):
                continue
            double = dtype == torch.double
            tolerance = {torch.half: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-6)
            for at, seed in ((0, 1), (8, self.SEED), (2**34 + 4, 2**64 - 1)):
                if at and dtype != torch.float:
                    continue
                x = self.draw(lambda: empty(size, dtype=dtype).uniform_(), seed, at)
                y = self.draw(lambda: empty(size, dtype=dtype).normal_(), seed, at)
                for i in self.PLACES:
                    expected = uniform(seed, at, i, double)
                    self.assertEqual(x[i].item(), expected, rtol=tolerance, atol=1e-7)
                    expected = normal(seed, at, i, double)
                    self.assertEqual(y[i].item(), expected, rtol=tolerance, atol=1e-6)

    def test_integers(self):
        seed = self.SEED
        for dtype in (*INTEGERS, *REAL, torch.bool):
            if not has(dtype):
                continue
            digits = {torch.float: 24, torch.half: 11, torch.bfloat16: 8, torch.double: 53}
            if dtype.is_floating_point:
                most = 2 ** digits[dtype] + 1
            else:
                most = 2 if dtype == torch.bool else torch.iinfo(dtype).max + 1
            long = dtype in (torch.long, torch.double)

            def bits(i, long):
                group, k = words(seed, 0, i, 2 if long else 4)
                return group[2 * k] << 32 | group[2 * k + 1] if long else group[k]

            x = self.draw(lambda: empty(300, dtype=dtype).random_())
            expected = torch.tensor([bits(i, long) % most for i in range(300)]).to(dtype)
            self.assertEqual(x, expected)
            if dtype == torch.bool:
                continue
            x = self.draw(lambda: empty(300, dtype=dtype).random_(3, 77))
            expected = torch.tensor([bits(i, False) % 74 + 3 for i in range(300)]).to(dtype)
            self.assertEqual(x, expected)
            x = self.draw(lambda: empty(99, dtype=dtype).random_(1))
            self.assertEqual(x.tolist(), [0] * 99)
        x = self.draw(lambda: empty(300, dtype=torch.long).random_(-(2**40), 2**50))
        expected = [bits(i, True) % (2**50 + 2**40) - 2**40 for i in range(300)]
        self.assertEqual(x.tolist(), expected)
        # half has not every integer below the end
        x = self.draw(lambda: empty(THREADS, dtype=torch.half).random_(0, 65504))
        self.assertLess(x.float().max().item(), 65504)

    def moments(self, x, mean, std):
        x = x.double()
        n = x.numel()
        self.assertEqual(x.mean().item(), mean, atol=5 * std / math.sqrt(n), rtol=0)
        self.assertEqual(x.std().item(), std, atol=0.02 * std, rtol=0)

    def test_distributions(self):
        n = 200003
        for dtype in (*REAL, *INTEGERS):
            if not has(dtype):
                continue
            draw = lambda f: self.draw(lambda: f(empty(n, dtype=dtype))).double()  # noqa: E731
            x = draw(lambda x: x.bernoulli_(0.3))
            self.moments(x, 0.3, math.sqrt(0.21))
            self.assertEqual(x.unique().tolist(), [0, 1])
            self.assertEqual(draw(lambda x: x.bernoulli_(1)).min().item(), 1)
            self.assertEqual(draw(lambda x: x.bernoulli_(0)).max().item(), 0)
            x = draw(lambda x: x.geometric_(0.5))
            self.moments(x, 2, math.sqrt(2))
            self.assertEqual(x.min().item(), 1)
            if not dtype.is_floating_point:
                continue
            rounding = 0.01 if dtype == torch.bfloat16 else 0
            self.moments(draw(lambda x: x.uniform_(-3, 5)), 1, 8 / math.sqrt(12))
            self.moments(draw(lambda x: x.normal_(1.5, 2)), 1.5, 2)
            x = draw(lambda x: x.exponential_(2))
            self.moments(x, 0.5, 0.5)
            self.assertGreater(x.min().item(), 0)
            x = draw(lambda x: x.log_normal_(0, 0.25)).log()
            self.moments(x, 0, 0.25 + rounding * 0.1)
            x = draw(lambda x: x.cauchy_(1, 2))
            self.assertEqual(x.median().item(), 1, atol=0.05, rtol=0)
            self.assertEqual((x - 1).abs().median().item(), 2, atol=0.05, rtol=0)
            self.assertTrue(dtype == torch.half or x.isfinite().all().item())
        x = self.draw(lambda: torch.full((n,), 0.3, device="xpu").bernoulli())
        self.moments(x, 0.3, math.sqrt(0.21))
        p = torch.linspace(0, 1, 5)
        x = self.draw(lambda: empty(50000, 5, dtype=torch.int).bernoulli_(p.xpu()))
        self.assertEqual(x.double().mean(0), p.double(), atol=0.02, rtol=0)
        self.assertEqual((x[:, 0].max().item(), x[:, 4].min().item()), (0, 1))
        out = empty(0)
        torch.bernoulli(p.xpu().expand(999, 5), out=out)
        self.assertEqual(out.shape, (999, 5))

    def test_samples(self):
        """What each element says the distribution of, against Python's."""
        for at in (0, 12):
            draws = lambda i, at=at: uniforms(self.SEED, at, i)  # noqa: E731
            x = self.draw(lambda: torch.poisson(torch.full((99,), 3.0, device="xpu")), at=at)
            self.assertEqual(x.tolist(), [poisson(draws(i), 3) for i in range(99)])
            n, p = torch.full((9, 11), 20.0).xpu(), torch.full((9, 11), 0.25).xpu()
            x = self.draw(lambda: torch.binomial(n, p), at=at).flatten()
            self.assertEqual(x.tolist(), [binomial(draws(i), 20, 0.25) for i in range(99)])
            x = self.draw(lambda: torch.binomial(n, 1 - p), at=at).flatten()
            self.assertEqual(x.tolist(), [20 - binomial(draws(i), 20, 0.25) for i in range(99)])
            for shape in (0.5, 4.0):
                a = torch.full((99,), shape, device="xpu")
                x = self.draw(lambda: torch._standard_gamma(a), at=at)
                expected = torch.tensor([gamma(draws(i), shape) for i in range(99)])
                self.assertEqual(x, expected, rtol=1e-4, atol=1e-6)
        torch.xpu.manual_seed(3)
        before = offset()
        torch.poisson(torch.ones(3, device="xpu"))
        self.assertEqual(offset() - before, 512)
        torch.poisson(torch.ones(0, device="xpu"))
        self.assertEqual(offset() - before, 512)
        for function in (torch.poisson, torch._standard_gamma):
            t = torch.rand(30, 40, device="xpu").t()
            expected = self.draw(lambda: function(t.contiguous()))
            self.assertEqual(self.draw(lambda: function(t)), expected)
            g = torch.Generator("xpu").manual_seed(self.SEED)
            self.assertEqual(function(t, generator=g).cpu(), expected)

    def test_moments_of_samples(self):
        n = 40000
        for i, dtype in enumerate(x for x in REAL if has(x)):
            full = lambda x: torch.full((n,), x, dtype=dtype, device="xpu")  # noqa: E731
            for mean in (0.5, 9.5, 10.0, 250.0)[i % 2 :: 2]:
                x = self.draw(lambda: torch.poisson(full(mean)))
                self.moments(x, mean, math.sqrt(mean))
            for count, p in ((7, 0.5), (40, 0.125), (100, 0.375), (200, 0.75))[i % 2 :: 2]:
                x = self.draw(lambda: torch.binomial(full(count), full(p)))
                self.moments(x, count * p, math.sqrt(count * p * (1 - p)))
                self.assertTrue(((x >= 0) & (x <= count)).all().item())
            shape = (0.125, 3.5)[i % 2]
            x = self.draw(lambda: torch._standard_gamma(full(shape)))
            self.moments(x, shape, math.sqrt(shape))
            self.assertGreater(x.min().item(), 0)
            a = torch.tensor([0.001, 0.002, 0.001], dtype=dtype, device="xpu").expand(5000, 3)
            x = self.draw(lambda: torch._sample_dirichlet(a)).double()
            self.assertEqual(x.sum(1), torch.ones(5000), atol=0.02, rtol=0, exact_dtype=False)
            mean = torch.tensor([0.25, 0.5, 0.25]).double()
            self.assertEqual(x.mean(0), mean, atol=0.03, rtol=0)
        x = self.draw(lambda: torch.poisson(torch.full((n,), 3e6, device="xpu")))
        self.moments(x, 3e6, math.sqrt(3e6))
        nan = float("nan")
        one = torch.ones(4, device="xpu")
        p = torch.tensor([0, 1, 2, nan], device="xpu")
        self.assertEqual(torch.binomial(5 * one, p).tolist(), [0, 5, 5, nan])

    def test_rrelu(self):
        x = torch.randn(40, 50)
        x[0, 0] = float("nan")

        def draw(training=True, in_place=False):
            y = x.xpu()
            z = F.rrelu(y, 0.125, 0.25, training, in_place)
            self.assertEqual(z is y, in_place)
            return z

        for function in (draw, lambda: draw(in_place=True)):
            got = self.draw(function)
            self.assertEqual(got[x > 0], x[x > 0])
            slope = (got / x)[x < 0]
            self.assertGreaterEqual(slope.min().item(), 0.125 - 1e-6)
            self.assertLess(slope.max().item(), 0.25 + 1e-6)
            self.assertGreater(slope.std().item(), 0.02)
            self.assertTrue(got[0, 0].isnan().item())
        self.assertEqual(draw(training=False).cpu(), F.rrelu(x, 0.125, 0.25))
        leaf = x.xpu().requires_grad_()
        y = F.rrelu(leaf, 0.125, 0.25, True)
        y.sum().backward()
        used = x != x.new_tensor(float("nan"))
        used[0, 0] = False
        self.assertEqual((leaf.grad * leaf).detach().cpu()[used], y.detach().cpu()[used])
        # where it is not training, and of what the host does in its place
        torch._C._xpu_resetFallbackStatistics()

    def test_ends(self):
        """`to` is never drawn, by rounding neither."""
        for dtype in REAL:
            if not has(dtype):
                continue
            for low, high in ((0, 1), (-1, 1), (1, 1 + 2**-7), (-65504, 0), (3, 3)):
                x = self.draw(lambda: empty(THREADS, dtype=dtype).uniform_(low, high))
                low, high = (torch.tensor(bound, dtype=dtype).item() for bound in (low, high))
                self.assertGreaterEqual(x.min().item(), low)
                self.assertTrue(x.max().item() < high or low == high)

    def test_normal_of_tensors(self):
        mean, std = torch.linspace(-2, 2, 900), torch.linspace(0, 3, 900)
        z = self.draw(lambda: torch.randn(900, device="xpu"))
        for function, expected in (
            (lambda **out: torch.normal(mean.xpu(), std.xpu(), **out), mean + z * std),
            (lambda **out: torch.normal(mean.xpu(), 2.0, **out), mean + z * 2),
            (lambda **out: torch.normal(1.0, std.xpu(), **out), 1 + z * std),
        ):
            self.assertEqual(self.draw(function), expected)
            self.assertEqual(self.draw(lambda: function(out=empty(900))), expected)
        x = self.draw(lambda: torch.randn(50000, device="xpu", dtype=torch.complex64))
        self.moments(torch.view_as_real(x), 0, math.sqrt(0.5))
        with self.assertRaisesRegex(RuntimeError, "all elements of std >= 0"):
            torch.normal(0.0, -torch.ones(2, device="xpu"))

    def test_layouts(self):
        """What has gaps, or another order, has the same numbers."""
        size = (4, 6, 10, 30)
        for function in (
            lambda x: x.uniform_(),
            lambda x: x.normal_(),
            lambda x: x.random_(1000),
            lambda x: x.bernoulli_(0.5),
            lambda x: x.bernoulli_(
                torch.rand_like(x.float(), memory_format=torch.contiguous_format)
            ),
        ):
            expected = self.draw(lambda: function(empty(size)))
            for x in (
                empty(4, 6, 10, 60)[..., ::2],
                empty(30, 10, 6, 4).permute(3, 2, 1, 0),
                empty(size).contiguous(memory_format=torch.channels_last),
                empty(4, 6, 10, 31)[..., 1:],
            ):
                self.assertEqual(self.draw(lambda: function(x)), expected)
        expected = self.draw(lambda: F.dropout(torch.ones(size, device="xpu"), 0.4))
        x = torch.ones(size).contiguous(memory_format=torch.channels_last).xpu()
        got = F.dropout(x)
        self.assertTrue(got.is_contiguous(memory_format=torch.channels_last))
        self.assertEqual(self.draw(lambda: F.dropout(x, 0.4)), expected)
        with self.assertRaisesRegex(RuntimeError, "single memory location"):
            empty(1).expand(3).normal_()

    def test_offset(self):
        """It moves on by what was used: the next numbers are others."""
        for function, size, moved in (
            (lambda x: x.uniform_(), 1, 4),
            (lambda x: x.uniform_(), 0, 0),
            (lambda x: x.normal_(), 4 * THREADS, 4),
            (lambda x: x.normal_(), 4 * THREADS + 1, 8),
            (lambda x: x.long().random_(), 2 * THREADS, 4),
            (lambda x: x.long().random_(), 2 * THREADS + 1, 8),
            (lambda x: x.random_(9), 2 * THREADS + 1, 4),
            (lambda x: F.dropout(x), 5 * THREADS, 8),
        ):
            torch.xpu.manual_seed(3)
            before = offset()
            function(empty(size))
            self.assertEqual(offset() - before, moved)
        both = self.draw(lambda: torch.stack([empty(9).uniform_(), empty(9).uniform_()]))
        self.assertNotEqual(both[0], both[1])
        self.assertEqual(both[1, 3].item(), uniform(self.SEED, 4, 3), rtol=1e-6, atol=1e-7)
        self.assertEqual(self.draw(lambda: empty(9).uniform_(), at=4), both[1])

    def test_generators(self):
        one, other = (torch.Generator("xpu").manual_seed(7) for _ in range(2))
        before = torch.xpu.get_rng_state()
        first = empty(9).normal_(generator=one)
        second = empty(9).normal_(generator=one)
        self.assertEqual(empty(9).normal_(generator=other), first)
        self.assertEqual(offset(one), 8)
        self.assertEqual(offset(other), 4)
        self.assertEqual(empty(9).normal_(generator=other), second)
        self.assertEqual(torch.xpu.get_rng_state(), before)
        with self.assertRaisesRegex(RuntimeError, "Expected a 'xpu' device type for generator"):
            empty(9).normal_(generator=torch.Generator())
        if TWO:
            x = torch.empty(9, device="xpu:1").normal_(generator=one.manual_seed(7))
            self.assertEqual(x.cpu(), first.cpu())

    @unittest.skipIf(not LATER, "fork_rng and checkpoint save the state of CUDA alone")
    def test_fork(self):
        x = torch.rand(60, 70, device="xpu")
        with torch.random.fork_rng(devices=[0], device_type="xpu"):
            first = F.dropout(x)
        second = F.dropout(x)
        self.assertEqual(first, second)
        self.assertNotEqual(F.dropout(x), second)

    @unittest.skipIf(not (ON and LATER), "a graph records kernels, with later releases")
    @unittest.skipIf(CPU, "there torch.xpu.graph raises")
    def test_graph(self):
        """Each replay draws other numbers: those that eager calls would."""
        x, y = empty(700), torch.ones(500, device="xpu")

        def draw():
            x.normal_()
            return F.dropout(y), x.clone().random_(99)

        draw()
        graph = torch.xpu.XPUGraph()
        with torch.xpu.graph(graph):
            drawn = draw()
        torch.xpu.manual_seed(3)
        replayed = []
        for _ in range(2):
            graph.replay()
            replayed.append([each.cpu() for each in (x, *drawn)])
        torch.xpu.manual_seed(3)
        for expected in replayed:
            got = draw()
            self.assertEqual([x.cpu(), *(each.cpu() for each in got)], expected)
        self.assertNotEqual(*replayed)

    @unittest.skipIf(not (ON and LATER), "a graph records kernels, with later releases")
    @unittest.skipIf(CPU, "there torch.xpu.graph raises")
    def test_graph_of_a_training_step(self):
        """Of two layers with dropout. Their products are of elements, by kernels of here."""
        torch.manual_seed(0)
        given = [torch.randn(size).to("xpu") for size in ((32, 16), (32,), (4, 32), (4,))]
        x, target = torch.randn(8, 16).to("xpu"), torch.randn(8, 4).to("xpu")
        weights = [each.clone().requires_grad_() for each in given]

        def step():
            first, bias, second, other = weights
            hidden = F.dropout(torch.relu((x.unsqueeze(1) * first).sum(-1) + bias))
            loss = F.mse_loss((hidden.unsqueeze(1) * second).sum(-1) + other, target)
            with torch.no_grad():
                for weight, grad in zip(weights, torch.autograd.grad(loss, weights)):
                    weight.sub_(grad, alpha=1e-4)
            return loss.detach()

        def train(step):
            with torch.no_grad():
                torch._foreach_copy_(weights, given)
            torch.xpu.manual_seed(3)
            losses = [step().item() for _ in range(4)]
            return losses, [each.detach().cpu() for each in weights]

        expected = train(step)
        graph = torch.xpu.XPUGraph()
        with torch.xpu.graph(graph):
            loss = step()

        def replay():
            graph.replay()
            return loss

        self.assertEqual(train(replay), expected)
        self.assertEqual(len(set(expected[0])), 4)

    def dropout(self, x, p):
        x = x.detach().requires_grad_()
        y = F.dropout(x, p)
        y.backward(torch.full_like(y, 3))
        return y.detach(), x.grad

    def test_dropout(self):
        for dtype, p in itertools.product(REAL, (0.0, 0.3, 1.0)):
            if not has(dtype):
                continue
            x = torch.full((300, 400), 2, dtype=dtype, device="xpu")
            torch.xpu.manual_seed(self.SEED)
            y, grad = self.dropout(x, p)
            keep = (y != 0).cpu().flatten()
            if 0 < p < 1:
                expected = [uniform(self.SEED, 0, i) <= 1 - p for i in range(500)]
                self.assertEqual(keep[:500].tolist(), expected)
                self.moments(keep, 1 - p, math.sqrt(p * (1 - p)))
            else:
                self.assertEqual(keep.double().mean().item(), 1 - p)
            scale = 1 / (1 - p) if p < 1 else 0
            factor = keep.view(300, 400).to(dtype)
            for got, value in ((y, 2 * scale), (grad, 3 * scale)):
                expected = factor * torch.tensor(value, dtype=dtype)
                self.assertEqual(
                    got.cpu(), expected, rtol=1e-2 if dtype in REAL[1:3] else 1e-6, atol=0
                )
        self.assertEqual(F.dropout(x, 0.5, training=False), x)
        self.assertEqual(F.dropout(x[:0], 0.5).shape, (0, 400))
        y, mask = torch.native_dropout(x, 0.25, True)
        self.assertEqual(y != 0, mask)
        y, mask = torch.native_dropout(x, 0.25, False)
        self.assertEqual((y, mask.all().item()), (x, True))

    @unittest.skipIf(not LATER, "fork_rng and checkpoint save the state of CUDA alone")
    def test_checkpoint(self):
        results = []
        for how in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False)):
            torch.manual_seed(5)
            x = torch.linspace(0, 1, 800, device="xpu").requires_grad_()
            y = how(lambda x: F.dropout(F.dropout(x).exp()), x)
            y.sum().backward()
            results.append((y.detach().cpu(), x.grad.cpu()))
        self.assertEqual(*results)

    def test_multinomial(self):
        p = torch.tensor([0.1, 0, 0.5, 0.4])
        x = self.draw(lambda: torch.multinomial(p.xpu().expand(20000, 4), 1))
        counts = x.flatten().bincount(minlength=4) / 20000.0
        self.assertEqual(counts, p, atol=0.02, rtol=0)
        self.assertEqual(x, self.draw(lambda: torch.multinomial(p.xpu().expand(20000, 4), 1)))
        torch._C._xpu_resetFallbackStatistics()  # of what it asks of its argument

    def test_errors(self):
        """The texts are PyTorch's."""
        for function in (
            lambda x: x.uniform_(2, 1),
            lambda x: x.int().uniform_(),
            lambda x: x.normal_(0, -1),
            lambda x: x.int().normal_(),
            lambda x: x.bernoulli_(1.5),
            lambda x: x.exponential_(-1),
            lambda x: x.geometric_(1),
            lambda x: x.log_normal_(0, 0),
            lambda x: x.random_(5, 5),
            lambda x: x.to(torch.uint8).random_(0, 300),
            lambda x: x.half().random_(0, 2**17),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, NotImplementedError)) as raised:
                    function(torch.ones(3).to(device))
                texts.append(str(raised.exception).splitlines()[0])
            self.assertEqual(*texts)
        torch._C._xpu_resetFallbackStatistics()


if __name__ == "__main__":
    run_tests()
