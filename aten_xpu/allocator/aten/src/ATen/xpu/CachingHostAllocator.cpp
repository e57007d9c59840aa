#include <ATen/xpu/CachingHostAllocator.h>

#include <ATen/xpu/detail/HostBlockPool.h>

namespace at {
namespace xpu {

namespace {

// Never destroyed: tensors with static storage duration return their blocks
// while the process ends.
detail::HostBlockPool& pool() {
  static auto* instance = new detail::HostBlockPool();
  return *instance;
}

void returnBlock(void* ctx) {
  if (ctx) {
    pool().free(static_cast<detail::HostBlock*>(ctx));
  }
}

struct CachingHostAllocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t size) const override {
    if (size == 0) {
      return {nullptr, nullptr, &returnBlock, c10::DeviceType::CPU};
    }
    auto* block = pool().allocate(size);
    return {block->ptr, block, &returnBlock, c10::DeviceType::CPU};
  }
};

} // namespace

c10::Allocator* getCachingHostAllocator() {
  static CachingHostAllocator allocator;
  return &allocator;
}

bool CachingHostAllocator_recordEvent(
    void* ptr,
    void* ctx,
    c10::xpu::XPUStream stream) {
  return pool().record(ptr, ctx, stream);
}

void CachingHostAllocator_emptyCache() {
  pool().emptyCache();
}

HostAllocatorStats CachingHostAllocator_getStats() {
  return pool().stats();
}

} // namespace xpu
} // namespace at
