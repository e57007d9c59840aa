#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/ext/oneapi/experimental/graph.hpp>

#include <optional>
#include <string>

namespace at::xpu::detail {

using xpuGraph_t = sycl::ext::oneapi::experimental::command_graph<
    sycl::ext::oneapi::experimental::graph_state::modifiable>;
using xpuGraphExec_t = sycl::ext::oneapi::experimental::command_graph<
    sycl::ext::oneapi::experimental::graph_state::executable>;

/// Whether the current stream records a graph; false before the first use.
C10_EXPORT bool is_current_stream_capturing();

/// What torch.xpu.XPUGraph is made of. Not at::xpu::XPUGraph, whose layout is
/// given by PyTorch's header.
///
/// Records what is submitted to a stream instead of running it, and runs it as
/// often as it is told to, as at::cuda::CUDAGraph does. SYCL's graph extension
/// records; a device without it is an error.
///
/// Memory that a stream allocates while it records comes from a private pool,
/// which keeps it for the graph: a replay uses the same addresses. Not for use
/// by several threads at once. Errors are c10::Error.
class C10_EXPORT XPUGraph {
 public:
  /// With `keep_graph`, capture_end leaves it to instantiate or the first
  /// replay to make what runs, so that raw_xpu_graph may be changed before.
  explicit XPUGraph(bool keep_graph = false) : keep_graph_(keep_graph) {}
  ~XPUGraph();
  XPUGraph(const XPUGraph&) = delete;
  XPUGraph& operator=(const XPUGraph&) = delete;

  /// Makes the current stream record, and those that wait for its events.
  /// Graphs with the same pool must not run at once; {0, 0} is a new one.
  void capture_begin(c10::xpu::MempoolId_t pool = {});
  /// The current stream must be the one that records.
  void capture_end();
  void instantiate();
  /// On the current stream of the device where it was captured.
  void replay();
  /// Waits for the last replay and forgets everything.
  void reset();
  c10::xpu::MempoolId_t pool() const;

  /// To be called before capture_end by who calls debug_dump, which writes the
  /// graph to a file in the DOT language.
  void enable_debug_mode();
  void debug_dump(const std::string& path);

  /// Needs keep_graph.
  xpuGraph_t* raw_xpu_graph();
  xpuGraphExec_t* raw_xpu_graph_exec();

 private:
  const bool keep_graph_;
  bool debug_ = false;
  bool recording_ = false;
  std::optional<c10::xpu::XPUStream> stream_; // that records, or has recorded
  c10::xpu::MempoolId_t pool_;
  std::optional<xpuGraph_t> graph_;
  std::optional<xpuGraphExec_t> exec_;
  std::optional<sycl::event> last_replay_;
};

} // namespace at::xpu::detail
