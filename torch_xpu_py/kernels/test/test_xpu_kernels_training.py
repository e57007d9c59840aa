# Owner(s): ["module: intel"]
"""Losses, norms and their gradients, compared with the CPU's in float64. As those
of test_xpu_kernels.py, the tests run in a process with TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import torch
import torch.nn.functional as F
from test_xpu_kernels import has, needs_device, ON, Processes, WITHOUT_VECTORS
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase

TOLERANCES = {torch.half: 4e-3, torch.bfloat16: 3e-2, torch.float: 2e-5, torch.double: 1e-10}
NAN = float("nan")


def some(cases, dtypes=TOLERANCES):
    """Each case in one type, every second in float."""
    dtypes = [dtype for dtype in dtypes if has(dtype) and dtype != torch.float]
    for i, case in enumerate(cases):
        yield (*case, dtypes[i // 2 % len(dtypes)] if i % 2 else torch.float)


def needs_kernels(test):
    test = unittest.skipIf(not ON, "TORCH_XPU_KERNELS is not 1")(test)
    return unittest.skipIf(not torch.xpu.is_available(), "there is no device")(test)


@needs_device
@unittest.skipIf(ON, "it is the process of the test below")
class TestTrainingProcesses(Processes):
    @slowTest
    def test_training(self):
        self.run_class("TestKernelLosses", **WITHOUT_VECTORS)
        self.run_class("TestKernelNorms")


class Compared(TestCase):
    def setUp(self):
        super().setUp()
        torch.empty(1, device="xpu")
        torch._C._xpu_resetFallbackStatistics()
        torch.manual_seed(0)

    def no_fallbacks(self):
        self.assertEqual(torch._C._xpu_fallbackStatistics(), {})

    def check(self, function, *args, msg, grads=1, factor=1):
        """The result and the gradients of the first arguments, with those of the CPU in
        float64. Returns the result."""
        results = []
        for move in (lambda y: y.double() if y.is_floating_point() else y, lambda y: y.xpu()):
            given = [move(y.detach()) for y in args]
            for y in given[:grads]:
                y.requires_grad_()
            result = function(*given)
            if grads:
                weights = torch.linspace(1, 2, result.numel(), dtype=torch.double)
                weights = weights.view(result.shape).to(args[0].dtype)
                result.backward(weights.to(result.device).to(result.dtype))
            results.append((result.detach(), *(y.grad for y in given[:grads])))
        expected, got = results
        tolerance = TOLERANCES[args[0].dtype]
        self.assertEqual((got[0].device.type, got[0].dtype), ("xpu", args[0].dtype), msg=msg)
        for i, (one, other) in enumerate(zip(got, expected)):
            atol = tolerance * (factor if i else 1)
            text = f"{msg}, gradient {i}" if i else msg
            self.assertEqual(one.cpu().double(), other, rtol=tolerance, atol=atol, msg=text)
        return got[0]


@needs_kernels
class TestKernelLosses(Compared):
    REDUCTIONS = ("mean", "sum", "none")
    SHAPES = ((), (7,), (40, 30), (0, 3), (3, 4, 5, 6))

    def test_elements(self):
        functions = (
            F.mse_loss,
            F.l1_loss,
            F.smooth_l1_loss,
            F.huber_loss,
            F.soft_margin_loss,
            F.binary_cross_entropy,
            F.binary_cross_entropy_with_logits,
            F.kl_div,
            lambda x, y, **r: F.smooth_l1_loss(x, y, beta=0.5, **r),
            lambda x, y, **r: F.huber_loss(x, y, delta=2.5, **r),
            lambda x, y, **r: F.binary_cross_entropy(x, y, weight=y + 1, **r),
            lambda x, y, **r: F.binary_cross_entropy_with_logits(x, y, pos_weight=y + 1, **r),
            lambda x, y, **r: F.kl_div(x.log(), y, log_target=True, **r),
        )
        for i, (function, shape) in enumerate(itertools.product(functions, self.SHAPES)):
            reduction = self.REDUCTIONS[i % 3]
            self.check_elements(function, shape, reduction, torch.float)
        narrow = [dtype for dtype in TOLERANCES if has(dtype) and dtype != torch.float]
        for i, function in enumerate(functions):
            self.check_elements(function, (40, 30), "none", narrow[i % len(narrow)])
            self.check_elements(function, (40, 30), "mean", narrow[(i + 1) % len(narrow)])
        self.no_fallbacks()

    def test_refused(self):
        """A value that the CPU refuses raises where the device is waited for, in its words."""
        y, odds = torch.tensor([1.0, 0.0]), ([1.5, 1], [-0.5, 1], [float("nan"), 1])
        for words, function, refused in (
            ("all elements of input should be", F.binary_cross_entropy, odds),
            ("Expected p_in >= 0 && p_in <= 1", lambda x, _: x.bernoulli(), odds),
            ("Expected p_in >= 0 && p_in <= 1", lambda x, y: y.bernoulli_(x), odds),
            ("invalid Poisson rate", lambda x, _: torch.poisson(x), odds[1:]),
            ("offsets", lambda x, y: F.embedding_bag(y.long(), y[:, None], x), ([1, 2], [0, 3])),
        ):
            for x, device in itertools.product(refused, ("cpu", "xpu")):
                with self.assertRaisesRegex(RuntimeError, words, msg=f"{words} {x} {device}"):
                    function(torch.tensor(x, device=device), y.to(device)).cpu()
            taken = torch.tensor([type(x[0])(0), 1], device="xpu")
            function(taken, y.xpu()).cpu()  # the device can be used
        self.no_fallbacks()

    def check_elements(self, function, shape, reduction, dtype):
        x = torch.rand(shape).mul_(0.9).add_(0.05).to(dtype)
        y = torch.rand(shape).to(dtype)
        loss = lambda x, y: function(x, y, reduction=reduction)  # noqa: E731
        msg = f"{function} {shape} {reduction} {dtype}"
        self.check(loss, x, y, msg=msg)
        if len(shape) == 2:
            turned = y.transpose(0, 1)
            self.check(loss, x.transpose(0, 1), turned.contiguous(), msg=msg)

    def test_values(self):
        """Kinks, ends and NaN."""
        x = torch.tensor([0.0, 1.0, 0.5, 0.0, 1.0])
        y = torch.tensor([1.0, 0.0, 0.5, 0.0, 1.0])
        self.check(lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), x, y, msg="")
        d = torch.tensor([0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, NAN, float("inf")])
        for function in (
            F.mse_loss,
            F.smooth_l1_loss,
            F.huber_loss,
            lambda x, y, **r: F.smooth_l1_loss(x, y, beta=1e-30, **r),
        ):
            self.check(lambda x, y: function(x, y, reduction="none"), d, torch.zeros(9), msg="")

    def test_out_and_types(self):
        x, y = torch.rand(6, 5), torch.rand(6, 5)
        aten = torch.ops.aten
        for function, args in (
            (aten.mse_loss, (x, y)),
            (aten.smooth_l1_loss, (x, y)),
            (aten.huber_loss, (x, y)),
            (aten.binary_cross_entropy, (x, y, y)),
        ):
            for reduction in (0, 1, 2):
                given = (*args[:2], *args[2:], reduction)
                expected = function(*given)
                on_device = [z.xpu() if isinstance(z, torch.Tensor) else z for z in given]
                out = torch.empty(9, 5).t().xpu() if reduction == 0 else torch.empty(3).xpu()
                out = out.resize_(0) if reduction else torch.empty(5, 6, device="xpu").t()
                self.assertIs(function(*on_device, out=out), out)
                self.assertEqual(out.cpu(), expected)
        # a broadcast, and two types
        self.check(lambda x, y: F.mse_loss(x, y[:1]), x, y, msg="")
        self.no_fallbacks()
        got = F.mse_loss(x.xpu(), y.double().xpu())
        self.assertEqual(got.cpu(), F.mse_loss(x, y.double()))

    def nll(self, shape, dtype, ignore=-100):
        x = torch.randn(shape).log_softmax(1 if len(shape) > 1 else 0).to(dtype)
        classes = shape[1] if len(shape) > 1 else shape[0]
        y = torch.randint(0, classes, (shape[:1] + shape[2:]) if len(shape) > 1 else ())
        if y.numel() > 3:
            y.view(-1)[::3] = ignore
        return x, y, torch.rand(classes).to(dtype) + 0.5

    def test_nll(self):
        shapes = (
            (7,),
            (9, 5),
            (300, 11),
            (2000, 3),
            (2, 5, 6, 7),
            (3, 4, 5),
            (0, 4),
            (2, 3, 2, 2, 3),
        )
        cases = itertools.product(shapes, self.REDUCTIONS, (False, True), (-100, 1))
        for shape, reduction, weighted, ignore, dtype in some(cases):
            x, y, w = self.nll(shape, dtype, ignore)
            msg = f"{shape} {reduction} {weighted} {ignore} {dtype}"

            def nll(x, y, w):
                w = w if weighted else None
                return F.nll_loss(x, y, w, ignore_index=ignore, reduction=reduction)

            if dtype in (torch.half, torch.bfloat16) and reduction == "sum":
                x = x / 64
            self.check(nll, x, y, w, msg=msg)
            if len(shape) == 2:
                turned = x.flip(1).t().contiguous().t()
                self.check(nll, turned, y.repeat_interleave(2)[::2], w, msg=msg)
        self.no_fallbacks()

    def test_cross_entropy(self):
        for shape, dtype in some([(shape,) for shape in ((40, 50), (2, 5, 6, 7), (300, 3))]):
            x, y, w = self.nll(shape, dtype)
            for options in ({}, {"label_smoothing": 0.1}, {"reduction": "none"}):
                function = lambda x, y, w: F.cross_entropy(x, y, w, **options)  # noqa: E731
                self.check(function, x, y, w, msg=f"{shape} {options} {dtype}")
        x = torch.randn(4, 5)
        p = torch.rand(4, 5).softmax(1)
        self.check(lambda x, p: F.cross_entropy(x, p), x, p, msg="probabilities")
        self.no_fallbacks()
        first = F.cross_entropy(torch.ones(9, 3, device="xpu"), torch.ones(9, device="xpu").long())
        self.assertEqual(first.item(), torch.tensor(3.0).log().item())

    def test_no_class(self):
        """An error, and NaN where the target is no class, and nothing else."""
        x, y, _ = self.nll((8, 5), torch.float, ignore=2)
        for bad in (5, -1, 2**40, -(2**63)):
            y[3] = bad
            for reduction in self.REDUCTIONS:
                d = x.xpu().requires_grad_()
                loss = F.nll_loss(d, y.xpu(), reduction=reduction)
                loss.sum().backward()
                with self.assertRaisesRegex(IndexError, f"Target {bad} is out of bounds."):
                    torch.xpu.synchronize()
                rows = d.grad.isnan().any(1).cpu().nonzero().flatten().tolist()
                # what a mean is divided by is NaN, too
                self.assertEqual(rows, list(range(8)) if reduction == "mean" else [3])
                self.assertEqual(d.grad[3].isnan().all().item(), True)
                self.assertEqual(loss.isnan().sum().item(), 1)
        image = torch.randn(1, 3, 2, 2).log_softmax(1).xpu()
        target = torch.tensor([[[0, 3], [1, 2]]]).xpu()
        loss = F.nll_loss(image, target, reduction="none")
        with self.assertRaisesRegex(IndexError, "Target 3 is out of bounds."):
            torch.xpu.synchronize()
        self.assertEqual(loss.isnan().sum().item(), 1)
        # 0 times what is infinite is not 0
        x[0, 1] = -float("inf")
        w = torch.tensor([1, 0, 1.0, 1, 1])
        y = torch.tensor([1, 0, 0, 0, 0, 0, 0, 0])
        for ignore, expected in ((-100, float("nan")), (1, F.nll_loss(x[1:], y[1:], w))):
            loss = F.nll_loss(x.xpu(), y.xpu(), w.xpu(), ignore_index=ignore)
            self.assertEqual(loss.item(), expected, rtol=1e-5, atol=0)
        # all are ignored
        loss = F.nll_loss(x.xpu(), torch.full((8,), -100).xpu())
        self.assertTrue(loss.isnan().item())

    def test_same_bits(self):
        x, y, w = self.nll((30000, 7), torch.float)
        x, y, w = x.xpu(), y.xpu(), w.xpu()
        first = F.nll_loss(x, y, w)
        for _ in range(4):
            self.assertEqual(F.nll_loss(x, y, w), first, rtol=0, atol=0)

    def test_errors(self):
        """The texts are PyTorch's."""
        long = torch.zeros(4, dtype=torch.long)
        for function in (
            lambda x, y: F.nll_loss(x, y[:3]),
            lambda x, y: F.nll_loss(x, y, x[0, :2]),
            lambda x, y: F.nll_loss(x, y.int()),
            lambda x, y: F.nll_loss(x, y, x[0].double()),
            lambda x, y: F.nll_loss(x[:, :, None, None], y),
            lambda x, y: torch.ops.aten.huber_loss(x, x, 1, -1.0),
            lambda x, y: F.smooth_l1_loss(x, x, beta=-1.0),
        ):
            texts = []
            for device in ("cpu", "xpu"):
                with self.assertRaises((RuntimeError, ValueError)) as raised:
                    function(torch.rand(4, 5).to(device), long.to(device))
                texts.append(str(raised.exception).splitlines()[0].replace("xpu:0", "cpu"))
            self.assertEqual(*texts)


