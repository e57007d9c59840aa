#include <ATen/Context.h>
#include <ATen/xpu/XPUGraph.h>
#include <c10/xpu/XPUCachingAllocator.h>
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

using c10::xpu::MempoolId_t;

/// A graph of what Python submits, operators among it.
struct Graph final : at::xpu::XPUGraphImpl {
  explicit Graph(const at::GraphImplArgs& args) : XPUGraphImpl(args) {}

  void capture_begin(MempoolId_t pool, at::GraphCaptureMode mode) override {
    at::globalContext().lazyInitDevice(at::kXPU);
    const auto index = c10::xpu::current_device();
    // Operators run PyTorch's kernels for CPU there.
    TORCH_CHECK_NOT_IMPLEMENTED(
        !c10::xpu::get_raw_device(index).is_cpu(),
        c10::str("XPU graphs are not supported on xpu:", int{index}, " ("),
        c10::xpu::get_device_properties(index).name,
        "): its operators are not submitted to a stream, so that a graph would "
        "miss them. Run the work without a graph");
    XPUGraphImpl::capture_begin(pool, mode);
  }
};

// For torch.accelerator.Graph.
using at::GraphImplRegistry;
using at::RegistererGraphImplRegistry;
REGISTER_GRAPH_IMPL(XPU, Graph)

void captureBegin(Graph& graph, std::optional<MempoolId_t> pool) {
  useXPU();
  withoutGil([&] {
    graph.capture_begin(
        pool.value_or(MempoolId_t()), at::GraphCaptureMode::Default);
  });
}

bool isCurrentStreamCapturing() {
  return c10::xpu::XPUCachingAllocator::initialized() &&
      c10::xpu::currentStreamCaptureStatusMayInitCtx() ==
      c10::xpu::CaptureStatus::Recording;
}

} // namespace

void bindGraph(py::module& module) {
  // Calls it without the GIL.
  const auto wrap = [](auto method) {
    return torch::wrap_pybind_function_no_gil(
        py::method_adaptor<Graph>(method));
  };
  py::class_<Graph, std::unique_ptr<Graph, DeleteWithoutGil>>(
      module, "_XPUGraph")
      .def(
          py::init([](bool keep_graph) {
            return new Graph(at::GraphImplArgs{keep_graph});
          }),
          py::arg("keep_graph") = false)
      .def(
          "capture_begin",
          torch::wrap_pybind_function(&captureBegin),
          py::arg("pool") = py::none())
      .def("capture_end", wrap(&Graph::capture_end))
      .def("instantiate", wrap(&Graph::instantiate))
      .def("replay", wrap(&Graph::replay))
      .def("reset", wrap(&Graph::reset))
      .def("pool", wrap(&Graph::pool))
      .def("enable_debug_mode", wrap(&Graph::enable_debug_mode))
      .def("debug_dump", wrap(&Graph::debug_dump), py::arg("debug_path"))
      .def(
          "raw_xpu_graph",
          [](Graph& graph) {
            return reinterpret_cast<uintptr_t>(graph.raw_xpu_graph());
          })
      .def(
          "raw_xpu_graph_exec",
          [](Graph& graph) {
            return reinterpret_cast<uintptr_t>(graph.raw_xpu_graph_exec());
          })
      .def(
          "register_generator_state",
          torch::wrap_pybind_function(
              [](Graph& graph, const at::Generator& generator) {
                graph.register_generator_state(generator);
              }),
          py::arg("generator"));
  module.def(
      "_xpu_isCurrentStreamCapturing",
      torch::wrap_pybind_function_no_gil(&isCurrentStreamCapturing));
}

} // namespace torch::xpu
