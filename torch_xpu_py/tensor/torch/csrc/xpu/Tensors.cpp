#include <ATen/ATen.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/HostKernelAllocator.h>
#include <ATen/xpu/detail/Widening.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/xpu/Bindings.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

py::dict fallbackStatistics() {
  py::dict result;
  for (const auto& count : at::xpu::fallbackStatistics()) {
    py::dict entry;
    entry["calls"] = count.calls;
    entry["bytes_copied"] = count.bytes_copied;
    result[py::str(count.name)] = std::move(entry);
  }
  return result;
}

py::object hostAliasStorage(py::handle storage) {
  return py::reinterpret_steal<py::object>(torch::createPyObject(
      at::xpu::hostAlias(torch::createStorage(storage.ptr()))));
}

py::object deviceAliasStorage(py::handle storage, int64_t device) {
  const auto index = useDevice(device);
  return py::reinterpret_steal<py::object>(torch::createPyObject(
      at::xpu::deviceAlias(torch::createStorage(storage.ptr()), index)));
}

/// Whether XPU is in use, and CPU kernels work on the memory of every device.
bool isOnHostMemory() {
  if (!c10::xpu::XPUCachingAllocator::initialized() ||
      c10::xpu::is_in_bad_fork()) {
    return false;
  }
  const auto devices = c10::irange(c10::xpu::device_count());
  return std::all_of(devices.begin(), devices.end(), at::xpu::isHostMemory);
}

// Note [Backward and the exit]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The engine's thread of a device lets go of a graph after it has said that the
// backward is done, and with the graph of Python objects. If Python ends
// meanwhile, it ends that thread, which aborts the process. So the exit waits
// for these threads, by a backward in each. That one must hold no Python
// object: a graph keeps those of the thread that starts it, so a new thread
// does.

void waitForBackward() {
  namespace allocator = c10::xpu::XPUCachingAllocator;
  py::gil_scoped_release no_gil;
  std::thread([] {
    try {
      const bool used = allocator::initialized();
      for (c10::DeviceIndex i = 0; used && i < c10::xpu::device_count(); ++i) {
        if (allocator::getDeviceStats(i).num_device_alloc != 0) {
          const auto device = at::device(c10::Device(c10::kXPU, i));
          const auto x = at::empty({1}, device).requires_grad_();
          autograd::backward({x.view({1, 1})}, {at::empty({1, 1}, device)});
        }
      }
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
      // A device that failed, or a forked child: nothing to wait for.
    }
  }).join();
}

} // namespace

void bindTensors(py::module& module) {
  at::xpu::detail::setPythonDepth([] {
    const auto* thread = PyGILState_GetThisThreadState();
    return thread ? thread->gilstate_counter : 0;
  });
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_fallbackStatistics", &fallbackStatistics);
  def("_xpu_resetFallbackStatistics", &at::xpu::resetFallbackStatistics);
  def("_xpu_isOnHostMemory", &isOnHostMemory);
  def("_xpu_typesThatCpuLacks", [](const std::string& op) {
    return int(at::xpu::detail::typesThatCpuLacks(op));
  });
  def("_xpu_hostAliasStorage", &hostAliasStorage);
  def("_xpu_deviceAliasStorage", &deviceAliasStorage);
  const py::cpp_function at_exit(&waitForBackward);
  py::module::import("atexit").attr("register")(at_exit);
}

} // namespace xpu
} // namespace torch
