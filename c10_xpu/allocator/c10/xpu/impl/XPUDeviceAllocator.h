#pragma once

#include <c10/util/Optional.h>
#include <c10/util/SmallVector.h>
#include <c10/util/llvmMathExtras.h>
#include <c10/xpu/XPUAllocator.h>
#include <c10/xpu/XPUMemoryStats.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <sycl/queue.hpp>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

// The core of the XPU caching allocator: the memory of one device. A test can
// put a model in place of the SYCL runtime, which it knows as MemoryBackend.

namespace c10::xpu::impl {

/// A point in a stream. Returns whether the stream has passed it; with `wait`,
/// waits for that first, unless a host task must end, which may wait for us.
using Fence = std::function<bool(bool wait)>;

// Note [Stream uses]
// ~~~~~~~~~~~~~~~~~~
// A block that other streams use stays pending after its free until each of
// them has passed a fence that was submitted then. Each allocation looks at one
// pending block, and one that needs memory at all of them.
//
// The owner of an external queue may destroy it, and another may follow at the
// same address. So a use keeps a copy of the queue, and a block for an external
// queue has no stream of its own, but is used by that queue: free blocks of
// external queues are idle, and serve all of them.

struct StreamUse {
  XPUStream stream;
  optional<sycl::queue> external; // the queue of an external stream
  Fence fence; // null until the block is freed, and it could be submitted

  bool operator==(const StreamUse& other) const {
    return stream == other.stream && external == other.external;
  }
};
struct StreamUses : SmallVector<StreamUse, 2> {};

class DeviceAllocator;

/// What the allocator asks of the SYCL runtime. Errors are c10::Error.
struct MemoryBackend {
  virtual ~MemoryBackend() = default;
  /// 512-byte aligned; null if there is not enough memory.
  virtual void* allocate(DeviceIndex device, size_t size) = 0;
  virtual void deallocate(DeviceIndex device, void* ptr) = 0;
  /// A fence after everything that is enqueued; null if all of it is done.
  virtual Fence fence(const StreamUse& use) = 0;
  /// A copy of the queue of an external stream.
  virtual optional<sycl::queue> externalQueue(XPUStream stream) = 0;
  /// What an allocation returns that finds no memory.
  virtual void* outOfMemory(DeviceAllocator&, size_t size, XPUStream) = 0;
};

/// The settings of PYTORCH_XPU_ALLOC_CONF: key:value pairs between commas.
struct C10_XPU_API AllocatorConfig {
  static constexpr size_t kUnlimited = ~size_t{0};
  /// No larger request can succeed, and rounding cannot overflow.
  static constexpr size_t kMaxRequest = size_t{1} << 60;

  /// max_split_size_mb, more than 20; here in bytes. Larger blocks are neither
  /// split nor given to smaller requests.
  size_t max_split_size = kUnlimited;
  /// A power of two: sizes are rounded up to one of that many steps between
  /// powers of two. 0: to 512 bytes only.
  size_t roundup_power2_divisions = 0;
  /// Between 0 and 1: the part of the memory limit above which idle segments
  /// are given back before new ones are asked for. 0: off.
  double garbage_collection_threshold = 0;

  /// Raises an error that names the allowed keys or values.
  static AllocatorConfig parse(std::string text);

  /// The size of the block for a request of `size` bytes, at most kMaxRequest.
  size_t roundSize(size_t size) const {
    if (roundup_power2_divisions != 0 &&
        size > kMinBlockSize * roundup_power2_divisions) {
      const size_t power = llvm::PowerOf2Floor(size);
      size = roundUp(size, power / roundup_power2_divisions);
    }
    return roundUp(size, kMinBlockSize);
  }
};

/// What the allocators of all devices share.
struct SharedState {
  MemoryBackend& backend;
  AllocatorConfig config{};
  BlockTable table{};
};

/// The memory of a card, which several ordinals may share. In bytes.
struct Card {
  size_t total = 0;
  std::atomic<size_t> reserved{0};
  std::atomic<size_t> limit{AllocatorConfig::kUnlimited};
  std::atomic<double> fraction{1}; // of the total, which the limit is
};

// Note [Private pools]
// ~~~~~~~~~~~~~~~~~~~~
// Free blocks, their lock and their counters belong to a stream in a pool. The
// first pool of a device serves all requests that no filter sends to a private
// one. Filters are asked with the mutex of the device held, which an allocation
// from a private pool keeps: the pool cannot be released meanwhile.
//
// Blocks are never destroyed, and so neither are pools: the next new pool gets
// what is left of one that has no uses and no segments any more.

struct Pool {
  MempoolId_t id;
  XPUCachingAllocator::XPUAllocator* allocator = nullptr; // the SYCL runtime
  bool use_on_oom = false; // by requests for the first pool
  int use_count = 0; // while it is not 0, the segments stay
  size_t num_segments = 0;

