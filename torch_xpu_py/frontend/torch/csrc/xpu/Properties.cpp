#include <c10/xpu/XPUDeviceProp.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <pybind11/stl.h>
#include <sycl/memory_enums.hpp>

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using c10::xpu::DeviceProp;

// How SYCL's enumerations look in Python: by the names SYCL gives them.
#define XPU_NAME(enumeration, name) \
  case enumeration::name:           \
    return #name;

std::string nameOf(sycl::info::device_type type) {
  switch (type) {
    XPU_NAME(sycl::info::device_type, cpu)
    XPU_NAME(sycl::info::device_type, gpu)
    XPU_NAME(sycl::info::device_type, accelerator)
    default:
      return "unknown";
  }
}

std::string nameOf(sycl::info::fp_config config) {
  switch (config) {
    XPU_NAME(sycl::info::fp_config, denorm)
    XPU_NAME(sycl::info::fp_config, inf_nan)
    XPU_NAME(sycl::info::fp_config, round_to_nearest)
    XPU_NAME(sycl::info::fp_config, round_to_zero)
    XPU_NAME(sycl::info::fp_config, round_to_inf)
    XPU_NAME(sycl::info::fp_config, fma)
    XPU_NAME(sycl::info::fp_config, correctly_rounded_divide_sqrt)
    XPU_NAME(sycl::info::fp_config, soft_float)
    default:
      return "unknown";
  }
}

std::string nameOf(sycl::info::global_mem_cache_type type) {
  switch (type) {
    XPU_NAME(sycl::info::global_mem_cache_type, none)
    XPU_NAME(sycl::info::global_mem_cache_type, read_only)
    XPU_NAME(sycl::info::global_mem_cache_type, read_write)
    default:
      return "unknown";
  }
}

std::string nameOf(sycl::info::local_mem_type type) {
  switch (type) {
    XPU_NAME(sycl::info::local_mem_type, none)
    XPU_NAME(sycl::info::local_mem_type, local)
    XPU_NAME(sycl::info::local_mem_type, global)
    default:
      return "unknown";
  }
}

[[maybe_unused]] std::string nameOf(sycl::memory_order order) {
  switch (order) {
    XPU_NAME(sycl::memory_order, relaxed)
    XPU_NAME(sycl::memory_order, acquire)
    XPU_NAME(sycl::memory_order, release)
    XPU_NAME(sycl::memory_order, acq_rel)
    XPU_NAME(sycl::memory_order, seq_cst)
    default:
      return "unknown";
  }
}

[[maybe_unused]] std::string nameOf(sycl::memory_scope scope) {
  switch (scope) {
    XPU_NAME(sycl::memory_scope, work_item)
    XPU_NAME(sycl::memory_scope, sub_group)
    XPU_NAME(sycl::memory_scope, work_group)
    XPU_NAME(sycl::memory_scope, device)
    XPU_NAME(sycl::memory_scope, system)
    default:
      return "unknown";
  }
}

#undef XPU_NAME

/// What Python sees of a value: itself, unless it is an enumerator or several.
template <typename Value>
auto shown(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return nameOf(value);
  } else {
    return value;
  }
}

template <typename Value>
auto shown(const std::vector<Value>& values) {
  std::vector<decltype(shown(std::declval<Value>()))> all;
  all.reserve(values.size());
  for (const auto& value : values) {
    all.push_back(shown(value));
  }
  return all;
}

uint32_t subsliceCount(const DeviceProp& prop) {
  return prop.gpu_eu_count_per_subslice == 0
      ? 0
      : prop.gpu_eu_count / prop.gpu_eu_count_per_subslice;
}

const char* truth(bool value) {
  return value ? "True" : "False";
}

std::string represent(const DeviceProp& prop) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  std::ostringstream out;
  out << "_XpuDeviceProperties(name='" << prop.name << "', platform_name='"
      << prop.platform_name << "', type='" << nameOf(prop.device_type)
      << "', driver_version='" << prop.driver_version
      << "', total_memory=" << prop.global_mem_size / kMiB
      << "MB, max_compute_units=" << prop.max_compute_units
      << ", gpu_eu_count=" << prop.gpu_eu_count
      << ", gpu_subslice_count=" << subsliceCount(prop)
      << ", max_work_group_size=" << prop.max_work_group_size
      << ", max_num_sub_groups=" << prop.max_num_sub_groups
      << ", sub_group_sizes=[";
  const char* separator = "";
  for (const auto size : prop.sub_group_sizes) {
    out << separator << size;
    separator = ", ";
  }
  out << "], has_fp16=" << truth(prop.has_fp16)
      << ", has_fp64=" << truth(prop.has_fp64)
      << ", has_atomic64=" << truth(prop.has_atomic64) << ")";
  return out.str();
}

} // namespace

void bindProperties(py::module& module) {
  py::class_<DeviceProp> bound(module, "_XpuDeviceProperties");
  bound.def_readonly("platform_name", &DeviceProp::platform_name);

#define XPU_PROPERTY(member, ...) \
  bound.def_property_readonly(    \
      #member, [](const DeviceProp& prop) { return shown(prop.member); });
  C10_XPU_FORALL_DESCRIPTORS(XPU_PROPERTY)
  C10_XPU_FORALL_INTEL_DESCRIPTORS(XPU_PROPERTY)
#undef XPU_PROPERTY

#define XPU_ASPECT(aspect) \
  bound.def_readonly("has_" #aspect, &DeviceProp::has_##aspect);
  C10_XPU_FORALL_ASPECTS(XPU_ASPECT)
#undef XPU_ASPECT

  // By the names that other device types use.
  bound.def_readonly("total_memory", &DeviceProp::global_mem_size);
  bound.def_property_readonly(
      "type", [](const DeviceProp& prop) { return nameOf(prop.device_type); });
  bound.def_property_readonly("gpu_subslice_count", &subsliceCount);
  bound.def("__repr__", &represent);

  // A reference, which is valid for the process's life.
  module.def(
      "_xpu_getDeviceProperties",
      torch::wrap_pybind_function([](int64_t device) -> const DeviceProp& {
        const auto index = useDevice(device);
        return withoutGil([&]() -> const DeviceProp& {
          return c10::xpu::get_device_properties(index);
        });
      }),
      py::return_value_policy::reference);
}

} // namespace xpu
} // namespace torch
