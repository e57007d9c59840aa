#pragma once

#include <c10/core/Allocator.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUMemoryStats.h>
#include <c10/xpu/XPUStream.h>

namespace c10::xpu::XPUCachingAllocator {

/// What an allocator of XPU memory offers; the functions of XPUCachingAllocator
/// with the same names call the current one.
struct C10_XPU_API XPUAllocator : public Allocator {
  virtual void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) = 0;
  virtual void raw_delete(void* ptr) = 0;
  virtual void recordStream(const DataPtr& ptr, XPUStream stream) = 0;
  virtual void emptyCache(MempoolId_t mempool_id = {}) = 0;

  // To allocate is not const, but Allocator::allocate is.
  DataPtr allocate(size_t size) const final {
    const XPUStream stream = getCurrentXPUStream();
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    auto* self = const_cast<XPUAllocator*>(this);
    void* const ptr = self->raw_alloc_with_stream(size, stream);
    return {ptr, ptr, raw_deleter(), stream.device()};
  }
  DeleterFnPtr raw_deleter() const final;
};

} // namespace c10::xpu::XPUCachingAllocator
