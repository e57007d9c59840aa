r"""Inductor's C++ backend, for XPU devices whose memory is host memory.

Note [Inductor on host memory]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The kernels that inductor generates for the CPU take raw pointers. SYCL's CPU device has
host memory, so they run on its tensors too, once the stream is idle that is current.
Inductor's registry takes the C++ scheduling for "xpu", and keeps what was registered
before its own choice, Triton. This module has to be imported before inductor compiles:
``_compile.py`` sees to that.
"""

import functools
import operator
import os
from typing import Any, Callable

import torch
from torch._inductor import config, ir, scheduler
from torch._inductor.codegen.common import register_backend_for_device
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import (
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
)
from torch._inductor.kernel.flex import flex_cpu
from torch._inductor.lowering import lowerings
from torch._inductor.utils import device_need_guard, GPU_TYPES
from torch._inductor.virtualized import V

from . import advice


def wait_for_stream(device: int) -> None:
    r"""Waits until the current stream of a device is idle.

    Generated code calls it before each kernel. It raises RuntimeError where the device's
    memory is not host memory: code from inductor's cache may have been compiled for
    another device.
    """
    _check_host_memory(device)
    torch.accelerator.current_stream(device).synchronize()


@functools.cache
def _check_host_memory(device: int) -> None:
    storage = torch.empty(1, dtype=torch.uint8, device=f"xpu:{device}").untyped_storage()
    try:
        torch.xpu._host_alias_storage(storage)  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise RuntimeError(
            f"inductor cannot compile for xpu:{device}: it has kernels for the host only, "
            f"and the memory of this device is not host memory. {advice(device)}"
        ) from error


class _Scheduling(CppScheduling):
    r"""It collects the loops of several nodes for one kernel. Where streams or events
    are used, each kernel has to be called between the operations that are around it."""

    @functools.cached_property
    def _uses_streams(self) -> bool:
        assert self.scheduler is not None
        return self.scheduler._has_multi_stream_nodes() or any(
            node.get_device() is None for node in self.scheduler.nodes
        )

    def ready_to_flush(self) -> bool:
        if self._uses_streams and V.graph.cpp_wrapper:
            raise RuntimeError("cpp_wrapper knows no streams or events of XPU")
        return super().ready_to_flush() or self._uses_streams


class _Wrapper:
    r"""What differs in code that calls C++ kernels with XPU tensors."""

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, device: Any, **kwargs: Any
    ) -> None:
        if device.type == "xpu":
            _check_host_memory(device.index)
            self.writeline(f"wait_for_stream({device.index}){self.ending}")  # type: ignore[attr-defined]
            # Written as on the CPU: after the wait the pointers are all it takes.
            device = torch.device("cpu")
        super()._generate_kernel_call_helper(  # type: ignore[misc]
            kernel_name, call_args, device=device, **kwargs
        )


class _SubgraphWrapper(_Wrapper, SubgraphPythonWrapperCodegen):
    pass


class _GraphWrapper(_Wrapper, PythonWrapperCodegen):
    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return _SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return _GraphWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.imports.writeline("from torch_xpu_runtime._inductor.host import wait_for_stream")


