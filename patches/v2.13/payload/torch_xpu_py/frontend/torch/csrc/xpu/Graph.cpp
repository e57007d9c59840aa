#include <ATen/xpu/detail/Graph.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

// What torch.xpu.XPUGraph and torch.xpu.graph are made of.

namespace py = pybind11;

namespace torch::xpu {
namespace {

using at::xpu::detail::XPUGraph;
using c10::xpu::MempoolId_t;

void captureBegin(XPUGraph& graph, std::optional<MempoolId_t> pool) {
  useXPU();
  const auto index = c10::xpu::current_device();
  // Operators run PyTorch's kernels for CPU there.
  TORCH_CHECK_NOT_IMPLEMENTED(
      !c10::xpu::get_raw_device(index).is_cpu(),
      c10::str("XPU graphs are not supported on xpu:", int{index}, " ("),
      c10::xpu::get_device_properties(index).name,
      "): its operators are not submitted to a stream, so that a graph would "
      "miss them. Run the work without a graph");
  withoutGil([&] { graph.capture_begin(pool.value_or(MempoolId_t())); });
}

} // namespace

void bindGraph(py::module& module) {
  // Calls it without the GIL.
  const auto wrap = [](auto method) {
    return torch::wrap_pybind_function_no_gil(method);
  };
  py::class_<XPUGraph, std::unique_ptr<XPUGraph, DeleteWithoutGil>>(
      module, "_XPUGraph")
      .def(py::init<bool>(), py::arg("keep_graph") = false)
      .def(
          "capture_begin",
          torch::wrap_pybind_function(&captureBegin),
          py::arg("pool") = py::none())
      .def("capture_end", wrap(&XPUGraph::capture_end))
      .def("instantiate", wrap(&XPUGraph::instantiate))
      .def("replay", wrap(&XPUGraph::replay))
      .def("reset", wrap(&XPUGraph::reset))
      .def("pool", wrap(&XPUGraph::pool))
      .def("enable_debug_mode", wrap(&XPUGraph::enable_debug_mode))
      .def("debug_dump", wrap(&XPUGraph::debug_dump), py::arg("debug_path"))
      .def(
          "raw_xpu_graph",
          [](XPUGraph& graph) {
            return reinterpret_cast<uintptr_t>(graph.raw_xpu_graph());
          })
      .def(
          "raw_xpu_graph_exec",
          [](XPUGraph& graph) {
            return reinterpret_cast<uintptr_t>(graph.raw_xpu_graph_exec());
          })
      .def(
          "register_generator_state",
          [](XPUGraph& /*graph*/, const py::object& /*generator*/) {
            TORCH_CHECK_NOT_IMPLEMENTED(
                false,
                "XPU graphs cannot record random numbers: this runtime has no "
                "generator that a replay advances");
          });
  module.def(
      "_xpu_isCurrentStreamCapturing",
      torch::wrap_pybind_function_no_gil(
          &at::xpu::detail::is_current_stream_capturing));
}

} // namespace torch::xpu
