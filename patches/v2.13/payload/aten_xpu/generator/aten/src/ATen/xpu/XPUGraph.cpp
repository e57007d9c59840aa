#include <ATen/ops/empty.h>
#include <ATen/xpu/XPUGraph.h>
#include <ATen/xpu/detail/KeepForGraph.h>
#include <c10/util/ScopeExit.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemPool.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What PyTorch's headers declare for graphs. SYCL's graph extension records; a
// device without it is an error.
//
// Memory that a stream allocates while it records comes from a private pool,
// which keeps it for the graph: a replay uses the same addresses.
//
// Note [Random numbers in graphs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Seed and offset are arguments of a kernel, and a graph keeps the arguments.
// So a kernel that is recorded gets pointers to them instead, see
// PhiloxXpuState, and adds what the kernels before it in the graph draw. A
// replay writes the generator's present seed and offset there first, and steps
// the generator on by what the whole graph draws. The memory is a generator's
// own, and none of the graph's: work of the graph may use that before.

namespace at {

namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;
using c10::xpu::XPUStream;
using sycl::ext::oneapi::experimental::queue_state;

bool isRecording(const sycl::queue& queue) {
  return C10_XPU_CHECK(queue.ext_oneapi_get_state()) == queue_state::recording;
}

/// What a graph reads of memory that is not its pool's.
struct Kept {
  std::optional<xpu::xpuGraph_t> recording;
  std::vector<Tensor> tensors;
};

std::mutex kept_mutex;
/// By graph; never destroyed.
std::map<const xpu::XPUGraphImpl*, Kept>& kept() {
  static auto& all = *new std::map<const xpu::XPUGraphImpl*, Kept>;
  return all;
}

/// What the stream records, if it is an XPUGraph. Under kept_mutex.
Kept* recordedBy(XPUStream stream) {
  const auto graph =
      C10_XPU_CHECK(c10::xpu::impl::queueOf(stream).ext_oneapi_get_graph());
  for (auto& [owner, one] : kept()) {
    if (one.recording && *one.recording == graph) {
      return &one;
    }
  }
  return nullptr;
}

void checkSupport(DeviceIndex index) {
  const auto& device = c10::xpu::get_raw_device(index);
  TORCH_CHECK_NOT_IMPLEMENTED(
      device.has(sycl::aspect::ext_oneapi_limited_graph) ||
          device.has(sycl::aspect::ext_oneapi_graph),
      c10::str("XPU graphs are not supported on xpu:", int{index}, " ("),
      c10::xpu::get_device_properties(index).name,
      "): SYCL has no graphs for it. Run the work without a graph");
}

} // namespace

namespace xpu {

void detail::keepForGraph(const Tensor& tensor, XPUStream stream) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  auto* const found = recordedBy(stream);
  TORCH_CHECK(found, "The stream ", stream, " records no XPUGraph");
  found->tensors.push_back(tensor);
}

bool detail::canKeepForGraph(XPUStream stream) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  return recordedBy(stream) != nullptr;
}

MempoolId_t graph_pool_handle() {
  return c10::xpu::MemPool::graph_pool_handle(/*is_user_created=*/false);
}

// The stream is the one that records, later the one of the last replay.
XPUGraphImpl::XPUGraphImpl(const GraphImplArgs& args)
    : capture_stream_(
          XPUStream::UNCHECKED,
          Stream(Stream::DEFAULT, Device(kXPU, 0))),
      keep_graph_(args.keep_graph) {}

XPUGraphImpl::~XPUGraphImpl() {
  try {
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("An XPU graph was not released: ", error.what());
  }
  for (const auto& [state, increment] : captured_generator_states_) {
    state->unregister_graph(this);
  }
}

void XPUGraphImpl::register_generator_state(
    c10::intrusive_ptr<XPUGeneratorState> state) {
  TORCH_CHECK(
      capture_dev_ == UNDEFINED_DEVICE,
      "A generator is registered with an XPUGraph before its capture");
  captured_generator_states_.emplace(std::move(state), 0);
}

void XPUGraphImpl::register_generator_state(const Generator& generator) {
  check_generator<XPUGeneratorImpl>(generator)->register_graph(this);
}