class _CppWrapper(_Wrapper, CppWrapperCpu):
    r"""Of ``cpp_wrapper``: C++ also calls the kernels and the operators."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        return _CppWrapper()

    @staticmethod
    def get_device_include_path_jit(device: str) -> str:
        return CppWrapperCpu.get_device_include_path_jit("cpu")

    def write_header(self) -> None:
        if V.graph.aot_mode:
            raise RuntimeError(
                "AOTInductor cannot compile for XPU: move the exported program to the CPU "
                'with torch.export.passes.move_to_device_pass(program, "cpu")'
            )
        for device in V.graph.device_idxs:  # of a cache, for another device
            self.header.writeline(
                f"import torch_xpu_runtime._inductor.host as xpu; xpu._check_host_memory({device})"
            )
        super().write_header()
        self.header.splice(_CPP_HEADER)

    def generate_extern_kernel_out(self, node: ir.ExternKernelOut) -> None:
        if not self._call_operator(node, []):
            super().generate_extern_kernel_out(node)

    def generate_extern_kernel_alloc(self, node: ir.ExternKernelAlloc) -> None:
        if not self._call_operator(node, [node]):
            super().generate_extern_kernel_alloc(node)

    def generate_scatter_fallback(self, node: ir.ScatterFallback) -> None:
        x, *tensors = node.inputs
        dim, *value = node.constant_args
        if not self._call_operator(node, [], [x, dim, *tensors, *value]):
            super().generate_scatter_fallback(node)

    def _call_operator(
        self, node: Any, outputs: list[Any], given: list[Any] | None = None
    ) -> bool:
        r"""Writes the call, unless it is for another device. There are no outputs of an
        operator that writes to its arguments."""
        operator, device = node.op_overload, node.get_device()
        if operator is None or device is None or device.type != "xpu":
            return False
        arguments = given or [*node.inputs, *node.constant_args]
        for argument in operator._schema.arguments[len(arguments) :]:
            default = node if argument.is_out else argument.default_value
            arguments.append(node.kwargs.get(argument.name, default))
        names = [output.get_name() for output in outputs]
        self.generate_fallback_kernel_with_runtime_lookup_boxed(
            operator, arguments, names, outputs
        )
        return True

    def generate_fallback_kernel(self, node: ir.FallbackKernel) -> None:
        operator, device = node.op_overload, node.get_device()
        if device is None or device.type != "xpu":
            super().generate_fallback_kernel(node)
            return
        if hasattr(node, "codegen_outputs"):  # since PyTorch 2.14
            outputs = node.codegen_outputs()
        else:
            outputs = node.outputs or node.mutation_outputs
        self.generate_fallback_kernel_with_runtime_lookup(
            node.get_name(),
            node.python_kernel_name,
            lambda: [*node.codegen_args(), *node.codegen_kwargs()],
            operator,
            node.export_extern_kernel_node(),
            outputs,
        )


_CPP_HEADER = """
#include <c10/core/DeviceGuard.h>

struct AOTIXpuGuard : c10::DeviceGuard {
  explicit AOTIXpuGuard(int device) : c10::DeviceGuard({c10::kXPU, c10::DeviceIndex(device)}) {}
};
#define aoti_torch_xpu_view_dtype aoti_torch_cpu_view_dtype

static void wait_for_stream(int device) {
  const c10::impl::VirtualGuardImpl guard(c10::kXPU);
  guard.synchronizeStream(guard.getStream({c10::kXPU, c10::DeviceIndex(device)}));
}
"""


def _of_contiguous(lowering: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(lowering)
    def lower(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None and x.get_device().type == "xpu":
            x = ir.ExternKernel.require_contiguous(x)
        return lowering(x, dim, keepdim)

    return lower


def _has_flex_attention() -> bool:
    return torch.cpu._is_avx2_supported() and os.getenv("ATEN_CPU_CAPABILITY") != "default"


def _on_host(lowering: Callable[..., Any]) -> Callable[..., Any]:
    r"""The lowering of ``flex_attention``, which takes the C++ template for XPU too."""

    @functools.wraps(lowering)
    def lower(query: Any, *args: Any) -> Any:
        if query.get_device().type != "xpu":
            return lowering(query, *args)
        for user in V.graph.current_node.users:
            if user.target is not operator.getitem or user.args[1] != 0:
                raise NotImplementedError(
                    "flex_attention for XPU is compiled for inference, and returns no "
                    "logsumexp and no maximum, as for the CPU. Call it under "
                    "torch.no_grad(), or without torch.compile"
                )
        *others, options, of_score, of_mask = args
        # On devices other than the CPU this is True wherever gradients may be wanted.
        options = {**options, "OUTPUT_LOGSUMEXP": False}
        return flex_cpu.lower_cpu(query, *others, options, of_score, of_mask)

    return lower


def _is_compiled_for_host(node: scheduler.BaseSchedulerNode) -> bool:
    device = node.get_device()
    return device is not None and device.type in ("cpu", "xpu")


def _needs_guard(device: str) -> bool:
    return device == "xpu" or device_need_guard(device)


GPU_TYPES.remove("xpu")
scheduler.device_need_guard = _needs_guard
scheduler.BaseSchedulerNode.is_cpu = _is_compiled_for_host  # type: ignore[method-assign]
config.xpu_backend = "cpp"  # type: ignore[assignment]
for _operator in (torch.ops.aten.argmax.default, torch.ops.aten.argmin.default):
    lowerings[_operator] = _of_contiguous(lowerings[_operator])
_operator = torch.ops.higher_order.flex_attention
lowerings[_operator] = _on_host(lowerings[_operator])
flex_cpu.check_cpu_supported = _has_flex_attention
register_backend_for_device("xpu", _Scheduling, _GraphWrapper, _CppWrapper)
