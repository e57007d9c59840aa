#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/HostCall.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <cstdint>

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

} // namespace

void bindTensors(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_fallbackStatistics", &fallbackStatistics);
  def("_xpu_resetFallbackStatistics", &at::xpu::resetFallbackStatistics);
  def("_xpu_hostAliasStorage", &hostAliasStorage);
  def("_xpu_deviceAliasStorage", &deviceAliasStorage);
}

} // namespace xpu
} // namespace torch
