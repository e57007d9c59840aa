#include <ATen/Context.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Module.h>

#include <sycl/ext/oneapi/experimental/device_architecture.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

// torch_xpu_runtime._C: what the shared bindings have, and what PyTorch's own
// torch.xpu wants beyond that or differently.

namespace py = pybind11;

namespace torch::xpu {

void bindMemoryHistory(py::module& module);
void bindPluggableAllocator(py::module& module);

namespace {

using c10::xpu::DeviceProp;

/// What PyTorch's torch.xpu._lazy_init calls, with a lock that is not
/// recursive: nothing here may call useXPU.
void init() {
  withoutGil([] { at::globalContext().lazyInitDevice(at::kXPU); });
  const auto count = c10::xpu::device_count();
  py::tuple generators(count);
  for (const auto i : c10::irange(count)) {
    PyObject* generator =
        THPGenerator_Wrap(at::xpu::detail::getDefaultXPUGenerator(i));
    if (!generator) {
      throw python_error();
    }
    generators[i] = py::reinterpret_steal<py::object>(generator);
  }
  auto xpu = py::module::import("torch.xpu");
  xpu.attr("default_generators") = std::move(generators);
  xpu.attr("_get_device_properties") =
      py::module::import("torch._C").attr("_xpu_getDeviceProperties");
}

/// 0 in a forked child, where torch.xpu.is_available must not raise.
int deviceCount() {
  return withoutGil([] {
    return c10::xpu::is_in_bad_fork() ? 0 : int(c10::xpu::device_count());
  });
}

/// The current allocator belongs to the process.
std::shared_ptr<c10::xpu::XPUCachingAllocator::XPUAllocator> getAllocator() {
  return {c10::xpu::XPUCachingAllocator::get(), [](auto* /*kept*/) {}};
}

/// The SYCL device of the properties that _xpu_getDeviceProperties returned.
const sycl::device& deviceOf(const DeviceProp& prop) {
  for (const auto i : c10::irange(c10::xpu::device_count())) {
    if (&c10::xpu::get_device_properties(i) == &prop) {
      return c10::xpu::get_raw_device(i);
    }
  }
  TORCH_CHECK(false, "These are not the properties of an XPU device");
}

/// What a query of SYCL returns; the default for a device that lacks it.
template <typename Query>
auto ask(const DeviceProp& prop, Query query)
    -> decltype(query(deviceOf(prop))) {
  const auto& device = deviceOf(prop);
  return withoutGil([&]() -> decltype(query(device)) {
    try {
      return query(device);
    } catch (const sycl::exception&) {
      return {};
    }
  });
}

bool hasExtension(const DeviceProp& prop, const std::string& name) {
  return ask(prop, [&](const sycl::device& device) {
    return device.ext_oneapi_supports_cl_extension("cl_intel_" + name);
  });
}

bool isIntegratedGpu(const DeviceProp& prop) {
  return ask(prop, [](const sycl::device& device) {
    return device.is_gpu() &&
        device.has(sycl::aspect::ext_oneapi_is_integrated_gpu);
  });
}

int64_t architecture(const DeviceProp& prop) {
  namespace experimental = sycl::ext::oneapi::experimental;
  const auto value = ask(prop, [](const sycl::device& device) {
    return device.get_info<experimental::info::device::architecture>();
  });
  return static_cast<int64_t>(value);
}

/// Zero for a device without one.
py::object uuid(const DeviceProp& prop) {
  const auto id = ask(prop, [](const sycl::device& device) {
    return device.get_info<sycl::ext::intel::info::device::uuid>();
  });
  const py::bytes bytes(reinterpret_cast<const char*>(id.data()), id.size());
  return py::module::import("uuid").attr("UUID")(py::arg("bytes") = bytes);
}

void extendProperties(const py::object& bound) {
  const auto property = py::module::import("builtins").attr("property");
  // Not wrapped: that would copy the argument, which is known by its address.
  const auto add = [&](const std::string& name, auto get) {
    bound.attr(name.c_str()) = property(py::cpp_function(std::move(get)));
  };
  add("last_level_cache_size",
      [](const DeviceProp& prop) { return prop.global_mem_cache_size; });
  add("is_integrated_gpu", &isIntegratedGpu);
  add("architecture", &architecture);
  add("uuid", &uuid);
  for (const std::string name :
       {"bfloat16_conversions",
        "subgroup_matrix_multiply_accumulate",
        "subgroup_matrix_multiply_accumulate_tensor_float32",
        "subgroup_2d_block_io"}) {
    add("has_" + name,
        [name](const DeviceProp& prop) { return hasExtension(prop, name); });
  }
}

} // namespace

PYBIND11_MODULE(_C, module) {
  initModule(module.ptr());
  bindMemoryHistory(module);
  bindPluggableAllocator(module);
  const auto set = [&module](const char* name, auto function, auto... extra) {
    module.attr(name) = py::cpp_function(
        torch::wrap_pybind_function(function), py::name(name), extra...);
  };
  set("_xpu_init", &init);
  set("_xpu_getDeviceCount", &deviceCount);
  // A pointer, since a reference would be copied on its way.
  set(
      "_xpu_getDeviceProperties",
      [](int64_t device) {
        const auto index = useDevice(device);
        return withoutGil(
            [&] { return &c10::xpu::get_device_properties(index); });
      },
      py::return_value_policy::reference);
  set("_xpu_getAllocator", &getAllocator);
  set("_xpu_getMemoryFraction", [](int64_t device) {
    const auto index = useDevice(device);
    return withoutGil([&] {
      return c10::xpu::XPUCachingAllocator::getMemoryFraction(index);
    });
  });
  // The runtime has no kernels, and so none for an architecture.
  set("_xpu_getArchFlags", []() -> py::object { return py::none(); });
  extendProperties(module.attr("_XpuDeviceProperties"));
}

} // namespace torch::xpu
