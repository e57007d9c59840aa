r"""Triton, for XPU devices that are NVIDIA cards.

Note [Inductor on an NVIDIA card]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Inductor generates kernels of Triton for "xpu" by itself, and ``torch_xpu_triton`` compiles
and launches them. But inductor takes XPU for a GPU of Intel's, and everything that it knows
of NVIDIA's cards is for "cuda". Here it is told for XPU: properties, what Triton can do, the
configurations that are tried, and how time is measured.
"""

import functools
from typing import Any, Callable, Optional

import torch
from torch._decomp.decompositions import embedding_dense_backward
from torch._dynamo.device_interface import XpuInterface
from torch._inductor import choices, config, decomposition, lowering, utils
from torch._inductor.codegen.common import (
    device_op_overrides_dict,
    get_device_op_overrides,
    register_backend_for_device,
)
from torch._inductor.codegen.cpp_wrapper_gpu import CppWrapperGpu
from torch._inductor.codegen.triton import TritonKernel, TritonOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.codegen.xpu.device_op_overrides import XPUDeviceOpOverrides
from torch._inductor.codegen.xpu.xpu_combined_scheduling import XPUCombinedScheduling
from torch._inductor.fx_passes import pad_mm
from torch._inductor.kernel.flex import flex_decoding
from torch._inductor.runtime.benchmarking import InductorBenchmarker, TritonBenchmarker
from torch._inductor.select_algorithm import TritonTemplateKernel
from torch._inductor.virtualized import V
from torch_xpu_triton._device import capability

from . import graphs, launch, private  # noqa: F401

registry = private.module("torch._inductor.template_heuristics.registry")
heuristics = private.module("torch._inductor.template_heuristics.triton")
_Properties: Any = torch._C._XpuDeviceProperties  # type: ignore[attr-defined]


class _Scheduling(XPUCombinedScheduling):
    def __init__(self, scheduler: Any) -> None:
        # Without a scheduler it is asked what it can do, maybe before there is a graph.
        for device in V.graph.device_idxs if scheduler else ():
            if "xpu" in V.graph.device_types and capability(device) is None:
                raise RuntimeError(
                    f"inductor compiles for the GPUs of this process, and xpu:{device} is "
                    "none. Leave it out with TORCH_XPU_MAPPING=GPU, or use the CPU device "
                    "alone with TORCH_XPU_MAPPING=CPU"
                )
        super().__init__(scheduler)


class _CppWrapper(CppWrapperGpu):
    @staticmethod
    def create(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "cpp_wrapper and AOTInductor cannot compile for a GPU under XPU: PyTorch's C++ "
            "launches kernels by Level Zero there. Use torch.compile without cpp_wrapper, or "
            "move an exported program to the CPU with "
            'torch.export.passes.move_to_device_pass(program, "cpu")'
        )


# -- properties ------------------------------------------------------------------------


def _index(device: Any) -> Optional[int]:
    return device if device is None or isinstance(device, int) else torch.device(device).index


def _architecture(device: Any = None) -> Any:
    r"""What Triton's target has: 90 for a compute capability of 9.0."""
    found = capability(_index(device))
    if found is None:
        return torch.xpu.get_device_capability(device)
    return 10 * found[0] + found[1]


def _threads(properties: Any) -> int:
    r"""How many threads a multiprocessor has, by the compute capability."""
    fewer = {"7.5": 1024, "8.6": 1536, "8.7": 1536, "8.9": 1536, "12.0": 1536, "12.1": 1536}
    return fewer.get(properties.version, 2048)


# The names that properties of "cuda" have. The count is SYCL's here, where
# gpu_subslice_count says what a GPU of Intel's would have.
_Properties.multi_processor_count = property(lambda it: it.max_compute_units)
_Properties.gpu_subslice_count = property(lambda it: it.max_compute_units)
_Properties.max_threads_per_multi_processor = property(_threads)
_Properties.major = property(lambda it: int(it.version.partition(".")[0]))
_Properties.regs_per_multiprocessor = 65536
_Properties.L2_cache_size = property(lambda it: it.global_mem_cache_size)
_Properties.warp_size = 32


# -- what is generated -------------------------------------------------------------------


class _Operations(XPUDeviceOpOverrides):
    r"""What the code calls for the current device: functions of C."""

    def set_device(self, device_idx: int) -> str:
        return f"torch._C._xpu_setDevice({device_idx})"

    def device_guard(self, device_idx: int) -> str:
        return f"torch._C._XpuDeviceGuard({device_idx})"


def _imports(kernel: Any) -> str:
    r"""What the source of each kernel begins with: see ``launch``."""
    return str(_imports_before(kernel)) + "import torch_xpu_runtime._inductor.launch\n"


def _draws_four_at_once() -> bool:
    r"""Whether a kernel draws random numbers four at once, as it does for "cuda"."""
    template = isinstance(V.kernel, TritonTemplateKernel)
    if template or not isinstance(V.kernel, TritonKernel) or config.align_random_eager:
        return False
    return V.kernel.triton_tensor_ndim() == 1


# -- what is compiled --------------------------------------------------------------------


