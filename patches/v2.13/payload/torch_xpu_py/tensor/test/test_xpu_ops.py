# Owner(s): ["module: intel"]
"""PyTorch's own samples of operators, modules and optimizers, on XPU and on the CPU.

What a sample does on the CPU it has to do on XPU: the same values, shapes, strides,
views, gradients and errors, and the same arguments afterwards, but for types that a kernel of the CPU lacks. The samples are
PyTorch's OpInfo, ModuleInfo and OptimizerInfo. A test is a scenario, an entry of these and
a dtype:

    Forward         results, first gradients, and for float64 and complex128 second ones
    Out             out= with tensors that fit, do not fit, have gaps, or another dtype
    Noncontiguous   Forward with inputs that are not contiguous
    Variants        the method, the operator, in-place variants and aliases
    Sparse          Forward with inputs of the sparse layouts
    Errors          what has to raise
    Module          forward, gradients and state, in training and evaluation
    Optimizer       parameters and state after some steps

Without TEST_SHARE=1 only a share of the tests is run, chosen by TEST_SEED.
xpu_expected.py names the tests that fail.
"""

import copy
import fnmatch
import functools
import os
import random
import re
import sys
import time
import unittest
import warnings
import zlib

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import (
    freeze_rng_state,
    instantiate_parametrized_tests,
    noncontiguous_like,
    parametrize,
    run_tests,
    subtest,
    TestCase,
)
from torch.testing._internal.opinfo.core import SampleInput
from xpu_expected import (
    EXPECTED,
    EXPECTED_WITH_KERNELS,
    EXPECTED_WITHOUT_KERNELS,
    OTHER_STRIDES_WITH_KERNELS,
)

SHARE = float(os.environ.get("TEST_SHARE", "0.005"))  # on host memory, and copied
# pytest's workers have to choose the same tests.
SEED = int(
    os.environ.get("TEST_SEED")
    or zlib.crc32(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(time.time())).encode())
)
REPEAT = f"TEST_SEED={SEED} chooses the same tests"
DEVICE = "xpu:0"
# On a GPU, or where the variable says so, the device computes itself: not the same bits.
KERNELS = os.environ.get("TORCH_XPU_KERNELS") == "1" or (
    torch.xpu.is_available() and torch.xpu.get_device_properties(0).type == "gpu"
)
EXPECTED = EXPECTED | (EXPECTED_WITH_KERNELS if KERNELS else EXPECTED_WITHOUT_KERNELS)
OTHER_STRIDES = OTHER_STRIDES_WITH_KERNELS if KERNELS else {}
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 4e-2}
TENSORS_ON_CPU = {"tensor_split"}  # their arguments, whatever the device of the input
STEPS = 4  # of an optimizer


# Placing samples on a device