// SYCL forbids no other calls during a capture, whatever the mode.
void XPUGraphImpl::capture_begin(MempoolId_t pool, GraphCaptureMode /*mode*/) {
  TORCH_CHECK(
      capture_dev_ == UNDEFINED_DEVICE,
      "This XPUGraph has a capture already. Call reset() first, or use another");
  const auto stream = c10::xpu::getCurrentXPUStream();
  const auto device = stream.device_index();
  checkSupport(device);
  auto& queue = c10::xpu::impl::queueOf(stream);
  TORCH_CHECK(
      !isRecording(queue),
      c10::str("The stream ", stream, " records another XPUGraph"));
  register_generator_state(detail::getDefaultXPUGenerator(device));
  const auto options = TensorOptions(Device(kXPU, device)).dtype(kLong);
  for (const auto& [state, increment] : captured_generator_states_) {
    TORCH_CHECK(
        !state->capturing_,
        "A generator of this XPUGraph is in use by another");
    // Of the graph's memory, a replay would write over what was set before it.
    if (!state->seed_extragraph_.defined()) {
      state->seed_extragraph_ = at::empty({1}, options);
      state->offset_extragraph_ = at::empty({1}, options);
    }
  }
  auto graph = std::make_unique<xpuGraph_t>(
      C10_XPU_CHECK(xpuGraph_t(queue.get_context(), queue.get_device())));
  mempool_id_ = pool == MempoolId_t() ? graph_pool_handle() : pool;
  // Streams that wait for an event of this one record too.
  allocator::beginAllocateToPool(
      device, mempool_id_, [graph = *graph](sycl::queue* each) {
        return isRecording(*each) &&
            C10_XPU_CHECK(each->ext_oneapi_get_graph()) == graph;
      });
  auto undo = c10::make_scope_exit([&] {
    allocator::endAllocateToPool(device, mempool_id_);
    allocator::releasePool(device, mempool_id_);
  });
  C10_XPU_CHECK(graph->begin_recording(queue));
  undo.release();
  for (const auto& [state, increment] : captured_generator_states_) {
    state->capture_prologue();
  }
  {
    const std::lock_guard<std::mutex> lock(kept_mutex);
    kept()[this] = {*graph, {}};
  }
  graph_ = std::move(graph);
  capture_stream_ = stream;
  capture_dev_ = device;
  capture_ended_ = false;
}

void XPUGraphImpl::capture_end() {
  TORCH_CHECK(
      capture_dev_ != UNDEFINED_DEVICE && !capture_ended_,
      "This XPUGraph does not record");
  TORCH_CHECK(
      c10::xpu::getCurrentXPUStream(capture_dev_) == capture_stream_,
      "The capture of an XPUGraph must end on the stream where it began");
  capture_ended_ = true;
  for (auto& [state, increment] : captured_generator_states_) {
    increment = state->capture_epilogue();
  }
  allocator::endAllocateToPool(capture_dev_, mempool_id_);
  C10_XPU_CHECK(graph_->end_recording());
  {
    const std::lock_guard<std::mutex> lock(kept_mutex);
    kept()[this].recording.reset();
  }
  if (!keep_graph_) {
    instantiate();
    graph_.reset();
  }
}

void XPUGraphImpl::instantiate() {
  TORCH_CHECK(
      graph_ && capture_ended_,
      "An XPUGraph is instantiated after its capture, and only once unless "
      "keep_graph=True");
  graph_exec_ =
      std::make_unique<xpuGraphExec_t>(C10_XPU_CHECK(graph_->finalize()));
}

void XPUGraphImpl::replay() {
  TORCH_CHECK(
      capture_dev_ != UNDEFINED_DEVICE && capture_ended_,
      "An XPUGraph is replayed after its capture");
  if (!graph_exec_) {
    instantiate();
  }
  for (const auto& [state, increment] : captured_generator_states_) {
    state->replay_prologue(increment);
  }
  capture_stream_ = c10::xpu::getCurrentXPUStream(capture_dev_);
  c10::xpu::impl::launch(capture_stream_, [&](sycl::queue& queue) {
    return C10_XPU_CHECK(queue.ext_oneapi_graph(*graph_exec_));
  });
}

void XPUGraphImpl::reset() {
  if (capture_dev_ == UNDEFINED_DEVICE || c10::xpu::is_in_bad_fork()) {
    return;
  }
  const auto forget = c10::make_scope_exit([&] {
    const std::lock_guard<std::mutex> lock(kept_mutex);
    kept().erase(this);
  });
  if (!capture_ended_) {
    capture_ended_ = true;
    for (const auto& [state, increment] : captured_generator_states_) {
      state->capture_epilogue();
    }
    allocator::endAllocateToPool(capture_dev_, mempool_id_);
    C10_XPU_CHECK(graph_->end_recording());
  } else if (graph_exec_) { // it may still run
    C10_XPU_CHECK(c10::xpu::impl::queueOf(capture_stream_).wait());
  }
  graph_exec_.reset();
  graph_.reset();
  allocator::releasePool(capture_dev_, mempool_id_);
  capture_dev_ = UNDEFINED_DEVICE;
}

