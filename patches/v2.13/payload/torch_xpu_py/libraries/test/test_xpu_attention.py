# Owner(s): ["module: intel"]
"""Attention on the device. As those of test_xpu_kernels.py, the tests run in a process with
TORCH_XPU_KERNELS=1."""

import itertools
import unittest

import test_xpu_kernels as kernels
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import run_tests, slowTest, TestCase


HAS_CUDNN = (
    torch.xpu.is_available()
    and "NVIDIA" in torch.xpu.get_device_name()
    and not torch.xpu.libraries()["cudnn"].problem
)


@kernels.needs_device
@unittest.skipIf(kernels.ON, "it is the process of the tests below")
class TestAttentionProcesses(kernels.Processes):
    @slowTest
    def test_attention(self):
        self.run_class("TestKernelAttention")

    @slowTest
    def test_wide_sub_groups(self):
        self.run_class("TestKernelAttention.test_cases", **kernels.WIDE)


def of_one_tensor(images, heads, queries, numbers):
    """Queries, keys and values as a model has them, side by side in one tensor."""
    whole = torch.randn(images, queries, 3, heads, numbers)
    return whole.permute(2, 0, 3, 1, 4).unbind()


EMPTY = ((0, 2, 4, 8), (2, 0, 4, 8), (2, 2, 0, 8), (2, 2, 4, 0))


def attend_all(q, k, v, mask=None):
    mask = None if mask is None else mask * 1.0
    return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.5)


def apart(images, heads, queries, numbers, keys=None, of_value=None):
    return (
        torch.randn(images, heads, queries, numbers),
        torch.randn(images, heads, keys or queries, numbers),
        torch.randn(images, heads, keys or queries, of_value or numbers),
    )


