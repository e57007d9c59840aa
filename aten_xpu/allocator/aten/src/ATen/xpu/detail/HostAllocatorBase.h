#pragma once

#include <c10/core/Allocator.h>

namespace at::xpu::detail {

/// What the allocator of pinned memory derives from.
struct HostAllocatorBase : c10::Allocator {
  c10::DataPtr allocate(size_t size) const final {
    return allocatePinned(size);
  }

 private:
  virtual c10::DataPtr allocatePinned(size_t size) const = 0;
};

} // namespace at::xpu::detail
