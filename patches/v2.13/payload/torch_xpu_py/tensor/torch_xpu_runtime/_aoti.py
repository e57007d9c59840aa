r"""Runs models that AOTInductor has compiled for the CPU on XPU tensors, where the memory of
the device is host memory."""

from typing import Any, List

import torch


def _over(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    r"""The tensor over another storage with the same bytes."""
    empty = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


class AOTIModelContainerRunnerXpu:
    r"""What ``torch._export.aot_load`` makes for ``"xpu"``: PyTorch's runner for the CPU,
    which gets the memory of the inputs, and whose outputs become XPU tensors. Nothing is
    copied. It raises NotImplementedError on other devices."""

    def __init__(
        self,
        model_so_path: str,
        num_models: int,
        device_str: str = "xpu",
        kernel_bin_dir: str = "",
    ) -> None:
        index = torch.device(device_str).index
        self._device = torch.xpu.current_device() if index is None else index
        try:
            self._host(torch.empty(0, device=f"xpu:{self._device}"))
        except RuntimeError as error:
            raise NotImplementedError(
                f"AOTInductor's models cannot be run on xpu:{self._device}: AOTInductor has "
                "kernels for the host only here, and the memory of this device is not host "
                "memory"
            ) from error
        self._runner = torch._C._aoti.AOTIModelContainerRunnerCpu(model_so_path, num_models)

    def run(self, inputs: List[torch.Tensor], stream_handle: Any = None) -> List[torch.Tensor]:
        torch.accelerator.current_stream(self._device).synchronize()
        outputs = self._runner.run([self._host(tensor) for tensor in inputs])
        return [self._on_device(tensor) for tensor in outputs]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    @staticmethod
    def _host(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "xpu":
            return tensor
        return _over(tensor, torch.xpu._host_alias_storage(tensor.untyped_storage()))

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = torch.xpu._device_alias_storage(tensor.untyped_storage(), self._device)
        return _over(tensor, storage)
