#include <ATen/xpu/XPUGraph.h>

// What PyTorch's headers declare for graphs is here, so that code which only
// may use graphs links.

namespace at {

namespace {

[[noreturn]] void raiseNoGraphs() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "XPU graphs are not supported through at::xpu::XPUGraph of C++. Use "
      "torch.xpu.XPUGraph of Python, where the device has SYCL's graph "
      "extension, or run the work without a graph");
}

} // namespace

namespace xpu {

MempoolId_t graph_pool_handle() {
  return c10::xpu::MemPool::graph_pool_handle(/*is_user_created=*/false);
}

// Since there is never an object, its other members are not called.
XPUGraphImpl::XPUGraphImpl(const GraphImplArgs& /*args*/)
    : capture_stream_([]() -> c10::xpu::XPUStream { raiseNoGraphs(); }()) {}

XPUGraphImpl::~XPUGraphImpl() = default;

void XPUGraphImpl::register_generator_state(
    c10::intrusive_ptr<at::XPUGeneratorState> /*state*/) {}

void XPUGraphImpl::register_generator_state(
    const at::Generator& /*generator*/) {}

void XPUGraphImpl::capture_begin(
    MempoolId_t /*pool*/,
    GraphCaptureMode /*mode*/) {}

void XPUGraphImpl::capture_end() {}

void XPUGraphImpl::instantiate() {}

void XPUGraphImpl::replay() {}

void XPUGraphImpl::reset() {}

MempoolId_t XPUGraphImpl::pool() const {
  return mempool_id_;
}

void XPUGraphImpl::enable_debug_mode() {}

void XPUGraphImpl::debug_dump(const std::string& /*path*/) {}

xpuGraph_t* XPUGraphImpl::raw_xpu_graph() {
  return nullptr;
}

xpuGraphExec_t* XPUGraphImpl::raw_xpu_graph_exec() {
  return nullptr;
}

} // namespace xpu

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
  const auto [seed, offset] = philox_engine_inputs(increment);
  return {seed, offset};
}

void XPUGeneratorImpl::register_graph(xpu::XPUGraphImpl* /*graph*/) {
  raiseNoGraphs();
}

void XPUGeneratorImpl::unregister_graph(xpu::XPUGraphImpl* /*graph*/) {
  raiseNoGraphs();
}

} // namespace at
