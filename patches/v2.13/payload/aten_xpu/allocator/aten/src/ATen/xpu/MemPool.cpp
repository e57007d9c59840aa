#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemPool.h>

#include <torch/headeronly/version.h>

#include <memory>
#include <utility>

// PyTorch's ATen/xpu/MemPool.h, which there is since 2.14. The class was in c10
// before, and is there still in this runtime. It is laid out as in the PyTorch
// that this is compiled for.

namespace at::xpu {

using c10::xpu::MempoolId_t;
using c10::xpu::XPUCachingAllocator::XPUAllocator;

#if TORCH_VERSION_MINOR < 15

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

#else

struct C10_EXPORT MemPool {
  MemPool(
      std::shared_ptr<XPUAllocator> allocator,
      bool is_user_created,
      bool use_on_oom,
      bool no_split);
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;
  ~MemPool();
  MempoolId_t id();
  int use_count();
  c10::DeviceIndex device();
  static MempoolId_t graph_pool_handle(bool is_user_created);

 private:
  [[maybe_unused]] bool is_user_created_;
  MempoolId_t id_;
  c10::DeviceIndex device_;
};

MemPool::MemPool(
    std::shared_ptr<XPUAllocator> allocator,
    bool is_user_created,
    bool use_on_oom,
    bool no_split)
    : is_user_created_(is_user_created),
      id_(graph_pool_handle(is_user_created)),
      device_(c10::xpu::current_device()) {
  namespace pools = c10::xpu::XPUCachingAllocator;
  if (no_split) {
    pools::setNoSplit(device_, id_);
  }
  pools::createOrIncrefPool(device_, id_, std::move(allocator));
  pools::setUseOnOOM(device_, id_, use_on_oom);
}

MemPool::~MemPool() {
  c10::xpu::XPUCachingAllocator::endPool(device_, id_);
}

MempoolId_t MemPool::id() {
  return id_;
}

int MemPool::use_count() {
  return c10::xpu::XPUCachingAllocator::getPoolUseCount(device_, id_);
}

c10::DeviceIndex MemPool::device() {
  return device_;
}

#endif

MempoolId_t MemPool::graph_pool_handle(bool is_user_created) {
  return c10::xpu::MemPool::graph_pool_handle(is_user_created);
}

} // namespace at::xpu
