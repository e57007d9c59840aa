#pragma once

#include <c10/xpu/XPUCachingAllocator.h>

#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

/// A private pool is memory of a device that only requests sent to it get. Its
/// segments stay while it is in use, also if nothing is allocated from them.
/// Afterwards emptyCache gives the free ones back, as does an allocation that
/// would end in an OutOfMemoryError. Pools are named by a device and an id; to
/// name one that is not in use is an error.

namespace c10::xpu::XPUCachingAllocator {

/// Uses a pool, which it makes if need be. Its segments come from `allocator`,
/// which must outlive them, or for null from the SYCL runtime. It is called
/// with locks held: it must not take Python's GIL.
C10_XPU_API void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    XPUAllocator* allocator = nullptr);
/// Uses a pool, and sends it the requests for which `filter` is true until
/// endAllocateToPool; of several such pools, the last one gets them. A filter
/// must neither allocate nor take Python's GIL: it is called with locks held.
C10_XPU_API void beginAllocateToPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::function<bool(sycl::queue*)> filter);
C10_XPU_API void endAllocateToPool(DeviceIndex device, MempoolId_t mempool_id);
/// Ends one use.
C10_XPU_API void releasePool(DeviceIndex device, MempoolId_t mempool_id);
/// The end of a MemPool: releasePool and emptyCache, and warns if they fail.
C10_XPU_API void endPool(DeviceIndex device, MempoolId_t mempool_id) noexcept;
/// 0 for a pool that does not exist.
C10_XPU_API int getPoolUseCount(DeviceIndex device, MempoolId_t mempool_id);
/// Whether the pool also serves what would otherwise end in an
/// OutOfMemoryError.
C10_XPU_API void setUseOnOOM(
    DeviceIndex device,
    MempoolId_t mempool_id,
    bool use_on_oom);

/// Keeps an allocator until the process ends: memory of a pool may outlive it.
C10_XPU_API XPUAllocator* keep(std::shared_ptr<XPUAllocator> allocator);

// As PyTorch's headers declare them since 2.15:
/// As above, and keeps the allocator.
C10_XPU_API void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::shared_ptr<XPUAllocator> allocator);
/// Raises: every pool splits its segments.
C10_XPU_API void setNoSplit(DeviceIndex device, MempoolId_t mempool_id);
/// Whether these are what is allocated from the pool.
C10_XPU_API bool checkPoolLiveAllocations(
    DeviceIndex device,
    MempoolId_t mempool_id,
    const std::unordered_set<void*>& expected_live_allocations);

struct AllocatorState {
  virtual ~AllocatorState() = default;
};
struct CheckpointDelta {
  std::vector<void*> ptrs_freed;
  std::vector<DataPtr> dataptrs_allocd;
};
/// These raise: a pool cannot go back to an earlier state.
C10_XPU_API std::shared_ptr<AllocatorState> getCheckpointState(
    DeviceIndex device,
    MempoolId_t id);
C10_XPU_API CheckpointDelta
setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> as);

} // namespace c10::xpu::XPUCachingAllocator

namespace c10::xpu {

/// Uses a new pool of the current device while it lives. With `use_on_oom`, it
/// also gets what would otherwise end in an OutOfMemoryError.
struct C10_XPU_API MemPool {
  MemPool(
      XPUCachingAllocator::XPUAllocator* allocator = nullptr,
      bool is_user_created = true,
      bool use_on_oom = false);
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;
  ~MemPool();

  MempoolId_t id();
  XPUCachingAllocator::XPUAllocator* allocator();
  int use_count();
  DeviceIndex device();
  /// An id that no pool has: {0, n} if `is_user_created`, else {n, 0}.
  static MempoolId_t graph_pool_handle(bool is_user_created = true);

 private: // laid out as in PyTorch, whose headers programs may be compiled with
  XPUCachingAllocator::XPUAllocator* allocator_;
  [[maybe_unused]] bool is_user_created_;
  MempoolId_t id_;
  DeviceIndex device_;
};

} // namespace c10::xpu