@needs_kernels
class TestKernelNorms(Compared):
    def normal(self, shape, dtype):
        return (torch.randn(shape) * 2 + 1).to(dtype)

    def parameters(self, channels, dtype):
        """Weights of float are given with half, too."""
        mixed = dtype in (torch.half, torch.bfloat16) and channels % 2
        return [torch.rand(channels).to(torch.float if mixed else dtype) + 0.5 for _ in range(2)]

    SHAPES = ((6, 12), (1, 6, 300, 40), (3, 8, 5, 6), (2, 3, 4, 3, 5), (40, 6, 7), (200, 30))

    def test_group_norm(self):
        for shape, dtype in some([(shape,) for shape in self.SHAPES * 2]):
            x = self.normal(shape, dtype)
            w, b = self.parameters(shape[1], dtype)
            for groups in {1, shape[1] // 2 if shape[1] % 2 == 0 else 1, shape[1]}:
                if x.numel() // shape[0] // groups < 8:
                    continue
                norm = lambda x, *wb: F.group_norm(x, groups, *wb)  # noqa: E731
                msg = f"{shape} {groups} {dtype}"
                scale = x.numel() / shape[1]  # of sums over the elements of a channel
                if w.dtype == x.dtype:
                    self.check(norm, x, w, b, msg=msg, grads=3, factor=scale)
                self.check(norm, x, msg=msg, factor=8)
                turned = x.flip(1).transpose(0, -1).contiguous().transpose(0, -1)
                self.check(norm, turned, msg=msg, factor=8)
        self.no_fallbacks()
        texts = []
        for device in ("cpu", "xpu"):
            with self.assertRaises(RuntimeError) as raised:
                F.group_norm(torch.rand(2, 3, device=device), 2)
            texts.append(str(raised.exception).splitlines()[0])
        self.assertEqual(*texts)
        self.assertEqual(F.group_norm(torch.rand(0, 4, 2, device="xpu"), 2).shape, (0, 4, 2))
        x, w = torch.rand(2, 4, 3).bfloat16(), torch.rand(4)
        for weight in (None, w, w.bfloat16()):
            args = [weight, weight, 2, 4, 3, 2, 1e-5]
            try:
                expected = torch.native_group_norm(x, *args)
            except RuntimeError:  # 1.13's CPU takes no weights of another type
                continue
            args[:2] = [None if weight is None else weight.to("xpu")] * 2
            found = torch.native_group_norm(x.to("xpu"), *args)
            self.assertEqual([y.dtype for y in found], [y.dtype for y in expected], msg=str(weight))

    def test_batch_norm(self):
        for shape, training, _, dtype in some(
            itertools.product(self.SHAPES, (True, False), (0, 1))
        ):
            x = self.normal(shape, dtype)
            w, b = self.parameters(shape[1], dtype)
            w0 = w
            running = [torch.rand(shape[1]).to(w.dtype) + 0.5 for _ in range(2)]

            def norm(x, w=None, b=None):
                kind = torch.double if x.device.type == "cpu" else w0.dtype
                mean, variance = (y.clone().to(x.device, kind) for y in running)
                y = F.batch_norm(x, mean, variance, w, b, training, momentum=0.3)
                moved.append((mean.cpu().double(), variance.cpu().double()))
                return y

            formats = {4: torch.channels_last, 5: torch.channels_last_3d}
            last = x.contiguous(memory_format=formats[len(shape)]) if len(shape) in formats else x
            for y in (x, last, x.flip(0).transpose(0, -1).contiguous().transpose(0, -1)):
                moved = []
                msg = f"{shape} {y.stride()} {training} {dtype}"
                scale = x.numel() / shape[1]
                if w.dtype == x.dtype:
                    self.check(norm, y, w, b, msg=msg, grads=3, factor=scale)
                got = self.check(norm, y, msg=msg, factor=8)
                self.assertEqual(
                    got.stride(),
                    torch.empty_like(y).contiguous(memory_format=formats[len(shape)]).stride()
                    if y is last and len(shape) in formats
                    else x.stride(),
                    msg=msg,
                )
                tolerance = TOLERANCES[w.dtype]
                for expected, other in zip(moved[0::2], moved[1::2]):
                    self.assertEqual(other, expected, rtol=tolerance, atol=tolerance, msg=msg)
            if w.dtype != x.dtype:
                got = norm(x.xpu(), w.xpu(), b.xpu())
                expected = norm(x.double(), w.double(), b.double())
                tolerance = TOLERANCES[dtype]
                self.assertEqual(got.cpu().double(), expected, rtol=tolerance, atol=tolerance)
        self.no_fallbacks()

    def test_batch_norm_saved(self):
        x = torch.randn(8, 3, 40) + 1000  # a variance beside a large mean
        got = torch.native_batch_norm(x.xpu(), None, None, None, None, True, 0.1, 1e-5)
        expected = torch.native_batch_norm(x.double(), None, None, None, None, True, 0.1, 1e-5)
        for one, other in zip(got, expected):
            self.assertEqual(one.cpu(), other.float(), rtol=1e-4, atol=1e-3)
        last = (torch.randn(8, 8, 9, 7) + 1000).contiguous(memory_format=torch.channels_last)
        of_last = torch.native_batch_norm(last.xpu(), None, None, None, None, True, 0.1, 1e-5)
        expected = torch.native_batch_norm(last.double(), None, None, None, None, True, 0.1, 1e-5)
        for one, other in zip(of_last, expected):
            self.assertEqual(one.cpu(), other.float(), rtol=1e-4, atol=1e-3)
        ones = torch.ones(3, device="xpu")
        eval = torch.native_batch_norm(x.xpu(), None, None, ones, ones, False, 0.1, 1e-5)
        self.assertEqual([y.numel() for y in eval[1:]], [0, 0])
        for mask, training in itertools.product(
            itertools.product((False, True), repeat=3), (True, False)
        ):
            grads = torch.ops.aten.native_batch_norm_backward(
                x.xpu(), x.xpu(), ones, ones, ones, *got[1:], training, 1e-5, mask
            )
            self.assertEqual([grad is not None for grad in grads], list(mask))
        self.no_fallbacks()
        first = torch.native_batch_norm(x.xpu(), None, None, None, None, True, 0.1, 1e-5)
        for one, other in zip(first, got):
            self.assertEqual(one, other, rtol=0, atol=0)

    def test_modules(self):
        """A step of training moves the running means; rms_norm is made of others."""
        results = []
        for device in ("cpu", "xpu"):
            torch.manual_seed(0)
            net = torch.nn.Sequential(
                torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.GroupNorm(2, 4)
            ).to(device)
            x = torch.randn(5, 4, 6, 7).to(device)
            torch._C._xpu_resetFallbackStatistics()
            net(x).square().mean().backward()
            self.no_fallbacks()
            results.append([y.cpu() for y in (*net.buffers(), *(p.grad for p in net.parameters()))])
        self.assertEqual(*results, atol=1e-5, rtol=1e-4)
        if hasattr(F, "rms_norm"):
            x, w = torch.randn(6, 50), torch.rand(50)
            self.check(lambda x, w: F.rms_norm(x, (50,), w), x, w, msg="rms", grads=2, factor=8)
            self.no_fallbacks()

    @unittest.skipIf(torch.xpu.device_count() < 2, "needs two devices")
    def test_tensors_of_two_devices(self):
        x, y = (torch.rand(4, 6, 9).to(f"xpu:{i}") for i in range(2))
        for function in (
            lambda: F.group_norm(x, 2, y[0, :, 0], y[0, :, 0]),
            lambda: F.batch_norm(x, None, None, y[0, :, 0], training=True),
            lambda: F.mse_loss(x, y),
            lambda: F.nll_loss(x[:, :, 0], torch.zeros(4, dtype=torch.long, device="xpu:1")),
            lambda: F.binary_cross_entropy(x, y),
        ):
            with self.assertRaisesRegex(RuntimeError, "same device"):
                function()


if __name__ == "__main__":
    run_tests()
