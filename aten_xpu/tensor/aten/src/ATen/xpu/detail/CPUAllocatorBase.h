#pragma once

#include <c10/core/Allocator.h>

namespace at::xpu::detail {

/// What an allocator for the CPU derives from.
struct CPUAllocatorBase : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) const final {
    return allocateBytes(nbytes);
  }

 private:
  virtual c10::DataPtr allocateBytes(size_t nbytes) const = 0;
};

} // namespace at::xpu::detail
