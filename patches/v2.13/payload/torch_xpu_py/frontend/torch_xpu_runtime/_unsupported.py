r"""Names that PyTorch wants from ``torch._C`` for XPU and that the runtime has nothing
for: each says why, and what to do instead."""

from typing import Any, NoReturn

_TRITON = (
    "This runtime has no static launcher of Triton kernels. Launch them by Triton, with "
    "torch._inductor.config.use_static_cuda_launcher = False"
)
_AOTI = (
    "Models that AOTInductor has compiled for XPU cannot be run by this runtime. "
    "Compile the model for CPU"
)


def _unsupported(reason: str) -> Any:
    def function(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(reason)

    return function


class StaticXpuLauncher:
    _load_kernel = staticmethod(_unsupported(_TRITON))
    _launch_kernel = staticmethod(_unsupported(_TRITON))


class AOTIModelContainerRunnerXpu:
    __init__ = _unsupported(_AOTI)
