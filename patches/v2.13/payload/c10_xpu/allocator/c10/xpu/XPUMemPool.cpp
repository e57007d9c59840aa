#include <c10/xpu/XPUMemPool.h>

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <atomic>
#include <mutex>
#include <set>
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

[[noreturn]] void raiseNoCheckpoints() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "A pool of XPU memory cannot go back to an earlier state");
}

} // namespace

void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    XPUAllocator* allocator) {
  poolsOf(device).createOrIncrefPool(mempool_id, memoryOf(allocator));
}

XPUAllocator* keep(std::shared_ptr<XPUAllocator> allocator) {
  static std::mutex mutex;
  static auto& kept = *new std::set<std::shared_ptr<XPUAllocator>>;
  const std::lock_guard<std::mutex> guard(mutex);
  return kept.insert(std::move(allocator)).first->get();
}

void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::shared_ptr<XPUAllocator> allocator) {
  createOrIncrefPool(device, mempool_id, keep(std::move(allocator)));
}

void beginAllocateToPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::function<bool(sycl::queue*)> filter) {
  poolsOf(device).beginAllocateToPool(mempool_id, [filter](XPUStream stream) {
    return filter(&impl::queueOf(stream));
  });
}

void endAllocateToPool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).endAllocateToPool(mempool_id);
}

void releasePool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).releasePool(mempool_id);
}

void endPool(DeviceIndex device, MempoolId_t mempool_id) noexcept {
  if (is_in_bad_fork()) {
    return;
  }
  try {
    releasePool(device, mempool_id);
    emptyCache(mempool_id);
  } catch (const std::exception& error) {
    TORCH_WARN("A private pool of XPU memory was not released: ", error.what());
  }
}

int getPoolUseCount(DeviceIndex device, MempoolId_t mempool_id) {
  return poolsOf(device).getPoolUseCount(mempool_id);
}

void setUseOnOOM(DeviceIndex device, MempoolId_t mempool_id, bool use_on_oom) {
  poolsOf(device).setUseOnOOM(mempool_id, use_on_oom);
}

void setNoSplit(DeviceIndex /*device*/, MempoolId_t /*mempool_id*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "no_split=True: a pool of XPU memory splits its segments");
}

bool checkPoolLiveAllocations(
    DeviceIndex device,
    MempoolId_t mempool_id,
    const std::unordered_set<void*>& expected_live_allocations) {
  std::unordered_set<void*> live;
  for (const auto& segment : snapshot(mempool_id)) {
    int64_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (block.allocated && segment.device == device) {
        live.insert(reinterpret_cast<void*>(address)); // NOLINT
      }
      address += block.size;
    }
  }
  return live == expected_live_allocations;
}

std::shared_ptr<AllocatorState> getCheckpointState(
    DeviceIndex /*device*/,
    MempoolId_t /*id*/) {
  raiseNoCheckpoints();
}

CheckpointDelta setCheckpointPoolState(
    DeviceIndex /*device*/,
    std::shared_ptr<AllocatorState> /*as*/) {
  raiseNoCheckpoints();
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
  XPUCachingAllocator::createOrIncrefPool(device_, id_, allocator_);
  XPUCachingAllocator::setUseOnOOM(device_, id_, use_on_oom);
}

MemPool::~MemPool() {
  XPUCachingAllocator::endPool(device_, id_);
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
