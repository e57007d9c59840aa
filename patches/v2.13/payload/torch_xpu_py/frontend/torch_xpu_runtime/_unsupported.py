r"""Names that ``torch.xpu`` wants from ``torch._C`` and that the runtime has nothing
for: each says why, and what to do instead."""

from typing import Any, NoReturn

_GRAPHS = (
    "XPU graphs are not supported: this runtime cannot capture a stream. Run the "
    "work without a graph"
)
_POOLS = (
    "Memory pools are not supported: the XPU allocator has one pool for each "
    "stream. Allocate without torch.xpu.use_mem_pool; torch.xpu.empty_cache() gives "
    "back what is free, and torch.xpu.change_current_allocator() takes another "
    "allocator for all memory"
)
_TRITON = (
    "Triton kernels cannot be launched: this runtime has no Triton. Use "
    'torch.compile(backend="aot_eager")'
)
_AOTI = (
    "Models that AOTInductor has compiled for XPU cannot be run by this runtime. "
    "Compile the model for CPU"
)


def _unsupported(reason: str) -> Any:
    def function(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(reason)

    return function


class _XPUGraph:
    __new__ = _unsupported(_GRAPHS)


class _XPUMemPool:
    __init__ = _unsupported(_POOLS)


class StaticXpuLauncher:
    _load_kernel = staticmethod(_unsupported(_TRITON))
    _launch_kernel = staticmethod(_unsupported(_TRITON))


class AOTIModelContainerRunnerXpu:
    __init__ = _unsupported(_AOTI)


def _xpu_isCurrentStreamCapturing() -> bool:
    return False  # since none can


_xpu_graph_pool_handle = _unsupported(_GRAPHS)
_xpu_beginAllocateCurrentThreadToPool = _unsupported(_POOLS)
_xpu_beginAllocateToPool = _unsupported(_POOLS)
_xpu_endAllocateToPool = _unsupported(_POOLS)
_xpu_releasePool = _unsupported(_POOLS)
