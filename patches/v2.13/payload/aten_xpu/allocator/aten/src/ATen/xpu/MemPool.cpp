#include <c10/xpu/XPUMemPool.h>

// PyTorch's ATen/xpu/MemPool.h, which there is since 2.14. The class was in c10
// before, and is there still in this runtime. It is laid out in the same way.

namespace at::xpu {

using c10::xpu::MempoolId_t;
using c10::xpu::XPUCachingAllocator::XPUAllocator;

struct C10_EXPORT MemPool : c10::xpu::MemPool {
  MemPool(XPUAllocator* allocator, bool is_user_created, bool use_on_oom);
  ~MemPool();
  MempoolId_t id();
  XPUAllocator* allocator();
  int use_count();
  c10::DeviceIndex device();
  static MempoolId_t graph_pool_handle(bool is_user_created);
};

MemPool::MemPool(XPUAllocator* allocator, bool is_user_created, bool use_on_oom)
    : c10::xpu::MemPool(allocator, is_user_created, use_on_oom) {}

MemPool::~MemPool() = default;

MempoolId_t MemPool::id() {
  return c10::xpu::MemPool::id();
}

XPUAllocator* MemPool::allocator() {
  return c10::xpu::MemPool::allocator();
}

int MemPool::use_count() {
  return c10::xpu::MemPool::use_count();
}

c10::DeviceIndex MemPool::device() {
  return c10::xpu::MemPool::device();
}

MempoolId_t MemPool::graph_pool_handle(bool is_user_created) {
  return c10::xpu::MemPool::graph_pool_handle(is_user_created);
}

} // namespace at::xpu
