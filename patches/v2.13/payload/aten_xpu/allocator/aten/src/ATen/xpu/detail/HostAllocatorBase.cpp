#include <ATen/xpu/detail/HostAllocatorBase.h>

#include <ATen/xpu/CachingHostAllocator.h>
#include <c10/util/Exception.h>

namespace at::xpu::detail {

REGISTER_HOST_ALLOCATOR(
    at::kXPU,
    static_cast<HostAllocatorBase*>(getCachingHostAllocator()))

bool HostAllocatorBase::record_event(void* ptr, void* ctx, c10::Stream stream) {
  return CachingHostAllocator_recordEvent(
      ptr, ctx, c10::xpu::XPUStream(stream));
}

void HostAllocatorBase::empty_cache() {
  CachingHostAllocator_emptyCache();
}

void HostAllocatorBase::copy_data(void* dest, const void* src, size_t count)
    const {
  default_copy_data(dest, src, count);
}

at::HostStats HostAllocatorBase::get_stats() {
  const HostAllocatorStats from = CachingHostAllocator_getStats();
  at::HostStats to;
  const size_t active = from.in_use_bytes() + from.waiting_bytes;
  to.active_bytes.current = static_cast<int64_t>(active);
  to.allocated_bytes.current = static_cast<int64_t>(from.reserved_bytes);
  to.num_host_alloc = static_cast<int64_t>(from.num_host_alloc);
  to.num_host_free = static_cast<int64_t>(from.num_host_free);
  return to;
}

void HostAllocatorBase::reset_accumulated_stats() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "The allocator of pinned memory for XPU keeps no sums to reset");
}

void HostAllocatorBase::reset_peak_stats() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "The allocator of pinned memory for XPU keeps no peaks to reset");
}

} // namespace at::xpu::detail
