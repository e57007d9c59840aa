#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemoryTools.h>

#include <mutex>

// What torch/csrc/xpu/XPUPluggableAllocator.h declares. That header is not
// included, since its own class overrides what is final here.

namespace torch::xpu::XPUPluggableAllocator {

namespace allocator = c10::xpu::XPUCachingAllocator;
using AllocatorPtr = std::shared_ptr<allocator::XPUAllocator>;

namespace {

/// One of a class that code outside derived from PyTorch's XPUAllocator. It has
/// not the virtual functions that the runtime's own has beyond those.
class OuterAllocator final : public allocator::XPUAllocator {
 public:
  explicit OuterAllocator(AllocatorPtr outer) : outer_(std::move(outer)) {}

  XPUAllocator* outer() const {
    return outer_.get();
  }

  void* raw_alloc_with_stream(size_t nbytes, c10::xpu::XPUStream stream) final {
    c10::xpu::check_device_index(stream.device_index()); // not in a fork
    std::call_once(
        initialized_, [this] { outer_->init(c10::xpu::device_count()); });
    return nbytes == 0 ? nullptr
                       : allocator::allocateFrom(*outer_, nbytes, stream);
  }
  void raw_delete(void* ptr) final {
    if (ptr && !c10::xpu::is_in_bad_fork()) {
      outer_->raw_delete(ptr);
    }
  }
  void recordStream(const c10::DataPtr& ptr, c10::xpu::XPUStream stream) final {
    // The runtime's own class has a final function of this name.
    static_cast<c10::DeviceAllocator&>(*outer_).recordStream(
        ptr, stream.unwrap());
  }
  void emptyCache(c10::MempoolId_t mempool_id) final {
    outer_->emptyCache(mempool_id);
  }

 private:
  const AllocatorPtr outer_;
  std::once_flag initialized_;
};

} // namespace

/// The current allocator belongs to the process.
TORCH_XPU_API AllocatorPtr getCurrentAllocator() {
  auto* const current = allocator::get();
  const auto* const own = dynamic_cast<OuterAllocator*>(current);
  return {own ? own->outer() : current, [](auto* /*kept*/) {}};
}

TORCH_XPU_API AllocatorPtr createCustomAllocator(
    std::function<allocator::AllocFn> alloc_fn,
    std::function<allocator::FreeFn> free_fn) {
  TORCH_CHECK(
      alloc_fn && free_fn, "An XPU allocator was given a null function");
  return std::make_shared<allocator::PluggableAllocator>(
      std::move(alloc_fn), std::move(free_fn));
}

TORCH_XPU_API void changeCurrentAllocator(const AllocatorPtr& chosen) {
  const bool is_of_the_runtime = !chosen || chosen.get() == allocator::get() ||
      dynamic_cast<allocator::PluggableAllocator*>(chosen.get());
  allocator::changeCurrentAllocator(
      is_of_the_runtime ? chosen : std::make_shared<OuterAllocator>(chosen));
}

} // namespace torch::xpu::XPUPluggableAllocator