def place(value, device):
    """A copy of a sample's value on the device, with the same strides and bits."""
    if isinstance(value, torch.Tensor):
        return place_tensor(value, device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(place(one, device) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(place(one, device) for one in value)
    if isinstance(value, dict):
        return {key: place(one, device) for key, one in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    if isinstance(value, torch.Generator):
        return torch.Generator(device).manual_seed(value.initial_seed())
    return value


@torch.no_grad()
def place_tensor(tensor, device):
    if tensor.is_conj():
        placed = place_tensor(tensor.detach().conj(), device).conj()
    elif tensor.is_neg():
        placed = torch._neg_view(place_tensor(torch._neg_view(tensor.detach()), device))
    elif (
        tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.is_nested
        or tensor.device.type == "meta"
    ):
        placed = tensor.detach().to(device, copy=True)
    else:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        whole = tensor.detach().as_strided((count,), (1,), 0).to(device, copy=True)
        placed = whole.as_strided(
            tensor.size(), tensor.stride(), tensor.storage_offset()
        ).detach()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(placed, tensor.requires_grad)
    return placed.requires_grad_(tensor.requires_grad)


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_of(one)]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors_of(one)]
    return []


def placed(op, sample, device):
    other = "cpu" if op.name in TENSORS_ON_CPU else device
    return place(sample.input, device), place(sample.args, other), place(sample.kwargs, other)


def is_lack(error):
    """Whether a kernel of the CPU lacks a type that XPU computes in float32."""
    return bool(re.search(r"not implemented for '(BFloat16|(Complex)?Half)'", str(error)))


def names_device(value):
    """Whether the value says on which device the results are."""
    if isinstance(value, (list, tuple)):
        return any(map(names_device, value))
    if isinstance(value, dict):
        return any(map(names_device, value.values()))
    return isinstance(value, (torch.Tensor, torch.device)) or value == "cpu"


def leaves_of(*values):
    return [tensor for tensor in tensors_of(values) if tensor.requires_grad]


# Scenarios: generators that do the same on each device, and yield what is compared.


class Gradients(tuple):
    """What autograd returns: it promises values and shapes, and no strides."""


def forward(op, sample, device):
    """The results, the gradients of what requires them, and the arguments afterwards."""
    given, args, kwargs = placed(op, sample, device)
    result = op(given, *args, **kwargs)
    yield result
    if op.name not in TENSORS_ON_CPU:
        yield tensors_of((given, args, kwargs))
    yield from gradients(
        sample.output_process_fn_grad(result),
        leaves_of(given, args, kwargs),
        device,
        second=op.supports_gradgrad,
    )


def gradients(result, inputs, device, *, second):
    outputs = [one for one in leaves_of(result) if one.layout == torch.strided]
    if not inputs or not outputs:
        return
    generator = torch.Generator().manual_seed(0)
    directions = [
        torch.randn(one.shape, dtype=torch.float64, generator=generator).to(
            device, one.dtype
        )
        for one in outputs
    ]
    second = second and outputs[0].dtype in (torch.float64, torch.complex128)
    first = torch.autograd.grad(
        outputs, inputs, directions, allow_unused=True, create_graph=second
    )
    yield Gradients(first)
    again = [
        one
        for one in leaves_of(first)
        if one.grad_fn is not None and one.layout == torch.strided
    ]
    if second and again:
        ones = [torch.ones_like(one) for one in again]
        yield Gradients(torch.autograd.grad(again, inputs, ones, allow_unused=True))


def noncontiguous(op, sample, device):
    return forward(op, sample.noncontiguous(), device)


@torch.no_grad()
def out(op, sample, device):
    given, args, kwargs = placed(op, sample, device)
    result = op(given, *args, **kwargs)
    if not tensors_of(result):
        return

    def same(tensor):
        return torch.full_like(tensor, 1)

    def too_large(tensor):
        return torch.ones((2, *tensor.shape), dtype=tensor.dtype, device=device)

    def empty(tensor):
        return torch.empty(0, dtype=tensor.dtype, device=device)

    def with_gaps(tensor):
        return noncontiguous_like(torch.ones_like(tensor))

    def other_dtype(tensor):
        return torch.ones_like(
            tensor, dtype=torch.float64 if tensor.dtype != torch.float64 else torch.int64
        )

    def other_device(tensor):
        return torch.ones_like(tensor, device="cpu")

    for make in (same, too_large, empty, with_gaps, other_dtype, other_device):
        if isinstance(result, torch.Tensor):
            target = make(result)
        else:
            target = type(result)(map(make, result)) if isinstance(result, list) else tuple(map(make, result))
        before = [one.data_ptr() for one in tensors_of(target)]
        if make is other_device and tensors_of(result)[0].device.type == "cpu":
            yield make.__name__, "raises"  # which the CPU has nothing to show for
            continue
        try:
            returned = op(given, *args, **kwargs, out=target)
        except Exception as error:
            if is_lack(error):
                raise
            yield make.__name__, "raises" if make is other_device else type(error)
            continue
        targets = tensors_of(target)
        yield (
            make.__name__,
            [one is other for one, other in zip(targets, tensors_of(returned))],
            [one.data_ptr() == was for one, was in zip(targets, before)],
            target if make is not other_device else None,
        )


def variants(op, sample, device):
    """Each form of the operator on inputs of its own."""
    forms = {
        "method": op.method_variant,
        "operator": op.operator_variant,
        "inplace": op.inplace_variant,
        "inplace operator": op.inplace_operator_variant,
    }
    for alias in op.aliases:
        forms |= {
            f"alias {alias.name}": alias.op,
            f"alias {alias.name} method": alias.method_variant,
            f"alias {alias.name} inplace": alias.inplace_variant,
        }
    for name, form in forms.items():
        if form is None:
            continue
        given, args, kwargs = placed(op, sample, device)
        inplace = "inplace" in name
        changed = given
        if inplace and isinstance(given, torch.Tensor):
            if given.requires_grad:
                changed = given.clone()
            before, version = changed.data_ptr(), changed._version
        try:
            result = form(changed, *args, **kwargs)
        except Exception as error:
            if is_lack(error):
                raise
            yield name, type(error)
            continue
        if inplace and isinstance(given, torch.Tensor):
            same = result is changed, changed.data_ptr() == before
            yield name, result, changed, same, changed._version - version
        else:
            yield name, result
        yield from gradients(
            sample.output_process_fn_grad(result),
            leaves_of(given, args, kwargs),
            device,
            second=False,
        )


def errors(op, wrong, device):
    sample = wrong.sample_input
    given, args, kwargs = placed(op, sample, device)
    try:
        op(given, *args, **kwargs)
        if device != "cpu":
            torch.xpu.synchronize()  # kernels raise what depends on values then
    except Exception as raised:
        yield type(raised), bool(re.search(wrong.error_regex, str(raised)))
    else:
        yield "did not raise"


def module(info, sample, device):
    """A module made on the CPU, copied to the device and run; and its state there."""
    made, inputs, parameters, training = sample
    made = copy.deepcopy(made).to(device)
    made.train(training)
    args, kwargs = place(inputs.args, device), place(inputs.kwargs, device)
    result = made(*args, **kwargs)
    yield result
    yield from gradients(
        result,
        [*leaves_of(args, kwargs), *made.parameters()],
        device,
        second=info.supports_gradgrad,
    )
    yield dict(made.state_dict())
    yield tensors_of((args, kwargs))


def optimizer(info, sample, device):
    """Parameters and state after some steps, and after the state was loaded."""
    dtype, given = sample
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape):
        # Muon takes matrices only.
        return torch.randn(shape, dtype=dtype, generator=generator).to(device)

    shapes = [(3, 4), (4, 2)] if info.name == "Muon" else [(3, 4), (4,), (), (2, 3, 2)]
    parameters = [torch.nn.Parameter(numbers(*shape)) for shape in shapes]
    kwargs = place(given.kwargs, device)
    made = info.optim_cls(parameters, **kwargs)
    for step in range(STEPS):
        if step == STEPS // 2:
            state = copy.deepcopy(made.state_dict())
            made = info.optim_cls(parameters, **kwargs)
            made.load_state_dict(state)
        for one in parameters:
            one.grad = numbers(*one.shape)
            if info.only_supports_sparse_grads:
                one.grad = one.grad.to_sparse()

        def closure():
            loss = sum((one * one).abs().sum() for one in parameters)
            for one in parameters:
                one.grad = None
            loss.backward()
            return loss

        made.step(closure if info.step_requires_closure else None)
        yield [one.detach() for one in parameters]
    yield [
        {key: value for key, value in made.state[one].items() if key != "step"}
        for one in parameters
    ]