MempoolId_t XPUGraphImpl::pool() const {
  TORCH_CHECK(
      capture_dev_ != UNDEFINED_DEVICE,
      "An XPUGraph has a pool after its capture");
  return mempool_id_;
}

/// A dump needs the graph.
void XPUGraphImpl::enable_debug_mode() {
  keep_graph_ = true;
}

void XPUGraphImpl::debug_dump(const std::string& path) {
  TORCH_CHECK(
      graph_ && capture_ended_,
      "Call enable_debug_mode() before the capture to dump an XPUGraph");
  C10_XPU_CHECK(graph_->print_graph(path, /*verbose=*/true));
}

xpuGraph_t* XPUGraphImpl::raw_xpu_graph() {
  TORCH_CHECK(
      graph_ && capture_ended_,
      "An XPUGraph keeps its graph after a capture with keep_graph=True");
  return graph_.get();
}

xpuGraphExec_t* XPUGraphImpl::raw_xpu_graph_exec() {
  TORCH_CHECK(graph_exec_, "This XPUGraph is not instantiated");
  return graph_exec_.get();
}

} // namespace xpu

void XPUGeneratorState::increase(uint64_t increment) {
  // In groups of four, see Note [Generator state].
  increment = (increment + 3) / 4 * 4;
  if (!capturing_) {
    TORCH_CHECK(
        increment <=
            std::numeric_limits<uint64_t>::max() - philox_offset_per_thread_,
        "An XPU generator has not got the numbers that a graph draws. Set a new "
        "seed");
    philox_offset_per_thread_ += increment;
    return;
  }
  TORCH_CHECK(
      increment <= std::numeric_limits<uint32_t>::max() - offset_intragraph_,
      "An XPUGraph draws more than 2^32 random numbers in a thread");
  offset_intragraph_ += static_cast<uint32_t>(increment);
}

void XPUGeneratorState::register_graph(xpu::XPUGraphImpl* graph) {
  registered_graphs_.insert(graph);
}

void XPUGeneratorState::unregister_graph(xpu::XPUGraphImpl* graph) {
  registered_graphs_.erase(graph);
  if (registered_graphs_.empty()) {
    seed_extragraph_ = {};
    offset_extragraph_ = {};
  }
}

void XPUGeneratorState::capture_prologue() {
  capturing_ = true;
  offset_intragraph_ = 0;
}

uint64_t XPUGeneratorState::capture_epilogue() {
  capturing_ = false;
  return offset_intragraph_;
}

void XPUGeneratorState::replay_prologue(uint64_t wholegraph_increment) {
  if (wholegraph_increment == 0) {
    return;
  }
  const auto stream =
      c10::xpu::getCurrentXPUStream(seed_extragraph_.device().index());
  const auto write = [&stream](const TensorBase& tensor, uint64_t value) {
    c10::xpu::impl::launch(stream, [&](sycl::queue& queue) {
      return C10_XPU_CHECK(queue.fill(
          tensor.data_ptr<int64_t>(), static_cast<int64_t>(value), 1));
    });
  };
  write(seed_extragraph_, seed_);
  write(offset_extragraph_, philox_offset_per_thread_);
  increase(wholegraph_increment);
}

void XPUGeneratorImpl::graphsafe_set_state(
    const c10::intrusive_ptr<GeneratorImpl>& state) {
  const auto* from = dynamic_cast<XPUGeneratorImpl*>(state.get());
  TORCH_CHECK(from, "An XPU generator was given the state of another device's");
  state_ = from->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> XPUGeneratorImpl::graphsafe_get_state()
    const {
  return c10::make_intrusive<XPUGeneratorImpl>(device().index(), state_);
}

PhiloxXpuState XPUGeneratorImpl::philox_xpu_state(uint64_t increment) {
  if (!state_->capturing_) {
    const auto [seed, offset] = philox_engine_inputs(increment);
    return {seed, offset};
  }
  const auto offset = state_->offset_intragraph_;
  state_->increase(increment);
  return {
      state_->seed_extragraph_.data_ptr<int64_t>(),
      state_->offset_extragraph_.data_ptr<int64_t>(),
      offset};
}

void XPUGeneratorImpl::register_graph(xpu::XPUGraphImpl* graph) {
  graph->register_generator_state(state_);
  state_->register_graph(graph);
}

void XPUGeneratorImpl::unregister_graph(xpu::XPUGraphImpl* graph) {
  state_->unregister_graph(graph);
}

} // namespace at
