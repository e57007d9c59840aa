# Owner(s): ["module: intel"]
"""The operators that have a kernel for XPU, traced, exported, decomposed and compiled: they
call the same operators as without that, and give the same results."""

import gc
import os
import shutil
import unittest

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils._pytree import tree_leaves
from xpu_host_memory import needs_host_memory

needs_device = unittest.skipIf(not torch.xpu.is_available(), "there is no device")


class Module(torch.nn.Module):
    """A function as a module, for export."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def attention(query, mask=None, **options):
    return F.scaled_dot_product_attention(query, query, query, mask, **options)


def resized(x):
    y = torch.empty(0, device=x.device)
    y.resize_(x.shape)
    return y.copy_(x.detach()) + 1


def replaced(x):
    y = torch.empty(0, device=x.device)
    y.set_(x.detach() * 2)
    return y + 1


def layouts(x):
    y = torch.empty_strided(x.shape, (1, x.shape[0]), device=x.device)
    y.copy_(x.as_strided(x.shape, x.stride()))
    return y.t().contiguous().view(-1).unfold(0, 3, 2) + y.t().reshape(-1)[:1]


def dropout(x):
    y, mask = torch.native_dropout(x, 0.5, True)
    return y - x * mask * 2  # 0, whatever is drawn


def randn(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


X = randn(4, 6)
IMAGE, KERNEL = randn(2, 4, 6, 6), randn(3, 4, 3, 3, seed=1)
QUERY, MASK = randn(2, 4, 16, 8), torch.ones(16, 16, dtype=torch.bool).tril()
HIDDEN, GATES, BIAS = randn(4, 6, seed=1), randn(24, 6, seed=2), randn(24, seed=3)

# The function and its arguments, by name.
CASES = {
    "attention": (attention, QUERY),
    "attention_with_mask": (attention, QUERY, MASK),
    "attention_by_math_with_mask": (lambda q, mask: attention(q[0], mask), QUERY, MASK),
    "attention_causal": (lambda q: attention(q, is_causal=True, scale=0.5), QUERY),
    "attention_with_gaps": (lambda q: attention(q.transpose(2, 3)), QUERY),
    "attention_in_vmap": (torch.vmap(attention), QUERY[None]),
    "convolution": (F.conv2d, IMAGE, KERNEL),
    "convolution_transposed": (F.conv_transpose2d, IMAGE, KERNEL.transpose(0, 1)),
    "group_norm": (lambda x: F.group_norm(x, 2), IMAGE),
    "mode": (lambda x: torch.mode(x.round(), 1)[0], X),
    "conj_physical_": (lambda x: (x + 1j).conj_physical_().imag + x, X),
    "nanmean": (
        lambda x: torch.nanmean(x.detach(), 1, out=torch.empty(4, device=x.device)),
        X,
    ),
    "eigvals": (lambda x: torch.linalg.eigvals(x[:, :4]).abs().sum(), X),
    "lstm_cell": (
        lambda x, h, w, b: torch.lstm_cell(x, (h, h), w, w, b, b)[0],
        *(X, HIDDEN, GATES, BIAS),
    ),
    "gru_cell": (
        lambda x, h, w, b: torch.gru_cell(x, h, w, w, b, b),
        *(X, HIDDEN, GATES[:18], BIAS[:18]),
    ),
    "dropout": (dropout, X),
    "softmax": (lambda x: torch.softmax(x, 1, dtype=torch.float), X.half()),
    "log_softmax": (lambda x: torch.log_softmax(x, 1, dtype=torch.float), X.half()),
    "resize_": (resized, X),
    "set_": (replaced, X),
    "layouts": (layouts, X),
    "tril_indices": (lambda x: torch.tril_indices(4, 4, device=x.device) + x[0, 0], X),
    "triu_indices": (lambda x: torch.triu_indices(4, 4, device=x.device) + x[0, 0], X),
}


def gradient(function, x, *others):
    """The result and the gradient by x, or the result alone where it has none."""
    x = x.detach().requires_grad_()
    y = function(x, *others)
    if not y.requires_grad:
        return (y,)
    return y.detach(), *torch.autograd.grad(y.float().square().sum(), x)


@needs_device
class TestTrace(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def of(self, name):
        """The function, its arguments on XPU, and its results and gradients there, which
        are those of the CPU."""
        function, *arguments = CASES[name]
        on_xpu = [argument.to("xpu") for argument in arguments]
        found = gradient(function, *on_xpu)
        if not (X.half().dtype == arguments[0].dtype and "softmax" in name):
            self.assertEqual(
                [one.cpu() for one in found], list(gradient(function, *arguments))
            )
        return function, on_xpu, found

    def assert_equal(self, found, expected):
        """Decomposed operators round otherwise than a kernel."""
        found, expected = tree_leaves(found), tree_leaves(expected)
        narrow = any(one.dtype == torch.half for one in expected)
        tolerance = 1e-2 if narrow else 1e-4
        self.assertEqual(found, expected, atol=tolerance, rtol=tolerance)
        self.assertEqual([one.device for one in found], [one.device for one in expected])

    @parametrize("name", CASES)
    def test_make_fx(self, name):
        function, arguments, expected = self.of(name)

        def trained(*arguments):
            return gradient(function, *arguments)

        graphs = {}
        for mode in ("real", "fake", "symbolic"):
            traced = make_fx(trained, tracing_mode=mode)(*arguments)
            self.assert_equal(traced(*arguments), expected)
            graphs[mode] = [str(node.target) for node in traced.graph.nodes]
        self.assertEqual(graphs["fake"], graphs["real"])

    @parametrize("name", CASES)
    def test_export(self, name):
        function, arguments, (expected, *_) = self.of(name)
        model, arguments = Module(function), tuple(arguments)
        exported = torch.export.export(model, arguments)
        for program in (
            exported,
            exported.run_decompositions(),
            torch.export.draft_export(model, arguments),
        ):
            self.assert_equal(program.module()(*arguments), expected)

    @parametrize("name", CASES)
    def test_compile(self, name):
        function, arguments, expected = self.of(name)
        fullgraph = name != "resize_"  # dynamo leaves that to eager, on every device
        compiled = torch.compile(function, backend="aot_eager", fullgraph=fullgraph)
        self.assert_equal(gradient(compiled, *arguments), expected)


instantiate_parametrized_tests(TestTrace)


@needs_device
class TestAttention(TestCase):
    def memory(self, function, *arguments):
        """What a function takes while it runs."""
        function(*arguments)  # to compile it
        gc.collect()
        torch.xpu.reset_peak_memory_stats()
        before = torch.xpu.memory_allocated()
        function(*arguments)
        return torch.xpu.max_memory_allocated() - before

    def compiled_takes_the_memory_of_eager(self, backend):
        """That is the result's. With MATH it would be 32 times as much."""
        query = torch.randn(2, 4, 512, 16, device="xpu")
        torch._dynamo.reset()
        compiled = torch.compile(attention, backend=backend, fullgraph=True)
        with torch.no_grad():
            eager = self.memory(attention, query)
            self.assertLess(self.memory(compiled, query), 2 * eager)
            self.assertEqual(compiled(query), attention(query), atol=1e-4, rtol=1e-4)

    def test_memory(self):
        self.compiled_takes_the_memory_of_eager("aot_eager")

    @needs_host_memory
    @unittest.skipIf(
        not shutil.which(os.environ.get("CXX", "g++")), "there is no C++ compiler"
    )
    def test_memory_of_inductor(self):
        self.compiled_takes_the_memory_of_eager("inductor")

    def test_fake_choice(self):
        """It is the one of the tensors, which depends on strides and on options."""
        from torch._subclasses import FakeTensorMode

        query = torch.randn(2, 4, 16, 8, device="xpu")
        mask = torch.zeros(16, 16, device="xpu")
        found = set()
        for q, *others in (
            (query,),
            (query[0],),
            (query.transpose(2, 3),),
            (query, mask),
            (query, mask.clone().requires_grad_()),
            (query, None, 0.5),
        ):
            choice = torch._fused_sdp_choice(q, q, q, *others)
            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                q, *others = (
                    mode.from_tensor(one) if isinstance(one, torch.Tensor) else one
                    for one in (q, *others)
                )
                self.assertEqual(torch._fused_sdp_choice(q, q, q, *others), choice)
            found.add(choice)
        self.assertEqual(len(found), 2)

    def test_gradient_of_the_mask(self):
        results = []
        for device in ("cpu", "xpu"):
            query = randn(2, 4, 16, 8).to(device)
            mask = torch.zeros(16, 16, device=device, requires_grad=True)
            compiled = torch.compile(attention, backend="aot_eager")
            for function in (attention, compiled):
                (found,) = torch.autograd.grad(function(query, mask).square().sum(), mask)
                results.append(found.cpu())
        for result in results:
            self.assertEqual(result, results[0], atol=1e-4, rtol=1e-4)


if __name__ == "__main__":
    run_tests()
