# Owner(s): ["module: intel"]
"""What the CPU's kernels lack, and XPU computes in float32: see Note [float16]."""

import itertools
import os
import random
import re
import unittest
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

# Each with its wide type and its bit in what _xpu_typesThatCpuLacks returns.
NARROW = {
    torch.float16: (torch.float32, 1),
    torch.bfloat16: (torch.float32, 2),
    torch.complex32: (torch.complex64, 4),
}
# Later releases have so many samples that a run takes a quarter of them. Copied memory is no
# difference to the table.
PART = (
    os.environ.get("TORCH_XPU_HOST_MEMORY") == "0"
    or hasattr(torch, "accelerator")
    and os.environ.get("TEST_SHARE") != "1"
)
LACK = re.compile("not implemented for|Unsupported input type|got CPUBFloat16Type")


def convert(value, source, target, device=None):
    """The value with another type, and on another device, wherever it has them."""

    def one(value):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            dtype = target if value.dtype == source else value.dtype
            made = value.detach().to(device or value.device, dtype)
            return made.requires_grad_(value.requires_grad)
        if isinstance(value, torch.dtype):
            return target if value == source else value
        return device if device and isinstance(value, torch.device) else value

    return tree_map(one, value)


def without_underscore(name):
    return name[:-1] if name.endswith("_") else name


class Probe(TorchDispatchMode):
    """Calls operators of aten on the CPU. Where it lacks the type, XPU is tried."""

    def __init__(self, narrow, wide):
        super().__init__()
        self.narrow, self.wide = narrow, wide
        self.lacking = set()
        self.failed = {}  # the error of XPU

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = (args, kwargs or {})
        name = without_underscore(func._schema.name)
        if name in self.lacking:
            return self.widened(func, given)
        try:
            return func(*given[0], **given[1])
        except RuntimeError as error:
            if not LACK.search(str(error)):
                raise
            result = self.widened(func, given)  # raises if the CPU lacks this too
        self.lacking.add(name)
        try:
            xpu_args, xpu_kwargs = convert(given, None, None, torch.device("xpu"))
            func(*xpu_args, **xpu_kwargs)
        except RuntimeError as error:
            self.failed[name] = str(error).partition("\n")[0]
        return result

    def widened(self, func, given):
        args, kwargs = convert(given, self.narrow, self.wide)
        return convert(func(*args, **kwargs), self.wide, self.narrow)


def chosen(entries):
    """All, or the part that TEST_SEED chooses."""
    chooser = random.Random(os.environ.get("TEST_SEED", "0"))
    return chooser.sample(entries, len(entries) // 4) if PART else entries


def samples_of(op, wide):
    if wide not in op.dtypes or op.name.startswith(("jiterator", "sparse.")):
        return
    try:
        samples = op.sample_inputs("cpu", wide, requires_grad=op.supports_autograd)
        for one in itertools.islice(samples, 2 if PART else 4):
            yield one.input, one.args, one.kwargs
    except RuntimeError:
        pass  # they are made with operators that the CPU lacks


def other_calls(x):
    """Operators that the first samples do not call."""
    aten, functional = torch.ops.aten, torch.nn.functional
    square = x.reshape(2, 2)
    yield lambda: aten._linalg_det(square)
    yield lambda: aten._cholesky_solve_helper(square, square, False)
    yield lambda: aten._logcumsumexp(x, 0)
    yield lambda: torch.linalg.eigvals(square, out=torch.empty(2, dtype=torch.complex64))
    yield lambda: torch.logspace(0, 1, 5, dtype=x.dtype)
    yield lambda: torch.unique(square, dim=0)
    for name in ("uniform_", "normal_", "exponential_", "cauchy_", "log_normal_"):
        yield getattr(x.clone(), name)
    yield lambda: x.clone().geometric_(0.5)
    yield lambda: x.clone().bernoulli_(0.5)
    yield lambda: x.multinomial(1)
    image = x.reshape(1, 1, 2, 2).requires_grad_()
    volume = image.detach()[None].requires_grad_()
    yield lambda: functional.pad(image, [1, 1, 1, 1], mode="reflect")
    yield lambda: functional.pad(image, [1, 1, 1, 1], mode="replicate")
    yield lambda: functional.interpolate(image, scale_factor=2)
    yield lambda: functional.interpolate(volume, scale_factor=2)
    grid = torch.zeros(1, 1, 1, 2, 3, dtype=x.dtype)
    yield lambda: functional.grid_sample(volume, grid, align_corners=False)
    for name in ("_cummax_helper", "_cummin_helper"):
        places = torch.empty(4, dtype=torch.long)
        yield lambda name=name, places=places: getattr(aten, name)(x, x.clone(), places, 0)
    yield lambda: aten._symeig_helper(square, True, True)  # not in every release
    for name in dir(torch):
        if name.startswith("_foreach_"):
            for args in (([x],), ([x], [x]), ([x], 2.0), ([x], [x], [x])):
                yield lambda name=name, args=args: getattr(torch, name)(*args)


def run(function, probe):
    """Runs it and its backward; what PyTorch refuses to do is not of interest."""
    try:
        with probe:
            results = function()
            results = results if isinstance(results, (tuple, list)) else [results]
            tensors = [one for one in results if isinstance(one, torch.Tensor)]
            outputs = [one for one in tensors if one.requires_grad]
            if outputs:
                torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        pass


@instantiate_parametrized_tests
@unittest.skipIf(torch.xpu.device_count() == 0, "there is no XPU device")
class TestNarrowTypes(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        # The tensors are small.
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

    @parametrize("narrow", list(NARROW))
    def test_the_table(self, narrow):
        """It has what the CPU lacks, and nothing else, which a part does not tell."""
        wide, bit = NARROW[narrow]
        probe = Probe(narrow, wide)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for op in chosen(op_db):
                for sample in samples_of(op, wide):
                    first, args, kwargs = convert(sample, wide, narrow)
                    run(lambda: op(first, *args, **kwargs), probe)
            for call in other_calls(torch.rand(4).to(narrow)):
                run(call, probe)

        names = {schema.name for schema in torch._C._jit_get_all_schemas()}
        names = {without_underscore(one) for one in names if one.startswith("aten::")}
        listed = {one for one in names if torch._C._xpu_typesThatCpuLacks(one) & bit}
        self.assertEqual(probe.failed, {}, "XPU lacks it too")
        if not PART:
            self.assertEqual(listed - probe.lacking, set(), "the CPU does not lack it")


if __name__ == "__main__":
    run_tests()
