#include <c10/xpu/XPUMemPool.h>

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <atomic>
#include <utility>

namespace c10::xpu::XPUCachingAllocator {

namespace {

impl::DeviceAllocator& poolsOf(DeviceIndex device) {
  TORCH_CHECK(
      impl::isNative(get()), "Only the native XPU allocator has private pools");
  return impl::deviceAllocator(device);
}

impl::PoolMemory memoryOf(XPUAllocator* allocator) {
  if (allocator == nullptr || impl::isNative(allocator)) {
    return {};
  }
  const auto allocate = [=](size_t size, XPUStream stream) -> void* {
    try {
      return allocateFrom(*allocator, size, stream);
    } catch (const OutOfMemoryError&) {
      return nullptr;
    }
  };
  return {allocate, [=](void* ptr) { allocator->raw_delete(ptr); }};
}

} // namespace

void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    XPUAllocator* allocator) {
  poolsOf(device).createOrIncrefPool(mempool_id, memoryOf(allocator));
}

void beginAllocateToPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::function<bool(sycl::queue*)> filter) {
  poolsOf(device).beginAllocateToPool(mempool_id, [filter](XPUStream stream) {
    return filter(&stream.queue());
  });
}

void endAllocateToPool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).endAllocateToPool(mempool_id);
}

void releasePool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).releasePool(mempool_id);
}

int getPoolUseCount(DeviceIndex device, MempoolId_t mempool_id) {
  return poolsOf(device).getPoolUseCount(mempool_id);
}

} // namespace c10::xpu::XPUCachingAllocator

namespace c10::xpu {

MempoolId_t MemPool::graph_pool_handle(bool is_user_created) {
  static std::atomic<CaptureId_t> user_created{0};
  static std::atomic<CaptureId_t> captured{0};
  return is_user_created ? MempoolId_t{0, ++user_created}
                         : MempoolId_t{++captured, 0};
}

MemPool::MemPool(
    XPUCachingAllocator::XPUAllocator* allocator,
    bool is_user_created,
    bool use_on_oom)
    : allocator_(allocator),
      is_user_created_(is_user_created),
      id_(graph_pool_handle(is_user_created)),
      device_(current_device()) {
  auto& device = XPUCachingAllocator::poolsOf(device_);
  auto memory = XPUCachingAllocator::memoryOf(allocator_);
  device.createOrIncrefPool(id_, std::move(memory), use_on_oom);
}

MemPool::~MemPool() {
  if (is_in_bad_fork()) {
    return;
  }
  try {
    XPUCachingAllocator::releasePool(device_, id_);
    XPUCachingAllocator::emptyCache(id_);
  } catch (const std::exception& error) {
    TORCH_WARN("A private pool of XPU memory was not released: ", error.what());
  }
}

MempoolId_t MemPool::id() {
  return id_;
}

XPUCachingAllocator::XPUAllocator* MemPool::allocator() {
  return allocator_;
}

int MemPool::use_count() {
  return XPUCachingAllocator::getPoolUseCount(device_, id_);
}

DeviceIndex MemPool::device() {
  return device_;
}

} // namespace c10::xpu