  bool isGone() const {
    return use_count == 0 && num_segments == 0;
  }
  /// Whether a request for a stream is for the pool.
  std::function<bool(XPUStream)> filter = nullptr;
};

class C10_XPU_API DeviceAllocator {
 public:
  DeviceAllocator(SharedState& shared, Card& card, DeviceIndex device)
      : shared_(shared), card_(card), device_(device) {}

  /// At least `size` bytes, not 0. Where there is not enough memory even after
  /// the cache was given back: null for `may_fail`, else it is outOfMemory.
  void* allocate(size_t size, XPUStream stream, bool may_fail = false);
  /// Frees the block that starts at `ptr`, of whichever device.
  static void free(Block* block, void* ptr);
  static void recordStream(Block* block, void* ptr, XPUStream stream);

  /// Of one private pool, or for {0, 0} all; not of private pools in use.
  void emptyCache(MempoolId_t pool = {});
  XPUCachingAllocator::DeviceStats stats();
  void resetPeakStats();
  void resetAccumulatedStats();
  /// Adds the segments of one private pool, or for {0, 0} all.
  void snapshot(
      std::vector<XPUCachingAllocator::SegmentInfo>& result,
      MempoolId_t pool = {});
  /// Whether an address lies in a segment of this device.
  bool owns(const void* ptr);
  Card& card() {
    return card_;
  }
  [[noreturn]] void throwOutOfMemory(size_t size, optional<size_t> free);

  // See XPUCachingAllocator.h.
  void createOrIncrefPool(
      MempoolId_t id,
      XPUCachingAllocator::XPUAllocator* allocator,
      bool use_on_oom);
  void beginAllocateToPool(
      MempoolId_t id,
      std::function<bool(XPUStream)> filter);
  void endAllocateToPool(MempoolId_t id);
  void releasePool(MempoolId_t id);
  int getPoolUseCount(MempoolId_t id);

 private:
  friend struct StreamBlocks;
  friend class StreamLock;

  StreamBlocks& blocksOf(const XPUStream& stream);
  C10_HIDDEN Block* allocateCached(
      StreamBlocks&,
      size_t size,
      size_t requested);
  C10_HIDDEN Block* allocateSlow(StreamBlocks&, size_t size, size_t requested);
  C10_HIDDEN Block* allocateSegment(
      StreamBlocks&,
      size_t size,
      size_t requested);
  C10_HIDDEN size_t segmentSize(size_t size) const;
  C10_HIDDEN void* obtain(const StreamBlocks&, size_t size);
  void freeLater(Block* block);
  void processPending(bool wait, size_t most = ~size_t{0});
  template <class Filter>
  void releaseIdle(size_t target, Filter filter);
  void release(Block* segment);

  Pool* findPool(MempoolId_t id);
  Pool& poolInUse(MempoolId_t id);
  C10_HIDDEN void countSegment(
      StreamBlocks&,
      size_t size,
      bool is_small,
      int64_t by);
  C10_HIDDEN void settle() noexcept;
  C10_HIDDEN void reportToProfiler(void* ptr, int64_t size);

  SharedState& shared_;
  Card& card_;
  const DeviceIndex device_;

  // The runtime's own streams have small ids. Written under the mutex, read
  // without.
  static constexpr StreamId kNumDirect = 512;
  std::array<std::atomic<StreamBlocks*>, kNumDirect> direct_{};
  std::atomic<StreamId> num_direct_{kNumDirect}; // 0 while a pool has a filter
  std::atomic<bool> has_pending_{false};
  // Counts slow allocations: the clock of the garbage collection.
  std::atomic<uint32_t> epoch_{0};

  // Guards everything below. Not taken on a hit; taken before the locks of
  // streams. Recursive, since giving memory back frees pending blocks.
  std::recursive_mutex mutex_;
  std::vector<std::shared_ptr<StreamBlocks>> streams_;
  std::deque<Pool> pools_{1}; // which do not move
  std::vector<Pool*> filtered_; // those with a filter; the last is asked first
  std::deque<Block*> pending_; // freed by client code, but streams use them
  std::vector<Block*> segments_; // their first blocks, in no order
  XPUCachingAllocator::DeviceStats stats_; // those of blocks as of settle()
};

} // namespace c10::xpu::impl