SEEN = torch.rand(7, 14).tril() + 1 > 1  # each query sees the first key
CASES = {
    "one": (lambda: apart(1, 1, 1, 8), {}),
    "some": (lambda: apart(2, 3, 7, 8), {}),
    "of one tensor": (lambda: of_one_tensor(2, 3, 70, 16), {}),
    "causal": (lambda: of_one_tensor(2, 3, 70, 16), {"is_causal": True}),
    "causal, in blocks": (lambda: apart(1, 2, 300, 8), {"is_causal": True}),
    "causal, more keys": (lambda: apart(1, 2, 140, 8, keys=200), {"is_causal": True}),
    "causal, fewer keys": (lambda: apart(1, 2, 200, 8, keys=90), {"is_causal": True}),
    "more keys": (lambda: apart(2, 2, 5, 8, keys=33), {}),
    "few, many keys": (lambda: apart(1, 2, 1, 64, keys=700, of_value=200), {}),
    "few, causal": (lambda: of_one_tensor(2, 2, 15, 33), {"is_causal": True}),
    "few, many numbers": (lambda: apart(1, 1, 3, 300, keys=20), {}),
    "few, mask": (lambda: apart(2, 3, 2, 24, keys=90), {"attn_mask": torch.randn(2, 1, 2, 90)}),
    "few, turned": (lambda: [x.mT for x in apart(1, 2, 9, 10)], {}),
    "scaled": (lambda: apart(2, 2, 5, 8), {"scale": 0.3}),
    "mask": (lambda: apart(2, 3, 7, 8), {"attn_mask": torch.randn(7, 7)}),
    "mask of heads": (lambda: apart(2, 3, 7, 8), {"attn_mask": torch.randn(1, 3, 7, 7)}),
    "mask of images": (lambda: apart(2, 3, 7, 8, keys=9), {"attn_mask": torch.randn(2, 1, 1, 9)}),
    "mask of bools": (lambda: apart(2, 3, 7, 8), {"attn_mask": SEEN[:, :7]}),
    "mask of bools, one image": (lambda: [x[0] for x in apart(1, 3, 7, 8)], {"attn_mask": SEEN[:, :7]}),
    "mask of bools, other values": (
        lambda: apart(2, 3, 7, 8, of_value=5),
        {"attn_mask": SEEN[:, :7]},
    ),
    "mask of bools with gaps": (lambda: apart(2, 3, 7, 8), {"attn_mask": SEEN[:, ::2]}),
    "heads that share keys": (
        lambda: (torch.randn(2, 6, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)),
        {"enable_gqa": True, "is_causal": True},
    ),
    "heads that share keys, with a mask": (
        lambda: (torch.randn(2, 4, 9, 8), torch.randn(2, 1, 7, 8), torch.randn(2, 1, 7, 8)),
        {"enable_gqa": True, "attn_mask": torch.randn(9, 7)},
    ),
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

    @unittest.skipIf(not HAS_CUDNN, "there is no NVIDIA device with cuDNN")
    def test_by_cudnn(self):
        """It has no products in memory, from the second time on that it gets a shape."""
        shapes = {
            "of one tensor": (lambda: of_one_tensor(2, 3, 300, 64), {}),
            "causal": (lambda: of_one_tensor(2, 3, 300, 128), {"is_causal": True}),
            "apart": (lambda: apart(2, 3, 301, 40, keys=333), {"is_causal": True}),
            "scaled": (lambda: apart(1, 2, 400, 16), {"scale": 0.3}),
            "shared": (lambda: [x.expand(3, -1, -1, -1) for x in apart(1, 4, 256, 32)], {}),
            "not aligned": (lambda: [x[..., 1:] for x in apart(1, 4, 256, 33)], {}),
            "mask": (lambda: apart(2, 3, 300, 64), {"attn_mask": torch.randn(300, 300)}),
            "mask of heads": (
                lambda: apart(6, 3, 301, 64, keys=333),
                {"attn_mask": torch.randn(1, 3, 301, 333), "is_causal": True},
            ),
            "padding": (
                lambda: of_one_tensor(2, 3, 320, 64),
                {"attn_mask": (torch.arange(320) < torch.tensor([[200], [320]]))[:, None, None]},
            ),
            "queries that see nothing": (
                lambda: apart(2, 3, 320, 64),
                {"attn_mask": torch.ones(320, 320, dtype=torch.bool).tril(-3)},
            ),
        }
        for (name, (make, options)), dtype in itertools.product(
            shapes.items(), (torch.half, torch.bfloat16)
        ):
            inputs = [x.to(dtype) for x in make()]
            expected = [x.double().detach().requires_grad_() for x in inputs]
            options, exact = ({**options}, {**options})
            if "attn_mask" in options:
                mask = options["attn_mask"]
                mask = mask if mask.dtype == torch.bool else mask.to(dtype)
                options["attn_mask"] = mask.xpu()
                exact["attn_mask"] = mask if mask.dtype == torch.bool else mask.double()
            y = F.scaled_dot_product_attention(*expected, **exact)
            grad = torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype)
            y.backward(grad.double())
            expected = [y.detach()] + [x.grad for x in expected]
            for _ in range(3):
                moved = [x.xpu().requires_grad_() for x in inputs]
                to_y = grad.xpu()
                torch.xpu.reset_peak_memory_stats()
                before = torch.xpu.memory_allocated()
                y = F.scaled_dot_product_attention(*moved, **options)
                y.backward(to_y)
                used = torch.xpu.max_memory_allocated() - before
                for one, other in zip(expected, [y.detach()] + [x.grad for x in moved]):
                    self.assertEqual(other.cpu().double(), one, rtol=0.03, atol=0.03, msg=name)
            images, heads, queries, _ = inputs[0].shape
            products = images * heads * queries * inputs[1].size(2) * 4
            self.assertLess(used, products, name)

    @unittest.skipIf(not HAS_CUDNN, "there is no NVIDIA device with cuDNN")
    def test_deterministic_by_cudnn(self):
        given = [x.xpu().bfloat16().requires_grad_() for x in apart(2, 8, 2048, 64)]
        results = []
        try:
            torch.use_deterministic_algorithms(True)
            for _ in range(4):
                y = F.scaled_dot_product_attention(*given, is_causal=True)
                results.append([y, *torch.autograd.grad(y.square().sum(), given)])
        finally:
            torch.use_deterministic_algorithms(False)
        results = [[x.detach().cpu() for x in each] for each in results]
        for other in results[2:]:
            self.assertEqual(other, results[1], rtol=0, atol=0)

    def test_a_query_that_sees_nothing(self):
        q, k, v = (x.xpu().requires_grad_() for x in apart(1, 2, 4, 8))
        mask = torch.ones(4, 4, dtype=torch.bool).tril(-1).xpu()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y.sum().backward()
        self.assertEqual(y[:, :, 0].abs().sum().item(), 0)
        for x in (q, k, v):
            self.assertTrue(x.grad.isfinite().all())
        torch._C._xpu_resetFallbackStatistics()

    def weights_kept(self, q, k, mask, p, causal, seed):
        """Of tensors of such shapes, by values of which each has one weight."""
        keys, numbers = k.shape[-2:]
        ones = torch.eye(keys, dtype=q.dtype).expand(*k.shape[:2], keys, keys)
        parts = []
        for i in range(0, keys, numbers):
            v = F.pad(ones[..., i : i + numbers], (0, max(i + numbers - keys, 0)))
            torch.manual_seed(seed)
            moved = [x.xpu() for x in (torch.zeros_like(q), torch.zeros_like(k), v)]
            y = F.scaled_dot_product_attention(*moved, mask, p, is_causal=causal)
            parts.append(y.cpu() > 0)
        return torch.cat(parts, -1)[..., :keys]

    def check_dropout(self, q, k, v, mask=None, p=0.3, causal=False, tolerance=1e-4):
        numbers = mask is not None and mask.dtype != torch.bool  # which are not cuDNN's
        none = torch.zeros_like(mask).xpu() if numbers else None
        kept = self.weights_kept(q, k, none, p, causal, seed=7)
        seen = torch.ones_like(kept)
        if causal:
            seen = seen.tril()
            self.assertFalse(kept[~seen].any())
        self.assertEqual(kept[seen].float().mean().item(), 1 - p, atol=0.03, rtol=0)
        given = [q, k, v] if mask is None else [q, k, v, mask]
        moved = [x.xpu().requires_grad_(x.is_floating_point()) for x in given]
        exact = [q, k, v, torch.zeros(()) if mask is None else mask]
        exact = [x.double().requires_grad_() for x in exact]
        torch.manual_seed(7)
        y = F.scaled_dot_product_attention(*moved, dropout_p=p, is_causal=causal)
        products = exact[0] @ exact[1].mT / q.shape[-1] ** 0.5
        if mask is not None and mask.dtype == torch.bool:
            products = products.masked_fill(~mask, float("-inf"))
        else:
            products = products + exact[3]
        weights = products.masked_fill(~seen, float("-inf")).softmax(-1)
        expected = (weights * kept / (1 - p)) @ exact[2]
        grad = torch.randn_like(v[..., :1, :].expand(y.shape))
        y.backward(grad.xpu())
        expected.backward(grad.double())
        for got, wanted in zip(
            [y, *(x.grad for x in moved)], [expected, *(x.grad for x in exact)]
        ):
            if got is None:
                continue  # of a mask of bool
            error = (got.detach().cpu().double() - wanted.detach()).abs().max()
            self.assertLess(error.item(), tolerance * wanted.abs().max().item())
        self.assertEqual([x.grad.stride() for x in moved[:3]], [x.stride() for x in moved[:3]])

    def test_dropout(self):
        cases = (
            (apart(2, 3, 20, 16), {}),
            (apart(2, 3, 20, 16, 37), {}),  # parts of groups of four keys
            (apart(1, 2, 150, 16), {"causal": True}),  # several blocks of queries
            (apart(1, 2, 64, 8, 33), {"p": 0.9}),
            (apart(2, 2, 24, 16), {"mask": torch.randn(24, 24)}),
            (apart(2, 3, 20, 8, 150), {"mask": torch.randn(2, 1, 1, 150)}),
            (apart(2, 2, 24, 16), {"mask": torch.rand(2, 1, 24, 24) > 0.3}),
            (apart(1, 1, 3, 8, 400), {}),
            (of_one_tensor(2, 4, 40, 16), {"causal": True}),
        )
        for (tensors, how), (dtype, tolerance) in itertools.product(
            cases, ((torch.float, 1e-4), (torch.half, 1e-2), (torch.bfloat16, 6e-2))
        ):
            how = dict(how)
            if "mask" in how and how["mask"].is_floating_point():
                how["mask"] = how["mask"].to(dtype)
            with self.subTest(dtype=dtype, shape=tensors[1].shape, **how):
                self.check_dropout(*(x.to(dtype) for x in tensors), **how, tolerance=tolerance)
        self.assertEqual(torch.xpu.fallback_statistics(), {})

    def test_dropout_draws_from_the_generator(self):
        q, k, v = (x.half().xpu() for x in apart(2, 2, 32, 16))
        choice = 3 if HAS_CUDNN else 4  # of SDPBackend
        self.assertEqual(torch._fused_sdp_choice(q, k, v, dropout_p=0.5), choice)
        self.assertEqual(torch._fused_sdp_choice(q, k, v), 1)

        def attend():
            return attend_all(q, k, v)

        torch.manual_seed(1)
        first, second = attend(), attend()
        self.assertNotEqual(first, second)
        torch.manual_seed(1)
        self.assertEqual((attend(), attend()), (first, second))
        with torch.random.fork_rng(device_type="xpu"):
            third = attend()
        self.assertEqual(attend(), third)
        ones = F.scaled_dot_product_attention(q, k, v, dropout_p=1.0)
        self.assertEqual(ones.abs().sum().item(), 0)
        same = q[0].expand(2, -1, -1, -1)
        each = torch.vmap(attend_all, randomness="different")(same, same, same)
        self.assertNotEqual(each[0], each[1])
        torch._C._xpu_resetFallbackStatistics()

    def test_gradients_with_dropout_by_functions(self):
        """In vmap, and of a mask that an inner function does not look at."""
        q, k, v = (x.xpu() for x in apart(3, 2, 16, 8))
        grads = torch.func.grad(lambda *x: attend_all(*(one[None] for one in x)).square().sum())
        for randomness in ("same", "different"):
            each = torch.vmap(grads, randomness=randomness)(q, q, q)
            self.assertEqual(each.shape, q.shape)
        with self.assertRaisesRegex(RuntimeError, "randomness"):
            torch.vmap(grads)(q, q, q)

        def outer(mask):
            def inner(x):
                y = attend_all(x, k, v, mask)
                return y.sum(), y

            return torch.func.grad(inner, has_aux=True)(q)[1].square().sum()

        self.assertGreater(torch.func.grad(outer)(torch.randn(16, 16).xpu()).abs().sum().item(), 0)
        torch._C._xpu_resetFallbackStatistics()

    def test_arguments(self):
        """The CPU's errors, and results without elements."""
        q = torch.randn(1, 2, 4, 8)
        whole, part = torch.zeros(4, 4), torch.zeros(4)
        for p in (0.0, 0.5):
            for tensors, mask, how in (
                ((q, q.half(), q), None, {}),
                ((q[0, 0, 0],) * 3, None, {}),
                ((q, q, q), whole.int(), {}),
                ((q, q, q), whole.double(), {}),
                ((q, q, q), whole, {"is_causal": True}),
                ((q, q, q), part, {}),
                ((q, q, q), None, {"dropout_p": 1.5}),
                ((q, q, q[:, :, :2]), None, {}),
                *(((torch.randn(shape),) * 3, None, {}) for shape in EMPTY),
            ):
                ends = []
                for device in ("cpu", "xpu"):
                    try:
                        found = F.scaled_dot_product_attention(
                            *(x.to(device) for x in tensors),
                            None if mask is None else mask.to(device),
                            **{"dropout_p": p, **how},
                        )
                        ends.append(tuple(found.shape))
                    except (RuntimeError, IndexError) as error:
                        ends.append(str(error).splitlines()[0])
                self.assertEqual(*ends)
        torch._C._xpu_resetFallbackStatistics()

    def test_dropout_is_drawn_again(self):
        """By a checkpoint, and by the backward outside of what switched a library off."""
        for reentrant, masked in itertools.product((False, True), (False, True)):
            results = []
            for how in (torch.utils.checkpoint.checkpoint, lambda f, *x, **_: f(*x)):
                torch.manual_seed(3)
                x = apart(2, 2, 32, 16) + (torch.randn(32, 32),) * masked
                x = [x.half().xpu().requires_grad_() for x in x]
                y = how(attend_all, *x, use_reentrant=reentrant)
                y.square().sum().backward()
                results.append([y, *(one.grad for one in x)])
            self.assertEqual(*results)
        q, k, v = (x.half() for x in apart(1, 2, 32, 32))
        with torch.backends.cudnn.flags(enabled=False):
            ones = torch.eye(32).half().expand_as(v)
            moved = [x.xpu().requires_grad_() for x in (q, k, ones)]
            y = F.scaled_dot_product_attention(*moved, dropout_p=0.5)
        y.sum().backward()
        # Each value's gradient is the sum of the weights that it has.
        self.assertEqual(moved[2].grad[..., 0].float(), y.float().sum(-2), atol=1e-2, rtol=1e-2)
        torch._C._xpu_resetFallbackStatistics()

    def test_dropout_shows_nothing_that_a_mask_hides(self):
        q, k, v = apart(2, 2, 14, 8)
        v[:, :, :7] = 0
        seen = torch.arange(14).expand(14, 14) < 7
        for mask in (seen, torch.zeros(14, 14).masked_fill(~seen, float("-inf"))):
            moved = [x.xpu().requires_grad_() for x in (q, k, v)]
            y = F.scaled_dot_product_attention(*moved, mask.xpu(), 0.3)
            self.assertEqual(y.cpu(), torch.zeros(2, 2, 14, 8))
            y.sum().backward()
            self.assertEqual(moved[2].grad[:, :, 7:].abs().sum().item(), 0)
        torch._C._xpu_resetFallbackStatistics()

    def test_nan_stays(self):
        """Of a query, or of all that a mask adds to one; also where a library computes."""
        for queries, dtype, of_mask in itertools.product((4, 40), (torch.float, torch.half), (0, 1)):
            q, k, v = (x.to(dtype) for x in apart(1, 2, queries, 8))
            mask = torch.randn(queries, queries).to(dtype)
            (mask if of_mask else q)[..., 1, :] = float("nan")
            masks = (mask,) if of_mask else (None, mask)
            for mask, _ in itertools.product(masks, range(3)):
                moved = [x if x is None else x.xpu() for x in (q, k, v, mask)]
                y = F.scaled_dot_product_attention(*moved).cpu()
                expected = torch.zeros(queries, dtype=torch.bool)
                expected[1] = True
                self.assertEqual(y.isnan().all(-1), expected.expand(1, 2, -1))
                self.assertEqual(y.isnan().any(-1), expected.expand(1, 2, -1))

    def test_a_mask_of_another_device(self):
        q, k, v = (x.xpu() for x in apart(1, 2, 4, 8))
        with self.assertRaises(RuntimeError):
            F.scaled_dot_product_attention(q, k, v, attn_mask=torch.zeros(4, 4))

    def test_heads_without_numbers(self):
        """The result is the mean of values."""
        x = torch.randn(2, 2, 4, 8)
        for given in ({}, {"is_causal": True}, {"attn_mask": torch.randn(4, 4) > 0}):
            moved = {k: v.xpu() if k == "attn_mask" else v for k, v in given.items()}
            got = F.scaled_dot_product_attention(x[..., :0].xpu(), x[..., :0].xpu(), x.xpu(), **moved)
            expected = F.scaled_dot_product_attention(x[..., :0], x[..., :0], x, **given)
            self.assertEqual(got.cpu(), expected)

    def test_encoder_layers(self):
        """Python calls one operator for a layer that has no gradients."""
        x = torch.randn(2, 5, 16)
        masks = {
            "src_mask": torch.nn.Transformer.generate_square_subsequent_mask(5),
            "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
        }
        for first, activation in ((False, "relu"), (True, "gelu")):
            layer = torch.nn.TransformerEncoderLayer(
                16, 4, 32, activation=activation, batch_first=True, norm_first=first
            ).eval()
            moved = torch.nn.TransformerEncoderLayer(
                16, 4, 32, activation=activation, batch_first=True, norm_first=first
            ).eval()
            moved.load_state_dict(layer.state_dict())
            moved.xpu()
            for names in ((), ("src_mask",), ("src_key_padding_mask",), tuple(masks)):
                given = {name: masks[name] for name in names}
                with torch.no_grad():
                    expected = layer(x, **given)
                    got = moved(x.xpu(), **{k: v.xpu() for k, v in given.items()})
                self.assertEqual(got.cpu(), expected, rtol=1e-4, atol=1e-4)

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
