r"""What is private to PyTorch and used by ``host``, ``gpu``, ``graphs`` and ``launch``, each with the reason.

``test_xpu_private.py`` looks for each name in the PyTorch that is installed, and in the
rooms for names that are not here.
"""

import importlib
from typing import Any, Dict

MOVED = {"torch._inductor.template_heuristics": "torch._inductor.heuristics.template"}  # in 2.14


def module(name: str) -> Any:
    r"""A module by its name in 2.13, wherever it is now."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        for before, now in MOVED.items():
            if name.startswith(before):
                return importlib.import_module(name.replace(before, now))
        raise


HOST: Dict[str, str] = {
    "torch._inductor.codegen.common:register_backend_for_device": "public: takes our backends",
    "torch._inductor.utils:GPU_TYPES": "what is in it needs Triton, and is compiled with a GPU "
    "in mind",
    "torch._inductor.config:xpu_backend": "what asks for it keeps loops for Triton otherwise",
    "torch._inductor.scheduler:BaseSchedulerNode.is_cpu": "the scheduler keeps what it does "
    "with loops for Triton from nodes that the C++ backend compiles, and asks this",
    "torch._inductor.scheduler:device_need_guard": "code for devices that are not in GPU_TYPES "
    "sets neither device nor stream",
    "torch._inductor.utils:device_need_guard": "what the scheduler asks for other devices",
    "torch._inductor.scheduler:Scheduler._has_multi_stream_nodes": "whether a graph has nodes "
    "on several streams",
    "torch._inductor.codegen.cpp:CppScheduling.ready_to_flush": "when it is to write a kernel",
    "torch._inductor.lowering:lowerings": "those of argmax and argmin over several dimensions: "
    "what gives the index in another memory layout than the contiguous is for the CPU and "
    "Triton alone. That of flex_attention: the CPU's is for the CPU alone",
    "torch._inductor.kernel.flex.flex_cpu:lower_cpu": "the lowering of flex_attention in C++",
    "torch._inductor.kernel.flex.flex_cpu:check_cpu_supported": "it refuses the CPU too where "
    "torch.xpu is available",
    "torch._inductor.ir:ExternKernel.require_contiguous": "for argmax and argmin",
    "torch._inductor.ir:ExternKernelOut": "a node that calls an operator, with out=",
    "torch._inductor.ir:ExternKernelAlloc": "one that calls an operator without",
    "torch._inductor.ir:FallbackKernel": "one with several results",
    "torch._inductor.ir:ScatterFallback": "one in place",
    "torch._inductor.virtualized:V": "the graph that is compiled",
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen._generate_kernel_call_helper": "it "
    "writes the calls of kernels, and knows XPU as a device with Triton",
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.create": "makes our class",
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.write_header": "to import the wait",
    "torch._inductor.codegen.wrapper:SubgraphPythonWrapperCodegen": "the same in torch.cond",
    **{
        f"torch._inductor.codegen.cpp_wrapper_cpu:CppWrapperCpu.{name}": "cpp_wrapper calls "
        "functions of C for each device, which a build without XPU has not got. Here "
        "operators are called by the dispatcher"
        for name in (
            "create",
            "generate_extern_kernel_alloc",
            "generate_extern_kernel_out",
            "generate_fallback_kernel",
            "generate_fallback_kernel_with_runtime_lookup",
            "generate_fallback_kernel_with_runtime_lookup_boxed",
            "generate_scatter_fallback",
            "get_device_include_path_jit",
            "write_header",
        )
    },
}

GPU: Dict[str, str] = {
    "torch._inductor.codegen.common:register_backend_for_device": "public: takes our backends",
    "torch._decomp.decompositions:embedding_dense_backward": "inductor takes the operator for "
    "XPU in its place",
    "torch._inductor.decomposition:decompositions": "the table that this is put into",
    "torch._dynamo.device_interface:XpuInterface.get_compute_capability": "a dictionary, where "
    "Triton's target has a number for a card of NVIDIA",
    "torch._dynamo.device_interface:XpuInterface.raise_if_triton_unavailable": "it asks for "
    "Intel's backend",
    "torch._inductor.config:use_static_cuda_launcher": "a build without XPU has no launcher for "
    "Intel's GPUs",
    "torch._inductor.codegen.common:device_op_overrides_dict": "what code calls for the current "
    "device: here functions of C",
    "torch._inductor.codegen.common:get_device_op_overrides": "it fills that table",
    "torch._inductor.codegen.xpu.device_op_overrides:XPUDeviceOpOverrides": "PyTorch's own",
    "torch._inductor.codegen.triton:TritonKernel.gen_common_triton_imports": "so that a process "
    "that compiles a kernel loads the room `launch`",
    "torch._inductor.codegen.cpp_wrapper_gpu:CppWrapperGpu.create": "refused for XPU",
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen": "as PyTorch registers it for XPU",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling:XPUCombinedScheduling": "as PyTorch "
    "registers it for XPU; here it refuses devices that are no GPUs",
    "torch._inductor.codegen.triton:TritonOverrides._can_use_4x_random": "for cuda alone, and "
    "four times as fast",
    "torch._inductor.select_algorithm:TritonTemplateKernel": "kernels that cannot do that",
    "torch._inductor.virtualized:V": "the graph that is compiled",
    "torch._inductor.utils:datasheet_tops": "what a card can do in a second: it knows few, and "
    "Triton is asked for cuda alone. Padding of products depends on it",
    "torch._inductor.fx_passes.pad_mm:torch": "where torch.xpu is available, it pads as on cards "
    "before compute capability 9.0",
    **{
        f"torch._inductor.{module}:needs_fallback_due_to_atomic_add_limitations": "bfloat16 "
        "falls back on XPU, and has atomics on a card since compute capability 9.0"
        for module in ("utils", "lowering", "decomposition")
    },
    "torch._inductor.lowering:lowerings": "those of flex_attention take descriptors of tensors "
    "on XPU",
    "torch._inductor.kernel.flex.flex_decoding:next_power_of_2": "it gives the rows of a "
    "product, of which one is enough on XPU",
    "torch._inductor.template_heuristics.registry:_TEMPLATE_HEURISTIC_REGISTRY": "the "
    "configurations that max_autotune tries, by device type",
    "torch._inductor.choices:InductorChoices.get_config_heuristics": "those of convolutions and "
    "flex_attention",
    **{
        f"torch._inductor.template_heuristics.triton:CUDAConfigHeuristic.{name}": "they ask "
        "torch.cuda for the capability"
        for name in (
            "get_flex_attn_fwd_configs",
            "get_flex_attn_bwd_configs",
            "get_flex_decode_configs",
        )
    },
    "torch._inductor.template_heuristics.triton:BaseConfigHeuristic."
    "_get_exceeding_shared_memory_checker": "it takes SYCL's local_mem_size for the limit",
    "torch._inductor.template_heuristics.triton:BaseConfigHeuristic."
    "get_shared_memory_estimation": "what it compares",
    "torch._inductor.runtime.benchmarking:InductorBenchmarker.benchmark_gpu": "it empties the "
    "cache with zero_, which may run on the host",
    "torch._inductor.runtime.benchmarking:TritonBenchmarker.benchmark_gpu": "taken instead",
}

LAUNCH: Dict[str, str] = {
    "torch._inductor.utils:GPU_KERNEL_BIN_EXTS": "the file of a compiled kernel: a cubin",
    "torch._inductor.runtime.static_triton_launcher:StaticallyLaunchedCudaKernel": "what a "
    "kernel needs to be launched by inductor itself, also from the cache",
    "torch._inductor.runtime.static_triton_launcher:statically_launched_kernel_by_device": "it "
    "takes the class for Intel's kernels",
    "torch._inductor.runtime.triton_heuristics:statically_launched_kernel_by_device": "where it "
    "is called",
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner._create_compile_options": "for "
    "cuda alone it asks for cooperative grids, without which their kernels would hang",
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner._could_rblock_scale": "for cuda "
    "alone it halves blocks of reductions that need too many registers",
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.autotune_to_one_config": "it "
    "unloads kernels that another thread measures",
    "torch._inductor.runtime.triton_heuristics:torch": "where torch.xpu is available, and "
    "torch.cuda is not, it tries what is fast on Intel's GPUs: for one, eight rows at once "
    "in a persistent reduction over 1,024 numbers, where a card is faster by a warp for each",
}

LATER: Dict[str, str] = {  # since 2.14, used by ``launch``
    "torch._inductor.heuristics.registry:_HEURISTIC_REGISTRY": "the configurations of pointwise "
    "kernels and reductions, with those for Intel's GPUs",
    "torch._inductor.heuristics.triton_codegen:get_codegen_heuristic": "the module fills that",
}

GRAPHS: Dict[str, str] = {
    "torch._inductor.compile_fx:cudagraphify": "it makes graphs of torch.cuda",
    "torch._inductor.output_code:CompiledFxGraph.post_compile": "before it calls that",
    "torch._inductor.compile_fx:get_expanded_dims": "for copies of inputs",
    "torch._inductor.compile_fx:index_expanded_dims_and_copy_": "copies an input",
    "torch._inductor.compile_fx:get_input_idxs_to_check": "the inputs of which code that runs "
    "without a graph takes the alignment for granted",
    "torch._inductor.utils:align_inputs_from_check_idxs": "copies those",
    "torch._inductor.utils:ALIGNMENT": "that alignment",
    "torch._inductor.cudagraph_utils:check_lowering_disable_cudagraph": "it takes no devices "
    "but cuda",
    "torch._inductor.cudagraph_utils:log_cudagraph_skip_and_bump_counter": "says why there is "
    "no graph, which PyTorch does for cuda alone",
    "torch._inductor.output_code:maybe_handle_backward_generation": "it wants the trees of "
    "torch.cuda's graphs",
}
