#include <ATen/Context.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Module.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

// torch_xpu_runtime._C: what the shared bindings have, and what PyTorch's own
// torch.xpu wants beyond that or differently.

namespace py = pybind11;

extern PyObject* THXPStreamClass;

namespace torch::xpu {

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

/// Keeps the current stream busy for so many cycles of the device's clock, on
/// the host: the runtime has no kernels.
void sleep(int64_t cycles) {
  useXPU();
  withoutGil([&] {
    auto stream = c10::xpu::getCurrentXPUStream();
    const auto& device = c10::xpu::get_device_properties(stream.device_index());
    // 1 GHz where it does not tell, as SYCL's CPU device.
    const auto megahertz =
        device.max_clock_frequency ? device.max_clock_frequency : 1000;
    const std::chrono::duration<double, std::micro> time(
        double(cycles) / megahertz);
    c10::xpu::impl::launch(stream, [time](sycl::queue& queue) {
      return C10_XPU_CHECK(queue.submit([time](sycl::handler& handler) {
        handler.host_task([time] { std::this_thread::sleep_for(time); });
      }));
    });
  });
}

/// Zero for a device without one.
py::object uuid(const DeviceProp& prop) {
  const py::bytes bytes(
      reinterpret_cast<const char*>(prop.uuid.data()), prop.uuid.size());
  return py::module::import("uuid").attr("UUID")(py::arg("bytes") = bytes);
}

void extendProperties(const py::object& type) {
  auto bound = py::reinterpret_borrow<py::class_<DeviceProp>>(type);
  bound
      .def_readonly("last_level_cache_size", &DeviceProp::global_mem_cache_size)
      .def_readonly("is_integrated_gpu", &DeviceProp::is_integrated_gpu)
      .def_property_readonly("uuid", &uuid)
      .def_property_readonly("architecture", [](const DeviceProp& prop) {
        return static_cast<int64_t>(prop.architecture);
      });
#define XPU_EXTENSION(name) \
  bound.def_readonly("has_" #name, &DeviceProp::has_##name);
  AT_FORALL_XPU_EXP_CL_ASPECT(XPU_EXTENSION)
#undef XPU_EXTENSION
}

} // namespace

PYBIND11_MODULE(_C, module) {
  initModule(module.ptr());
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
  set("_xpu_getMemoryFraction", [](int64_t device) {
    const auto index = useDevice(device);
    return withoutGil([&] {
      return c10::xpu::XPUCachingAllocator::getMemoryFraction(index);
    });
  });
  // The runtime has no kernels, and so none for an architecture.
  set("_xpu_getArchFlags", []() -> py::object { return py::none(); });
  set("_xpu_sleep", &sleep);
  extendProperties(module.attr("_XpuDeviceProperties"));
  THXPStreamClass = module.attr("_XpuStreamBase").ptr();
}

} // namespace torch::xpu