# Samples of a test, on the CPU


def op_samples(op, dtype):
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    return op.sample_inputs("cpu", dtype, requires_grad=grad)


def out_samples(op, dtype):
    return op.sample_inputs("cpu", dtype)


def sparse_samples(op, dtype):
    for layout in ("coo", "csr", "csc", "bsr", "bsc"):
        if getattr(op, f"supports_sparse_{layout}" if layout != "coo" else "supports_sparse"):
            kind = getattr(torch, f"sparse_{layout}")
            try:
                yield from op.sample_inputs_sparse(kind, "cpu", dtype)
            except NotImplementedError:
                pass


def error_samples(op, dtype):
    return op.error_inputs("cpu")


def module_samples(info, dtype):
    for training in (True, False):
        for one in info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        ):
            if one.forward_input is None:
                continue
            given = one.constructor_input
            with freeze_rng_state():
                torch.manual_seed(0)
                made = info.module_cls(*given.args, **given.kwargs).to("cpu", dtype)
            yield made, one.forward_input, None, training


def optimizer_samples(info, dtype):
    for one in info.optim_inputs_func("cpu"):
        for kind in ({}, {"foreach": True}, {"fused": True}, {"differentiable": True}):
            name = next(iter(kind), None)
            supported = name is None or name in info.supported_impls
            if name == "fused":
                supported = supported and "cpu" in info.supports_fused_on
            if supported and not (name == "differentiable"):
                again = copy.copy(one)
                again.kwargs = one.kwargs | kind
                yield dtype, again


# The tests

