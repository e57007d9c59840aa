r"""A user's elementwise function as a kernel, as ``torch.cuda.jiterator`` has it, in SYCL."""

import sys
from typing import Callable

import torch

_MOST = 8  # tensors, and results


class _JittedFunction:
    def __init__(self, code: str, by_reference: bool, num_outputs: int, **kwargs):
        from torch.cuda.jiterator import _CodeParser

        if not 1 <= num_outputs <= _MOST:
            raise ValueError(f"jiterator supports up to {_MOST} outputs, got {num_outputs}")
        self.code = code
        self.name = _CodeParser(code).function_name
        self.by_reference = by_reference
        self.num_outputs = num_outputs
        self.numbers = kwargs

    def __call__(self, *tensors: torch.Tensor, **kwargs):
        if not 1 <= len(tensors) <= _MOST:
            raise ValueError(f"jiterator supports 1 to {_MOST} tensor inputs, got {len(tensors)}")
        for name in kwargs:
            if name not in self.numbers:
                raise KeyError(f"{name} is not declared in function definition")
        torch.xpu.init()
        results = torch.ops.torch_xpu._call_user_function(
            self.name,
            self.code,
            tensors,
            list({**self.numbers, **kwargs}.values()),
            self.num_outputs,
            self.by_reference,
        )
        return results[0] if self.num_outputs == 1 else tuple(results)


def _create_jit_fn(code_string: str, **kwargs) -> Callable:
    r"""Makes a function of tensors on XPU from a C++ function of their elements.

    It is compiled by SYCL's run-time compiler when it is first called with tensors of a
    type, and kept as other kernels are. It takes tensors of any strides, broadcasts them
    and promotes their types, but has no gradient.

    Args:
        code_string (str): one or more templates of C++. The last is the function, and
            returns the element of the result. ``T`` is the tensors' type, or ``float``
            for half and bfloat16, and ``int`` for smaller integers and bool. SYCL's
            functions, such as ``exp``, need no prefix.
        kwargs (Dict, optional): numbers that the function has after the elements, with
            their defaults. They are given by name.

    Example::

        code = "template <typename T> T blend(T x, T y, T alpha) { return -x + alpha * y; }"
        blend = torch.xpu.jiterator._create_jit_fn(code, alpha=1.0)
        blend(torch.rand(3, device="xpu"), torch.rand(3, device="xpu"), alpha=3.14)
    """
    return _JittedFunction(code_string, False, 1, **kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs) -> Callable:
    r"""The same for a function that writes its results to its last arguments.

    Example::

        code = "template <typename T> void both(T x, T y, T& a, T& b) { a = x + y; b = x - y; }"
        both = torch.xpu.jiterator._create_multi_output_jit_fn(code, num_outputs=2)
        total, difference = both(torch.rand(3, device="xpu"), torch.rand(3, device="xpu"))
    """
    return _JittedFunction(code_string, True, num_outputs, **kwargs)


def install() -> None:
    """For a PyTorch that has no such module itself."""
    torch.xpu.jiterator = sys.modules["torch.xpu.jiterator"] = sys.modules[__name__]
