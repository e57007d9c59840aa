r"""The compiler: NVIDIA's, also for the target that inductor names by the device type."""

from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

try:
    from triton.backends.nvidia import compiler as nvidia
except ImportError:  # a Triton that was built for other devices
    nvidia = None


# Triton takes the only class of the module: the base must have no name here.
class XpuBackend(nvidia.CUDABackend if nvidia else BaseBackend):  # type: ignore[misc]
    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        # Intel's backend has the same name, and dictionaries as architectures.
        ours = target.backend == "xpu" and isinstance(target.arch, int)
        return nvidia is not None and ours

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.target = GPUTarget("cuda", target.arch, target.warp_size)

    def hash(self) -> Any:
        # What is in Triton's cache names its target, and others may not have this backend.
        return f"{super().hash()}-xpu"


if nvidia is None:
    XpuBackend.__abstractmethods__ = frozenset()  # it supports no target, but has to be there
