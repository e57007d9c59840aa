r"""The driver: the current device and stream of ``torch.xpu``, and NVIDIA's launcher.

See Note [Triton on an NVIDIA card].
"""

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import Benchmarker, GPUDriver

from ._device import capability

try:
    from triton.backends.nvidia import driver as nvidia
except ImportError:  # a Triton that was built for other devices
    nvidia = None


class _Cuda:
    r"""Functions of CUDA's driver. Those that fail raise RuntimeError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"CUDA's {name} failed with error {code}")


@functools.cache
def _cuda() -> _Cuda:
    return _Cuda()


@dataclass(frozen=True)
class _Card:
    r"""The card of a device: its context, and its index among those of CUDA."""

    context: int
    index: int

    @classmethod
    def of_stream(cls, native: int) -> "_Card":
        cuda, context, index = _cuda(), ctypes.c_void_p(), ctypes.c_int()
        cuda("cuStreamGetCtx", ctypes.c_void_p(native), ctypes.byref(context))
        cuda("cuCtxPushCurrent_v2", context)
        try:
            cuda("cuCtxGetDevice", ctypes.byref(index))
        finally:
            cuda("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return cls(context.value or 0, index.value)

    def enter(self) -> None:
        r"""Makes it the current one of this thread, for all that Triton asks of CUDA."""
        _cuda()("cuCtxSetCurrent", ctypes.c_void_p(self.context))


@functools.cache
def _card(device: int) -> _Card:
    import torch

    return _Card.of_stream(torch.xpu.current_stream(device).native_stream)  # type: ignore[attr-defined]


def native_of(queue: int) -> tuple[int, int, bool]:
    r"""Of the queue at an address, which PyTorch calls a raw stream of XPU: the stream of
    CUDA, the context of its card, and whether the next queue there is the same."""
    import torch

    device = torch.xpu.current_device()
    stream = torch.xpu.current_stream(device)
    if stream.sycl_queue != queue:
        stream = torch.xpu.get_stream_from_external(queue, device)
    native: int = stream.native_stream  # type: ignore[attr-defined]
    # The address of a queue of someone else may be that of another one later.
    return native, _Card.of_stream(native).context, stream.stream_id != queue


class _Launcher(nvidia.CudaLauncher if nvidia else object):  # type: ignore[misc]
    def __init__(self, source: Any, metadata: Any) -> None:
        import torch

        super().__init__(source, metadata)
        self._name = metadata.name
        self._on_native = torch._C._xpu_launchOnCuda  # type: ignore[attr-defined]

    def __call__(self, x: int, y: int, z: int, stream: int, *arguments: Any) -> None:
        launch = super().__call__
        self._on_native(stream, self._name, lambda native: launch(x, y, z, native, *arguments))


class _Utils:
    r"""NVIDIA's functions, for the card of a device."""

    def __init__(self) -> None:
        self._cuda = nvidia.CudaUtils()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cuda, name)

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> Any:
        card = _card(device)
        card.enter()
        return self._cuda.load_binary(name, binary, shared, card.index)

    def unload(self, module: int, device: int) -> None:
        r"""Gives back a module that ``load_binary`` loaded."""
        cuda = _cuda()
        cuda("cuCtxPushCurrent_v2", ctypes.c_void_p(_card(device).context))
        try:
            cuda("cuModuleUnload", ctypes.c_void_p(module))
        finally:
            cuda("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def get_device_properties(self, device: int) -> Any:
        return self._cuda.get_device_properties(_card(device).index)


class XpuDriver(GPUDriver):  # type: ignore[misc]
    # GPUDriver's own asks for torch.cuda.
    def __init__(self) -> None:
        import torch

        self.get_current_device = torch._C._xpu_getDevice  # a device is in use by now
        self.set_current_device = torch.xpu.set_device
        self.get_current_stream = torch._C._xpu_getCurrentRawStream
        self.get_device_capability = capability
        self.launcher_cls = _Launcher

    # When it is first used: processes that only compile may have no library of CUDA.
    @functools.cached_property
    def utils(self) -> _Utils:
        return _Utils()

    @staticmethod
    def is_active() -> bool:
        return nvidia is not None and capability() is not None

    def get_current_target(self) -> GPUTarget:
        r"""That of a card of NVIDIA: kernels of users ask whether it is "cuda"."""
        found = capability()
        assert found is not None
        return GPUTarget("cuda", 10 * found[0] + found[1], 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("xpu", self.get_current_device())

    def get_device_interface(self) -> Any:
        import torch

        return torch.xpu

    def map_python_to_cpp_type(self, ty: str) -> str:
        return str(nvidia.ty_to_cpp(ty))

    def get_benchmarker(self) -> Benchmarker:
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        r"""Memory that is larger than the card's cache."""
        import torch

        return torch.empty(256 << 20, dtype=torch.uint8, device="xpu")

    def clear_cache(self, cache: Any) -> None:
        import torch

        native = torch.xpu.current_stream(cache.device).native_stream  # type: ignore[attr-defined]
        address, size = ctypes.c_uint64(cache.data_ptr()), ctypes.c_size_t(cache.nbytes)
        _card(cache.device.index).enter()
        _cuda()("cuMemsetD8Async", address, ctypes.c_ubyte(0), size, ctypes.c_void_p(native))
