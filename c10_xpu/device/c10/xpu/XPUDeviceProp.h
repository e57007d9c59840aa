#pragma once

#include <sycl/aspects.hpp>
#include <sycl/device.hpp>
#include <sycl/info/info_desc.hpp>
// Before 2026, the descriptors of Intel's extensions are part of the above.
#if __has_include(<sycl/ext/intel/info/device.hpp>)
#include <sycl/ext/intel/info/device.hpp>
#endif

#include <string>
#include <vector>

namespace c10::xpu {

/// The SYCL 2020 device descriptors, by their SYCL names: _(type, name).
/// Sizes of memory are in bytes, frequencies in MHz, as SYCL defines them.
#define C10_XPU_FORALL_DESCRIPTORS(_)                                  \
  _(std::string, name)                                                 \
  _(sycl::info::device_type, device_type)                              \
  _(std::string, vendor)                                               \
  _(std::string, driver_version)                                       \
  _(std::string, version)                                              \
  _(uint32_t, vendor_id)                                               \
  _(bool, is_available)                                                \
  _(uint32_t, max_compute_units)                                       \
  _(uint32_t, max_work_item_dimensions)                                \
  _(size_t, max_work_group_size)                                       \
  _(uint32_t, max_num_sub_groups)                                      \
  _(std::vector<size_t>, sub_group_sizes)                              \
  _(uint32_t, max_clock_frequency)                                     \
  _(uint32_t, address_bits)                                            \
  _(uint64_t, max_mem_alloc_size)                                      \
  _(uint32_t, mem_base_addr_align)                                     \
  _(std::vector<sycl::info::fp_config>, half_fp_config)                \
  _(std::vector<sycl::info::fp_config>, single_fp_config)              \
  _(std::vector<sycl::info::fp_config>, double_fp_config)              \
  _(uint64_t, global_mem_size)                                         \
  _(sycl::info::global_mem_cache_type, global_mem_cache_type)          \
  _(uint64_t, global_mem_cache_size)                                   \
  _(uint32_t, global_mem_cache_line_size)                              \
  _(sycl::info::local_mem_type, local_mem_type)                        \
  _(uint64_t, local_mem_size)                                          \
  _(uint32_t, max_samplers)                                            \
  _(size_t, max_parameter_size)                                        \
  _(bool, error_correction_support)                                    \
  _(size_t, profiling_timer_resolution)                                \
  _(uint32_t, preferred_vector_width_char)                             \
  _(uint32_t, preferred_vector_width_short)                            \
  _(uint32_t, preferred_vector_width_int)                              \
  _(uint32_t, preferred_vector_width_long)                             \
  _(uint32_t, preferred_vector_width_float)                            \
  _(uint32_t, preferred_vector_width_double)                           \
  _(uint32_t, preferred_vector_width_half)                             \
  _(uint32_t, native_vector_width_char)                                \
  _(uint32_t, native_vector_width_short)                               \
  _(uint32_t, native_vector_width_int)                                 \
  _(uint32_t, native_vector_width_long)                                \
  _(uint32_t, native_vector_width_float)                               \
  _(uint32_t, native_vector_width_double)                              \
  _(uint32_t, native_vector_width_half)                                \
  _(uint32_t, partition_max_sub_devices)                               \
  _(std::vector<sycl::memory_order>, atomic_memory_order_capabilities) \
  _(std::vector<sycl::memory_scope>, atomic_memory_scope_capabilities)

/// Intel's extensions: _(type, name, what a device without it is said to have).
#define C10_XPU_FORALL_INTEL_DESCRIPTORS(_) \
  _(uint32_t, device_id, 0)                 \
  _(std::string, pci_address, "")           \
  _(uint32_t, gpu_eu_count, 512)            \
  _(uint32_t, gpu_eu_simd_width, 8)         \
  _(uint32_t, gpu_slices, 1)                \
  _(uint32_t, gpu_subslices_per_slice, 1)   \
  _(uint32_t, gpu_eu_count_per_subslice, 8) \
  _(uint32_t, gpu_hw_threads_per_eu, 8)     \
  _(uint64_t, max_mem_bandwidth, 0)         \
  _(uint32_t, memory_clock_rate, 0)         \
  _(uint32_t, memory_bus_width, 0)

/// Whether the device has a SYCL aspect: _(name), the member is has_<name>.
#define C10_XPU_FORALL_ASPECTS(_) \
  _(fp16)                         \
  _(fp64)                         \
  _(atomic64)                     \
  _(queue_profiling)              \
  _(usm_device_allocations)       \
  _(usm_host_allocations)         \
  _(usm_shared_allocations)       \
  _(usm_system_allocations)       \
  _(ext_intel_free_memory)

/// What a device is and can do. See get_device_properties.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct DeviceProp {
  std::string platform_name;

#define C10_XPU_MEMBER(type, member) type member{};
  C10_XPU_FORALL_DESCRIPTORS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER

#define C10_XPU_MEMBER(type, member, fallback) type member{fallback};
  C10_XPU_FORALL_INTEL_DESCRIPTORS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER

#define C10_XPU_MEMBER(aspect) bool has_##aspect{false};
  C10_XPU_FORALL_ASPECTS(C10_XPU_MEMBER)
#undef C10_XPU_MEMBER
};

} // namespace c10::xpu
