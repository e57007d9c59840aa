#include <c10/xpu/XPUMemPool.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

// Private pools of memory, as torch.xpu.MemPool and torch.xpu.use_mem_pool use
// them.

namespace py = pybind11;

namespace torch::xpu {
namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;
using allocator::XPUAllocator;
using c10::xpu::MemPool;
using c10::xpu::MempoolId_t;

using Allocator = std::shared_ptr<XPUAllocator>;

MemPool* makePool(
    const Allocator& allocator,
    bool is_user_created,
    bool use_on_oom,
    bool no_split) {
  useXPU();
  return withoutGil([&] {
    auto pool = std::make_unique<MemPool>(
        allocator::keep(allocator), is_user_created, use_on_oom);
    if (no_split) {
      allocator::setNoSplit(pool->device(), pool->id());
    }
    return pool.release();
  });
}

Allocator allocatorOf(MemPool& pool) {
  return {pool.allocator(), [](auto* /*kept*/) {}};
}

/// For all threads, or for this one only.
template <bool kThisThread>
void beginAllocateToPool(int64_t device, MempoolId_t id) {
  const auto index = useDevice(device);
  const auto filter = [self = std::this_thread::get_id()](sycl::queue*) {
    return !kThisThread || std::this_thread::get_id() == self;
  };
  withoutGil([&] { allocator::beginAllocateToPool(index, id, filter); });
}

} // namespace

void bindMemPool(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  py::class_<MemPool, std::unique_ptr<MemPool, DeleteWithoutGil>>(
      module, "_XPUMemPool")
      .def(
          py::init(&makePool),
          py::arg("allocator") = py::none(),
          py::arg("is_user_created") = true,
          py::arg("use_on_oom") = false,
          py::arg("no_split") = false)
      .def_property_readonly("id", &MemPool::id)
      .def_property_readonly("allocator", &allocatorOf)
      .def_property_readonly("device", &MemPool::device)
      .def("use_count", torch::wrap_pybind_function(&MemPool::use_count));
  def("_xpu_graph_pool_handle", [] { return MemPool::graph_pool_handle(); });
  def("_xpu_beginAllocateToPool", &beginAllocateToPool<false>);
  def("_xpu_beginAllocateCurrentThreadToPool", &beginAllocateToPool<true>);
  def("_xpu_endAllocateToPool", [](int64_t device, MempoolId_t id) {
    const auto index = useDevice(device);
    withoutGil([&] { allocator::endAllocateToPool(index, id); });
  });
  def("_xpu_releasePool", [](int64_t device, MempoolId_t id) {
    const auto index = useDevice(device);
    withoutGil([&] { allocator::releasePool(index, id); });
  });
}

} // namespace torch::xpu
