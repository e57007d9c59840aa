#include <c10/xpu/XPUCachingAllocator.h>

namespace c10::xpu::XPUCachingAllocator {

// To allocate is not const, but Allocator::allocate is.
DataPtr XPUAllocator::allocate(size_t size) const {
  const XPUStream stream = getCurrentXPUStream();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  auto* self = const_cast<XPUAllocator*>(this);
  void* const ptr = self->raw_alloc_with_stream(size, stream);
  return {ptr, ptr, raw_deleter(), stream.device()};
}

DeleterFnPtr XPUAllocator::raw_deleter() const {
  return &XPUCachingAllocator::raw_delete;
}

} // namespace c10::xpu::XPUCachingAllocator
