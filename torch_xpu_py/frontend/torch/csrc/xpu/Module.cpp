#include <torch/csrc/xpu/Module.h>

#include <ATen/Context.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/xpu/Bindings.h>

#include <pthread.h>

#include <limits>
#include <string>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using c10::DeviceIndex;

/// A forked child must run torch.xpu._lazy_init again: it says that XPU cannot
/// be used there, or brings it up where the parent had not.
void requireInitAfterFork() {
  torch::utils::set_requires_device_init(at::kXPU, true);
}

DeviceIndex narrow(int64_t index) {
  using Limits = std::numeric_limits<DeviceIndex>;
  if (index < Limits::min() || index > Limits::max()) {
    TORCH_CHECK(
        false,
        "XPU device index ",
        index,
        " is out of range: there are ",
        static_cast<int>(c10::xpu::device_count_ensure_non_zero()),
        " XPU device(s), so it must be from 0 to ",
        c10::xpu::device_count() - 1);
  }
  return static_cast<DeviceIndex>(index);
}

/// Returns the device before. Does nothing for a negative index, and returns
/// -1.
int exchangeDevice(int64_t index) {
  if (index < 0) {
    return -1;
  }
  return c10::xpu::exchange_device(useDevice(index));
}

py::object defaultGenerator(int64_t device) {
  const auto& generator =
      at::xpu::detail::getDefaultXPUGenerator(useDevice(device));
  PyObject* object = THPGenerator_Wrap(generator);
  if (!object) {
    throw python_error();
  }
  return py::reinterpret_steal<py::object>(object);
}

void setSyncDebugMode(int64_t mode) {
  using c10::xpu::SyncDebugMode;
  TORCH_CHECK(
      mode >= static_cast<int64_t>(SyncDebugMode::L_DISABLED) &&
          mode <= static_cast<int64_t>(SyncDebugMode::L_ERROR),
      "The sync debug mode ",
      mode,
      " is none: it must be 0 (default), 1 (warn) or 2 (error)");
  c10::xpu::set_sync_debug_mode(static_cast<SyncDebugMode>(mode));
}

} // namespace

void useXPU() {
  torch::utils::device_lazy_init(at::kXPU);
}

DeviceIndex useDevice(int64_t index) {
  useXPU();
  const DeviceIndex device = narrow(index);
  c10::xpu::check_device_index(device);
  return device;
}

void addType(py::module& module, const char* name, PyTypeObject& type) {
  if (PyType_Ready(&type) < 0) {
    throw python_error();
  }
  module.attr(name) = py::handle(reinterpret_cast<PyObject*>(&type));
}

void bindDevices(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  // What is asked before the first use, and brings nothing up by itself:
  def("_xpu_isInBadFork", [] { return c10::xpu::is_in_bad_fork(); });
  def("_xpu_isAvailable",
      [] { return withoutGil([] { return c10::xpu::is_available(); }); });
  def("_xpu_getDeviceCount", [] {
    return withoutGil(
        [] { return static_cast<int>(c10::xpu::device_count()); });
  });
  def("_xpu_setMapping", [](const std::string& name) {
    withoutGil([&] { c10::xpu::set_mapping(name); });
  });
  def("_xpu_mapping",
      [] { return withoutGil([] { return c10::xpu::mapping(); }); });
  // What torch.xpu._lazy_init calls. Raises if there is no device.
  def("_xpu_init",
      [] { withoutGil([] { at::globalContext().lazyInitXPU(); }); });
  // What needs a device:
  def("_xpu_getDevice", [] {
    useXPU();
    return static_cast<int>(c10::xpu::current_device());
  });
  def("_xpu_setDevice",
      [](int64_t index) { c10::xpu::set_device(useDevice(index)); });
  def("_xpu_exchangeDevice", &exchangeDevice);
  def("_xpu_maybeExchangeDevice", &exchangeDevice);
  def("_xpu_getDefaultGenerator", &defaultGenerator);
  def("_xpu_canDeviceAccessPeer", [](int64_t device, int64_t peer) {
    const auto from = useDevice(device);
    const auto to = useDevice(peer);
    return withoutGil(
        [&] { return c10::xpu::can_device_access_peer(from, to); });
  });
  def("_xpu_set_sync_debug_mode", &setSyncDebugMode);
  def("_xpu_get_sync_debug_mode",
      [] { return static_cast<int>(c10::xpu::get_sync_debug_mode()); });
}

void initModule(PyObject* module) {
  static const int fork_handler =
      pthread_atfork(nullptr, nullptr, &requireInitAfterFork);
  TORCH_CHECK(fork_handler == 0, "pthread_atfork failed: ", fork_handler);
  auto m = py::handle(module).cast<py::module>();
  bindDevices(m);
  bindProperties(m);
  bindStreams(m);
  bindEvents(m);
  bindMemory(m);
}

} // namespace xpu
} // namespace torch
