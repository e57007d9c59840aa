# Owner(s): ["module: intel"]
"""PyTorch's samples of operators by torch.compile on an NVIDIA card, beside float64 without it.

A test is an entry of OpInfo and a dtype: results and gradients of its first samples. The error
is at most a few times that of the same device without torch.compile. TEST_SHARE=1 runs all
tests, else TEST_SEED chooses a share of them.
"""

import itertools
import os
import random
import unittest

import torch
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
    TestCase,
)
from torch.utils._pytree import tree_leaves, tree_map

from xpu_stand_in_card import has_card, needs_card, once

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHARE = float(os.environ.get("TEST_SHARE", "0.05"))
SEED = int(os.environ.get("TEST_SEED", "0"))
SAMPLES = 2
# What they return differs from call to call, or is not said.
RANDOM = {
    "as_strided",  # of memory that the sample does not write
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "normal",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "uniform",
}


def tests():
    if not has_card:  # they take seconds to import
        return [subtest((None, None), name="none")]
    from torch.testing._internal.common_methods_invocations import op_db

    all_of = [
        subtest((op, dtype), name=f"{op.formatted_name}_{str(dtype)[6:]}")
        for op in op_db
        for dtype in DTYPES
        if op.name not in RANDOM and dtype in op.dtypes
    ]
    return random.Random(SEED).sample(all_of, round(len(all_of) * SHARE))


def moved(value, device, dtype=None):
    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            other = dtype if dtype and leaf.is_floating_point() else leaf.dtype
            return leaf.detach().to(device, other).requires_grad_(leaf.requires_grad)
        return dtype if dtype and isinstance(leaf, torch.dtype) and leaf in DTYPES else leaf

    return tree_map(one, value)


def tensors_of(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def dense(tensor):
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def computed(function, sample, device, dtype=None):
    """Results and gradients on the CPU."""
    given, args, kwargs = (
        moved(one, device, dtype) for one in (sample.input, sample.args, sample.kwargs)
    )
    result = function(given, *args, **kwargs)
    outputs = [one for one in tensors_of(sample.output_process_fn_grad(result)) if one.requires_grad]
    inputs = [one for one in tensors_of((given, args, kwargs)) if one.requires_grad]
    found = [one.detach() for one in tensors_of(result)]
    if outputs and inputs:
        generator = torch.Generator().manual_seed(0)
        directions = [
            torch.randn(one.shape, generator=generator).to(device, one.dtype) for one in outputs
        ]
        found += torch.autograd.grad(outputs, inputs, directions, allow_unused=True)
    return [None if one is None else dense(one).cpu() for one in found]


@needs_card
@once
class TestOperators(TestCase):
    def tearDown(self):
        torch.compiler.reset()
        super().tearDown()

    @parametrize("op,dtype", tests())
    def test(self, op, dtype):
        with_gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        samples = op.sample_inputs("cpu", dtype, requires_grad=with_gradients)
        for sample in itertools.islice(samples, SAMPLES):
            try:
                expected = computed(op, sample, "xpu")
            except Exception as error:
                raise unittest.SkipTest(f"it raises without torch.compile too: {error}") from error
            try:
                exact = computed(op, sample, "cpu", torch.float64)
            except Exception:  # it has no double
                exact = expected
            compiled = torch.compile(lambda *a, **kw: op(*a, **kw), dynamic=False)
            found = computed(compiled, sample, "xpu")
            self.assertEqual(len(found), len(expected))
            for one, eager, true in zip(found, expected, exact):
                self.assertEqual(one is None, eager is None)
                if one is None:
                    continue
                # PyTorch's decomposition has statistics of batch norm in evaluation, which
                # nothing reads, on every device but the CPU.
                if eager.numel() > 0 or "native_batch_norm" not in op.name:
                    self.close(one, eager, true)

    def close(self, found, eager, exact):
        self.assertEqual(found.shape, eager.shape)
        self.assertEqual(found.dtype, eager.dtype)
        if not found.is_floating_point():
            self.assertEqual(found, eager)
            return
        epsilon = torch.finfo(found.dtype).eps
        found, eager, exact = (one.double() for one in (found, eager, exact))
        if exact.shape != found.shape:
            exact = eager
        # Where eager gives NaN and float64 a number, or infinity and a finite one, torch.compile
        # is not checked.
        lost = (eager.isnan() & ~exact.isnan()) | (eager.isinf() & exact.isfinite())
        found = torch.where(lost, exact, found)
        bound = 3 * (eager - exact).abs().nan_to_num(0, 0, 0).amax() if exact.numel() else 0
        self.assertEqual(found, exact, atol=float(bound) + 32 * epsilon, rtol=32 * epsilon)


instantiate_parametrized_tests(TestOperators)


if __name__ == "__main__":
    run_tests()
