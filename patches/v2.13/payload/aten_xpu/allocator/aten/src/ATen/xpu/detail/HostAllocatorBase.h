#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace at::xpu::detail {

/// What the allocator of pinned memory derives from. The functions that are
/// not about one allocation are those of CachingHostAllocator.h.
struct HostAllocatorBase : at::HostAllocator {
  c10::DataPtr allocate(size_t size) final {
    return allocatePinned(size);
  }

  bool record_event(void* ptr, void* ctx, c10::Stream stream) final;
  void empty_cache() final;
  void copy_data(void* dest, const void* src, size_t count) const final;

  /// Only what is in use now: peaks and totals are not kept, and resetting
  /// them raises an error.
  at::HostStats get_stats() final;
  void reset_accumulated_stats() final;
  void reset_peak_stats() final;

 private:
  virtual c10::DataPtr allocatePinned(size_t size) const = 0;
};

} // namespace at::xpu::detail