KINDS = (
    ("Forward", forward, op_samples),
    ("Out", out, out_samples),
    ("Noncontiguous", noncontiguous, op_samples),
    ("Variants", variants, op_samples),
    ("Sparse", forward, sparse_samples),
)


def can_be(kind, op):
    if kind == "Out":
        return op.supports_out
    if kind == "Variants":
        return bool(
            op.method_variant or op.operator_variant or op.inplace_variant or op.aliases
        )
    if kind == "Sparse":
        return op.supports_sparse or op.supports_sparse_csr or op.supports_sparse_bsr
    return True


def short(dtype):
    return str(dtype).removeprefix("torch.")


def op_name(op):
    return (op.name + ("_" + op.variant_test_name if op.variant_test_name else "")).replace(
        ".", "_"
    )


def every_test():
    """(class, name, scenario, samples, entry, dtype) of each."""
    for op in op_db:
        name = op_name(op)
        for dtype in sorted(op.dtypes, key=str):
            for kind, scenario, samples in KINDS:
                if can_be(kind, op):
                    yield kind, f"{name}_{short(dtype)}", scenario, samples, op, dtype
        if op.error_inputs_func is not None:
            yield "Errors", name, errors, error_samples, op, None
    for info in module_db:
        for dtype in info.dtypes:
            name = f"{info.formatted_name}_{short(dtype)}"
            yield "Module", name, module, module_samples, info, dtype
    for info in optim_db:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            name = f"{info.name}_{short(dtype)}"
            yield "Optimizer", name, optimizer, optimizer_samples, info, dtype


ALL = list(every_test())
if SHARE < 1:
    CHOSEN = random.Random(SEED).sample(ALL, max(1, int(SHARE * len(ALL))))
    print(f"{len(CHOSEN)} of {len(ALL)} tests: {REPEAT}", file=sys.stderr)
else:
    CHOSEN = ALL


def reason_of(name, reasons=EXPECTED):
    return next(
        (why for pattern, why in reasons.items() if fnmatch.fnmatch(name, pattern)), None
    )


def run(scenario, entry, sample, device, seed=0):
    """What the scenario yields, and the error that ended it, if any."""
    torch.manual_seed(seed)
    results = []
    try:
        results.extend(scenario(entry, sample, device))
    except Exception as error:
        return results, error
    return results, None


def describe(tensor):
    """What of a tensor has to be the same, beside its device and its values."""
    strided = tensor.layout == torch.strided and not tensor.is_nested
    return {
        "dtype": tensor.dtype,
        "layout": tensor.layout,
        "shape": tensor.shape if not tensor.is_nested else None,
        "strides": tensor.stride() if strided else None,
        "offset": tensor.storage_offset() if strided else None,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "requires_grad": tensor.requires_grad,
        "is a view": tensor._is_view(),
    }


def widened(tensor):
    """The same values, of a dtype that the CPU compares."""
    if tensor.is_quantized or tensor.itemsize > 2 or not tensor.is_floating_point() | tensor.is_complex():
        return tensor if tensor.dtype != torch.complex32 else tensor.to(torch.complex64)
    return tensor.to(torch.float32)


def shown(sample):
    try:
        return sample.summary()
    except Exception:  # it does not know all kinds of samples
        return str(sample)


