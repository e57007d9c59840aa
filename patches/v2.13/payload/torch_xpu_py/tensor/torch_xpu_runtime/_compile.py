r"""What ``torch.compile`` and ``torch.export`` have to be told about XPU.

Inductor is told when it is first imported. That has to be before it registers Triton for
XPU, and ``import torch`` cannot import it: that takes seconds. PyTorch has no entry point
that it calls then, so a finder looks at the names of imported modules.
"""

import sys
import warnings
from typing import Any, Optional, Sequence

import torch
from torch._subclasses.fake_impls import register_op_impl

from ._aoti import AOTIModelContainerRunnerXpu


class _Finder:
    r"""A finder of modules that finds none."""

    @classmethod
    def find_spec(
        cls, name: str, path: Optional[Sequence[str]] = None, target: object = None
    ) -> None:
        # Whatever compiles with inductor imports this module first.
        if name == "torch._inductor.compile_fx" and cls in sys.meta_path:
            sys.meta_path.remove(cls)
            try:
                from ._inductor import load

                load()
            except Exception as error:  # the CPU's code needs inductor too
                warnings.warn(
                    "torch.compile does not know XPU: torch_xpu_runtime._inductor was "
                    f"not loaded ({type(error).__name__}: {error}). Install the wheel "
                    "of torch_xpu_runtime again.",
                    stacklevel=2,
                )


def _attention_of_fake_tensors(
    mode: object, operator: object, query: torch.Tensor, *args: object, **kwargs: object
) -> Any:
    r"""PyTorch's own needs a build with XPU, and asserts without one."""
    if query.device.type == "xpu":
        return torch.ops.aten._fused_sdp_choice.default._op_dk(
            torch._C.DispatchKey.XPU, query, *args, **kwargs
        )
    return NotImplemented


def _fft_of_fake_tensors(
    mode: Any, operator: Any, tensor: torch.Tensor, *args: object, **kwargs: object
) -> Any:
    r"""The host computes it. PyTorch's own expects the strides that oneMKL gives on XPU."""
    if tensor.device.type != "xpu":
        return NotImplemented
    with mode:
        on_host = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu"
        )
        result = operator(on_host, *args, **kwargs)
        return torch.empty_strided(
            result.shape, result.stride(), dtype=result.dtype, device=tensor.device
        )


def install() -> None:
    r"""Tells them, inductor later."""
    sys.meta_path.insert(0, _Finder)
    torch._C._dynamo.guards._empty_strided_xpu = torch._C._xpu_emptyStrided
    torch._C._aoti.AOTIModelContainerRunnerXpu = AOTIModelContainerRunnerXpu
    register_op_impl(torch.ops.aten._fused_sdp_choice.default)(_attention_of_fake_tensors)
    register_op_impl(torch.ops.aten._fft_r2c.default)(_fft_of_fake_tensors)
