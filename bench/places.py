"""Where each operator of PyTorch's OpInfo runs on a device that uses kernels, in Markdown.

    TORCH_XPU_KERNELS=1 python bench/places.py

It calls each with some of PyTorch's samples of float, or of another type where it takes none,
and its gradient. What has an operator of its own name for XPU is a kernel, what is made of
others is composed, and what calls an operator that runs on the host is listed with it. To read a
number that the device has computed, as for a result's size, is none of these.
"""

import contextlib
import itertools
import warnings
from collections import defaultdict

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

SAMPLES = 4  # of an operator
TYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)


class Called(TorchDispatchMode):
    """The operators that are called below autograd."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if isinstance(function, torch._ops.OpOverload):
            self.names.add(function.name())
        return function(*args, **(kwargs or {}))


def on_xpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("xpu").requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(on_xpu, value))
    if isinstance(value, dict):
        return {key: on_xpu(one) for key, one in value.items()}
    return torch.device("xpu") if value == "cpu" or value == torch.device("cpu") else value


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value] if value.requires_grad else []
    many = list(value.values()) if isinstance(value, dict) else value
    return [one for each in many for one in leaves(each)] if isinstance(many, (list, tuple)) else []


def works(op, sample):
    """Calls the operator and its gradient; whether it takes the sample."""
    with contextlib.suppress(Exception):  # the tests say which do not, and why
        call(op, sample)
        return True
    return False


def call(op, sample):
    given, args, kwargs = (on_xpu(one) for one in (sample.input, sample.args, sample.kwargs))
    result = sample.output_process_fn_grad(op(given, *args, **kwargs))
    outputs, inputs = leaves(result), leaves([given, *args, *kwargs.values()])
    if outputs and inputs:
        ones = [torch.ones_like(one) for one in outputs]
        torch.autograd.grad(outputs, inputs, ones, allow_unused=True)


def place(op):
    """Kernel, composed, or the operators that run on the host; None if no sample works."""
    dtype = next((one for one in TYPES if one in op.dtypes), None)
    grad = dtype in (torch.float32, torch.complex64) and op.supports_autograd
    torch.xpu.reset_fallback_statistics()
    with Called() as called:
        samples = op.sample_inputs("cpu", dtype, requires_grad=grad) if dtype else ()
        worked = [works(op, sample) for sample in itertools.islice(samples, SAMPLES)]
    if not any(worked):
        return None
    fallbacks = torch.xpu.fallback_statistics().keys()
    host = sorted(name.removeprefix("aten::") for name in fallbacks)
    name = op.name.split(".")[-1]
    own = {op.aten_name, f"_{op.aten_name}", f"{op.aten_name}_", name, f"{name}_"}
    kernels = [
        name
        for name in called.names
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "XPU")
        and name.partition("::")[2].partition(".")[0] in own
    ]
    return host or ("kernel" if kernels else "composed")


def main():
    warnings.simplefilter("ignore")
    found = defaultdict(list)
    hosts = {}
    for op in op_db:
        name = op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")
        where = place(op)
        if isinstance(where, list):
            hosts[name] = where
        elif where:
            found[where].append(name)
    for where, title in (("kernel", "Kernels"), ("composed", "Composed of others")):
        print(f"**{title}** ({len(found[where])}): {', '.join(found[where])}.\n")
    print(f"**On the host** ({len(hosts)}), for these operators:\n")
    print("| operator | what of it runs on the host |\n|---|---|")
    for name, names in hosts.items():
        print(f"| {name} | {', '.join(names)} |")


if __name__ == "__main__":
    main()
