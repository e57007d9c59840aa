#pragma once

#include <c10/core/Allocator.h>

namespace at::xpu::detail {

/// What an allocator for the CPU derives from.
struct CPUAllocatorBase : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) final {
    return allocateBytes(nbytes);
  }
  void copy_data(void* dest, const void* src, size_t count) const final {
    default_copy_data(dest, src, count);
  }

 private:
  virtual c10::DataPtr allocateBytes(size_t nbytes) const = 0;
};

} // namespace at::xpu::detail
