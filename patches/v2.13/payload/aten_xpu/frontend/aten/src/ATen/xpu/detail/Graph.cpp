#include <ATen/xpu/detail/Graph.h>

#include <c10/util/ScopeExit.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>

namespace at::xpu::detail {

namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;
using sycl::ext::oneapi::experimental::queue_state;

bool isRecording(const sycl::queue& queue) {
  return C10_XPU_CHECK(queue.ext_oneapi_get_state()) == queue_state::recording;
}

void checkSupport(c10::DeviceIndex index) {
  const auto& device = c10::xpu::get_raw_device(index);
  TORCH_CHECK_NOT_IMPLEMENTED(
      device.has(sycl::aspect::ext_oneapi_limited_graph) ||
          device.has(sycl::aspect::ext_oneapi_graph),
      c10::str("XPU graphs are not supported on xpu:", int{index}, " ("),
      c10::xpu::get_device_properties(index).name,
      "): SYCL has no graphs for it. Run the work without a graph");
}

} // namespace

bool is_current_stream_capturing() {
  return allocator::initialized() &&
      isRecording(c10::xpu::getCurrentXPUStream().queue());
}

XPUGraph::~XPUGraph() {
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("An XPU graph was not released: ", error.what());
  }
}

void XPUGraph::capture_begin(c10::xpu::MempoolId_t pool) {
  TORCH_CHECK(
      !stream_.has_value(),
      "This XPUGraph has a capture already. Call reset() first, or use another");
  const auto stream = c10::xpu::getCurrentXPUStream();
  checkSupport(stream.device_index());
  TORCH_CHECK(
      !isRecording(stream.queue()),
      c10::str("The stream ", stream, " records another XPUGraph"));
  auto& queue = stream.queue();
  xpuGraph_t graph =
      C10_XPU_CHECK(xpuGraph_t(queue.get_context(), queue.get_device()));
  pool_ = pool == c10::xpu::MempoolId_t()
      ? c10::xpu::MemPool::graph_pool_handle(/*is_user_created=*/false)
      : pool;
  // Streams that wait for an event of this one record too.
  const auto device = stream.device_index();
  allocator::beginAllocateToPool(device, pool_, [graph](sycl::queue* each) {
    return isRecording(*each) &&
        C10_XPU_CHECK(each->ext_oneapi_get_graph()) == graph;
  });
  auto undo = c10::make_scope_exit([&] {
    allocator::endAllocateToPool(device, pool_);
    allocator::releasePool(device, pool_);
  });
  C10_XPU_CHECK(graph.begin_recording(queue));
  undo.release();
  graph_ = std::move(graph);
  stream_ = stream;
  recording_ = true;
}

void XPUGraph::capture_end() {
  TORCH_CHECK(recording_, "This XPUGraph does not record");
  TORCH_CHECK(
      c10::xpu::getCurrentXPUStream(stream_->device_index()) == *stream_,
      "The capture of an XPUGraph must end on the stream where it began");
  recording_ = false;
  allocator::endAllocateToPool(stream_->device_index(), pool_);
  C10_XPU_CHECK(graph_->end_recording());
  if (!keep_graph_) {
    instantiate();
    if (!debug_) {
      graph_.reset();
    }
  }
}

void XPUGraph::instantiate() {
  TORCH_CHECK(
      graph_.has_value() && !recording_,
      "An XPUGraph is instantiated after its capture, and only once unless "
      "keep_graph=True");
  exec_ = C10_XPU_CHECK(graph_->finalize());
}

void XPUGraph::replay() {
  TORCH_CHECK(
      stream_.has_value() && !recording_,
      "An XPUGraph is replayed after its capture");
  if (!exec_.has_value()) {
    instantiate();
  }
  const auto stream = c10::xpu::getCurrentXPUStream(stream_->device_index());
  last_replay_ = C10_XPU_CHECK(stream.queue().ext_oneapi_graph(*exec_));
  c10::xpu::impl::waitIfBlocking(stream, *last_replay_);
}

void XPUGraph::reset() {
  if (!stream_.has_value() || c10::xpu::is_in_bad_fork()) {
    return;
  }
  const auto device = stream_->device_index();
  if (recording_) {
    allocator::endAllocateToPool(device, pool_);
    C10_XPU_CHECK(graph_->end_recording());
    recording_ = false;
  }
  if (last_replay_.has_value()) {
    C10_XPU_CHECK(last_replay_->wait());
  }
  last_replay_.reset();
  exec_.reset();
  graph_.reset();
  stream_.reset();
  allocator::releasePool(device, pool_);
}

c10::xpu::MempoolId_t XPUGraph::pool() const {
  TORCH_CHECK(stream_.has_value(), "An XPUGraph has a pool after its capture");
  return pool_;
}

void XPUGraph::enable_debug_mode() {
  debug_ = true;
}

void XPUGraph::debug_dump(const std::string& path) {
  TORCH_CHECK(
      graph_.has_value() && !recording_ && (debug_ || keep_graph_),
      "Call enable_debug_mode() before the capture to dump an XPUGraph");
  C10_XPU_CHECK(graph_->print_graph(path, /*verbose=*/true));
}

xpuGraph_t* XPUGraph::raw_xpu_graph() {
  TORCH_CHECK(
      keep_graph_ && graph_.has_value() && !recording_,
      "An XPUGraph keeps its graph after a capture with keep_graph=True");
  return &*graph_;
}

xpuGraphExec_t* XPUGraph::raw_xpu_graph_exec() {
  TORCH_CHECK(exec_.has_value(), "This XPUGraph is not instantiated");
  return &*exec_;
}

} // namespace at::xpu::detail