class Samples:
    """What the tests have in common; each class below has those of one scenario."""

    def check(self, scenario, samples, entry, dtype):
        name = self.id().partition(".")[2]
        why = reason_of(name)
        self.compares_strides = reason_of(name, OTHER_STRIDES) is None
        if why and why.startswith("crash:"):
            self.skipTest(f"expected failure: {why}")
        try:
            self.compare_all(scenario, samples, entry, dtype)
        except unittest.SkipTest:
            raise
        except Exception as error:
            if why is None:
                raise AssertionError(f"{error}\n{REPEAT}") from error
            self.skipTest(f"expected failure: {why}")
        if why is not None:
            self.fail("it passes now: take it out of xpu_expected.py")

    def compare_all(self, scenario, samples, entry, dtype):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                samples = list(samples(entry, dtype))
            except Exception as error:
                self.skipTest(f"the samples cannot be made: {type(error).__name__}")
            if not samples:
                self.skipTest("there are no samples")
            passed = sum(self.compare(scenario, entry, one, number) for number, one in enumerate(samples))
        if not passed:
            self.skipTest("the CPU raises an error for each sample")

    def compare(self, scenario, entry, sample, number):
        """Whether the CPU can do it; fails if XPU does something else."""
        self.is_operator = isinstance(sample, SampleInput)
        self.moves = not self.is_operator or names_device(
            [sample.input, sample.args, sample.kwargs]
        )
        expected, cpu_error = run(scenario, entry, sample, "cpu")
        actual, xpu_error = run(scenario, entry, sample, DEVICE)
        where = f"sample {number}: {shown(sample)}"
        if is_lack(cpu_error):
            return False
        if cpu_error is None and xpu_error is not None:
            raise AssertionError(f"{where}: on XPU: {xpu_error}") from xpu_error
        if cpu_error is not None and xpu_error is None:
            self.fail(f"{where}: XPU does not raise: {cpu_error}")
        self.assertIs(type(cpu_error), type(xpu_error), f"{where}: {cpu_error}; on XPU: {xpu_error}")
        self.assertEqual(len(expected), len(actual), where)
        try:
            self.same(actual, expected)
        except AssertionError as error:
            again = functools.partial(run, scenario, entry, sample, "cpu", seed=1)
            if not self.random(entry, expected, again):
                raise AssertionError(f"{where}: {error}") from error
            self.same(actual, expected, values=False)
        return cpu_error is None

    def random(self, entry, results, again):
        """Whether the values depend on the seed, or on nothing, on the CPU too."""
        if "empty" in entry.name:
            return True
        try:
            self.same(again()[0], results)
        except AssertionError:
            return True
        return False

    def same(self, actual, expected, *, values=True, strides=True):
        if isinstance(expected, torch.Tensor):
            self.same_tensor(actual, expected, values, strides)
        elif isinstance(expected, (list, tuple)):
            self.assertIs(type(actual), type(expected))
            self.assertEqual(len(actual), len(expected))
            strides = strides and not isinstance(expected, Gradients)
            for one, other in zip(actual, expected):
                self.same(one, other, values=values, strides=strides)
        elif isinstance(expected, dict):
            self.assertEqual(list(actual), list(expected))
            for key in expected:
                self.same(actual[key], expected[key], values=values)
        elif isinstance(expected, torch.device):
            self.assertEqual(actual.type, "xpu" if self.moves else expected.type)
        elif values or not isinstance(expected, (int, float, complex)):
            self.assertEqual(actual, expected)

    def same_tensor(self, actual, expected, values, strides):
        on = torch.device(DEVICE) if expected.device.type == "cpu" else expected.device
        # without a device among the arguments the result may be on the CPU
        self.assertIn(actual.device, (on,) if self.moves else (on, expected.device))
        mine, theirs = describe(actual), describe(expected)
        if not self.is_operator:  # modules may take other operators there
            mine["is a view"] = theirs["is a view"]
        if not (strides and self.compares_strides):
            mine |= {key: theirs[key] for key in ("strides", "offset", "is a view")}
        if mine != theirs:
            differ = [f"{key} {mine[key]}, not {theirs[key]}" for key in mine if mine[key] != theirs[key]]
            self.fail("; ".join(differ))
        if values and expected.device.type == "cpu":
            most = TOLERANCE.get(expected.dtype) if KERNELS else None
            actual, expected = (widened(one.detach().cpu()) for one in (actual, expected))
            if expected.layout != torch.strided or not torch.equal(actual, expected):
                self.assertEqual(actual, expected, atol=most, rtol=most)


def make_class(kind):
    @unittest.skipIf(torch.xpu.device_count() == 0, "there is no XPU device")
    @parametrize(
        "scenario,samples,entry,dtype",
        [subtest(one[2:], name=one[1]) for one in CHOSEN if one[0] == kind],
    )
    def test(self, scenario, samples, entry, dtype):
        self.check(scenario, samples, entry, dtype)

    made = type(f"Test{kind}", (Samples, TestCase), {"test": test, "__module__": __name__})
    instantiate_parametrized_tests(made)
    return made


for kind in dict.fromkeys(one[0] for one in CHOSEN):
    globals()[f"Test{kind}"] = make_class(kind)


class TestExpectedFailures(TestCase):
    def test_each_is_a_test(self):
        names = [f"Test{one[0]}.test_{one[1]}" for one in ALL]
        for pattern in EXPECTED:
            self.assertTrue(fnmatch.filter(names, pattern), pattern)


if __name__ == "__main__":
    run_tests()
