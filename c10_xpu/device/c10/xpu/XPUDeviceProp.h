#pragma once

#include <sycl/device.hpp>
#include <sycl/info/info_desc.hpp>

#include <string>

namespace c10::xpu {

// clang-format off: it would put each name on a line of its own
/// The SYCL 2020 device descriptors, by their SYCL names and with SYCL's types.
/// Sizes of memory are in bytes, frequencies in MHz.
#define C10_XPU_FORALL_DESCRIPTORS(_)                                         \
  _(name) _(device_type) _(vendor) _(driver_version) _(version) _(vendor_id)  \
  _(is_available) _(max_compute_units) _(max_work_item_dimensions)            \
  _(max_work_group_size) _(max_num_sub_groups) _(sub_group_sizes)             \
  _(max_clock_frequency) _(address_bits) _(max_mem_alloc_size)                \
  _(mem_base_addr_align) _(half_fp_config) _(single_fp_config)                \
  _(double_fp_config) _(global_mem_size) _(global_mem_cache_type)             \
  _(global_mem_cache_size) _(global_mem_cache_line_size) _(local_mem_type)    \
  _(local_mem_size) _(max_samplers) _(max_parameter_size)                     \
  _(error_correction_support) _(profiling_timer_resolution)                   \
  _(preferred_vector_width_char) _(preferred_vector_width_short)              \
  _(preferred_vector_width_int) _(preferred_vector_width_long)                \
  _(preferred_vector_width_float) _(preferred_vector_width_double)            \
  _(preferred_vector_width_half) _(native_vector_width_char)                  \
  _(native_vector_width_short) _(native_vector_width_int)                     \
  _(native_vector_width_long) _(native_vector_width_float)                    \
  _(native_vector_width_double) _(native_vector_width_half)                   \
  _(partition_max_sub_devices) _(atomic_memory_order_capabilities)            \
  _(atomic_memory_scope_capabilities)

/// Intel's extensions: _(name, what a device without it is said to have).
#define C10_XPU_FORALL_INTEL_DESCRIPTORS(_)                                   \
  _(device_id, 0) _(pci_address, "") _(gpu_eu_count, 512)                     \
  _(gpu_eu_simd_width, 8) _(gpu_slices, 1) _(gpu_subslices_per_slice, 1)      \
  _(gpu_eu_count_per_subslice, 8) _(gpu_hw_threads_per_eu, 8)                 \
  _(max_mem_bandwidth, 0) _(memory_clock_rate, 0) _(memory_bus_width, 0)

/// Whether the device has a SYCL aspect: _(name), the member is has_<name>.
#define C10_XPU_FORALL_ASPECTS(_)                                             \
  _(fp16) _(fp64) _(atomic64) _(queue_profiling) _(usm_device_allocations)    \
  _(usm_host_allocations) _(usm_shared_allocations)                           \
  _(usm_system_allocations) _(ext_intel_free_memory)
// clang-format on

/// _(member, its value for a sycl::device named `device`): none here.
#define C10_XPU_FORALL_OTHERS(_)

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct DeviceProp {
  std::string platform_name;

#define C10_XPU_MEMBER(member) sycl::info::device::member::return_type member{};
  C10_XPU_FORALL_DESCRIPTORS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER
#define C10_XPU_MEMBER(member, fallback) \
  sycl::ext::intel::info::device::member::return_type member{fallback};
  C10_XPU_FORALL_INTEL_DESCRIPTORS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER
#define C10_XPU_MEMBER(aspect) bool has_##aspect{false};
  C10_XPU_FORALL_ASPECTS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER
};

} // namespace c10::xpu