def _falls_back_for_atomics(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16:
        return (capability() or (0, 0)) < (9, 0)
    return dtype in (torch.int64, torch.bool)


def _for_nvidia(flex: Callable[..., Any]) -> Callable[..., Any]:
    r"""A lowering of ``flex_attention``, which takes descriptors of tensors by default on
    XPU. Triton has them on every card, but by memory of its own on older ones."""

    @functools.wraps(flex)
    def lower(*args: Any) -> Any:
        *others, options, of_score, of_mask = args
        return flex(*others, {"USE_TMA": False, **options}, of_score, of_mask)

    return lower


def _at_least_16(count: int) -> int:
    r"""The rows of a product in ``flex_decoding``: tensor cores take 16."""
    return max(_next_power_of_2(count), 16)


# -- configurations ----------------------------------------------------------------------


class _Heuristics(heuristics.CUDAConfigHeuristic):
    r"""Those of "cuda". They ask ``torch.cuda`` for the capability."""


def _asks_xpu(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any) -> Any:
        before = torch.cuda.get_device_capability
        torch.cuda.get_device_capability = capability  # type: ignore[assignment]
        try:
            return method(*args)
        finally:
            torch.cuda.get_device_capability = before

    return call


for _name in ("attn_fwd", "attn_bwd", "decode"):
    _name = f"get_flex_{_name}_configs"
    setattr(_Heuristics, _name, _asks_xpu(getattr(heuristics.CUDAConfigHeuristic, _name)))


def _heuristics(self: Any, device_type: Optional[str] = "cuda") -> Any:
    return _Heuristics() if device_type == "xpu" else _heuristics_before(self, device_type)


def _exceeding(self: Any, *args: Any) -> Callable[[Any, int], bool]:
    r"""Tells of a configuration whether it needs more shared memory than a block can have.
    SYCL's local_mem_size is what it has without asking for more."""
    from triton.runtime import driver

    available = driver.active.utils.get_device_properties(torch.xpu.current_device())

    def exceeds(configuration: Any, size: int) -> bool:
        needed = self.get_shared_memory_estimation(configuration, size, *args)
        return bool(needed > available["max_shared_mem"])

    return exceeds


def _teraflops(dtype: torch.dtype, is_tf32: bool = False, **_others: Any) -> float:
    r"""What the card's tensor cores, or for float its others, can do, as Triton estimates it for
    ``torch.cuda``."""
    from triton.runtime import driver

    card = driver.active.utils.get_device_properties(torch.xpu.current_device())
    each = 512 if dtype.itemsize <= 2 else 256 if is_tf32 else 64  # of a quarter, in a cycle
    return float(4 * card["multiprocessor_count"] * card["sm_clock_rate"] * each * 1e-9)


# -- time ----------------------------------------------------------------------------------


def _benchmark(self: Any, call: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
    r"""Inductor's empties the cache with ``zero_``, Triton's by the driver."""
    if torch.device(kwargs.get("device_type") or "xpu").type != "xpu" or args:
        return _benchmark_before(self, call, *args, **kwargs)
    return TritonBenchmarker.benchmark_gpu(self, call, **kwargs)


get_device_op_overrides("cpu")  # which registers PyTorch's own
device_op_overrides_dict["xpu"] = _Operations()
TritonOverrides._can_use_4x_random = staticmethod(_draws_four_at_once)  # type: ignore[method-assign]
_imports_before = TritonKernel.gen_common_triton_imports.__func__
XpuInterface.get_compute_capability = staticmethod(_architecture)  # type: ignore[method-assign]
XpuInterface.raise_if_triton_unavailable = staticmethod(lambda device=None: None)  # type: ignore[method-assign]
TritonKernel.gen_common_triton_imports = classmethod(_imports)  # type: ignore[assignment,method-assign]

# Faster on a GPU of Intel's is PyTorch's operator; here that is the generated kernel.
_operator = torch.ops.aten.embedding_dense_backward.default
decomposition.decompositions[_operator] = embedding_dense_backward
for _module in (utils, lowering, decomposition):
    _module.needs_fallback_due_to_atomic_add_limitations = _falls_back_for_atomics
for _operator in (
    torch.ops.higher_order.flex_attention,
    torch.ops.higher_order.flex_attention_backward,
):
    lowering.lowerings[_operator] = _for_nvidia(lowering.lowerings[_operator])
_next_power_of_2 = flex_decoding.next_power_of_2
flex_decoding.next_power_of_2 = _at_least_16

utils.datasheet_tops = _teraflops
# It pads products of bfloat16 that need it on Intel's GPUs and on older cards.
pad_mm.torch = launch.With(  # type: ignore[assignment]
    torch,
    cuda=launch.With(torch.cuda, get_device_capability=capability),
    xpu=launch.With(torch.xpu, is_available=lambda: False),
)
for _key, _class in list(registry._TEMPLATE_HEURISTIC_REGISTRY.items()):
    if _key[1] == "cuda":
        registry._TEMPLATE_HEURISTIC_REGISTRY[(_key[0], "xpu", *_key[2:])] = _class
_heuristics_before = choices.InductorChoices.get_config_heuristics
choices.InductorChoices.get_config_heuristics = _heuristics  # type: ignore[method-assign]
heuristics.BaseConfigHeuristic._get_exceeding_shared_memory_checker = _exceeding  # type: ignore[assignment,method-assign]

_benchmark_before = InductorBenchmarker.benchmark_gpu
InductorBenchmarker.benchmark_gpu = _benchmark  # type: ignore[method-assign]
register_backend_for_device("xpu", _Scheduling, PythonWrapperCodegen, _CppWrapper)
