#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUPluggableAllocator.h>

// What torch/csrc/xpu/XPUPluggableAllocator.h declares. That header is not
// included, since its own class overrides what is final here.

namespace torch::xpu::XPUPluggableAllocator {

namespace allocator = c10::xpu::XPUCachingAllocator;
using Allocator = std::shared_ptr<allocator::XPUAllocator>;

/// The current allocator belongs to the process.
TORCH_XPU_API Allocator getCurrentAllocator() {
  return {allocator::get(), [](auto* /*kept*/) {}};
}

TORCH_XPU_API Allocator createCustomAllocator(
    std::function<allocator::AllocFn> alloc_fn,
    std::function<allocator::FreeFn> free_fn) {
  TORCH_CHECK(
      alloc_fn && free_fn, "An XPU allocator was given a null function");
  return std::make_shared<allocator::PluggableAllocator>(
      std::move(alloc_fn), std::move(free_fn));
}

/// A class that code outside derives from PyTorch's XPUAllocator has not the
/// virtual functions that the runtime's own has beyond those.
TORCH_XPU_API void changeCurrentAllocator(const Allocator& chosen) {
  TORCH_CHECK(
      !chosen || chosen.get() == allocator::get() ||
          dynamic_cast<allocator::PluggableAllocator*>(chosen.get()),
      "The XPU allocator cannot be of a class of your own: make it with "
      "createCustomAllocator");
  allocator::changeCurrentAllocator(chosen);
}

} // namespace torch::xpu::XPUPluggableAllocator
