#pragma once

// DeviceProp is PyTorch's own: code that was compiled with PyTorch's header
// reads and passes it.
#include <c10/xpu/impl/xpu_cmake_macros.h>

#include_next <c10/xpu/XPUDeviceProp.h>

#include <sycl/ext/oneapi/experimental/device_architecture.hpp>

// clang-format off: it would put each name on a line of its own
/// The SYCL 2020 device descriptors.
#define C10_XPU_FORALL_DESCRIPTORS(_) AT_FORALL_XPU_DEVICE_PROPERTIES(_)

/// Intel's extensions: _(name, what a device without it is said to have).
#define C10_XPU_FORALL_INTEL_DESCRIPTORS(_)                                   \
  _(gpu_eu_count, 512) _(gpu_eu_count_per_subslice, 8)                        \
  _(gpu_eu_simd_width, 8) _(gpu_hw_threads_per_eu, 8) _(device_id, 0)         \
  _(memory_clock_rate, 0) _(memory_bus_width, 0)

/// Whether the device has a SYCL aspect: _(name), the member is has_<name>.
#define C10_XPU_FORALL_ASPECTS(_) _(fp16) _(fp64) _(atomic64)

/// _(member, its value for a sycl::device named `device`). An adapter for CUDA that
/// does not know is_integrated_gpu says so on stderr.
#define C10_XPU_FORALL_OTHERS(_)                                              \
  _(is_integrated_gpu,                                                        \
    device.is_gpu() &&                                                        \
        device.get_backend() != sycl::backend::ext_oneapi_cuda &&             \
        device.has(sycl::aspect::ext_oneapi_is_integrated_gpu))               \
  _(uuid, device.get_info<sycl::ext::intel::info::device::uuid>())            \
  _(architecture, device.get_info<                                            \
      sycl::ext::oneapi::experimental::info::device::architecture>())         \
  _(has_bfloat16_conversions,                                                 \
    device.ext_oneapi_supports_cl_extension("cl_intel_bfloat16_conversions")) \
  _(has_subgroup_matrix_multiply_accumulate,                                  \
    device.ext_oneapi_supports_cl_extension(                                  \
        "cl_intel_subgroup_matrix_multiply_accumulate"))                      \
  _(has_subgroup_matrix_multiply_accumulate_tensor_float32,                   \
    device.ext_oneapi_supports_cl_extension(                                  \
        "cl_intel_subgroup_matrix_multiply_accumulate_tensor_float32"))       \
  _(has_subgroup_2d_block_io,                                                 \
    device.ext_oneapi_supports_cl_extension("cl_intel_subgroup_2d_block_io"))
// clang-format on
