#pragma once

#include <c10/util/Optional.h>
#include <c10/util/SmallVector.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/impl/XPUAllocatorConfig.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <sycl/queue.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

// The core of the XPU caching allocator: the memory of one device. It knows of
// the SYCL runtime only what MemoryBackend says, so that a test can put a model
// in its place.

namespace c10::xpu::impl {

using XPUCachingAllocator::DeviceStats;
using XPUCachingAllocator::SegmentInfo;
using XPUCachingAllocator::Stat;
using XPUCachingAllocator::StatType;
using XPUCachingAllocator::TraceEvent;

/// A point in a stream that work enqueued before has not passed.
struct Fence {
  virtual ~Fence() = default;
  virtual bool complete() = 0;
  virtual void wait() = 0;
  /// Whether a host task must end first, which may never be if we wait.
  virtual bool waitsForHost() = 0;
};

/// What the allocator asks of the SYCL runtime. Errors are c10::Error.
struct MemoryBackend {
  virtual ~MemoryBackend() = default;
  /// 512-byte aligned; null if there is not enough memory.
  virtual void* allocate(DeviceIndex device, size_t size) = 0;
  virtual void deallocate(DeviceIndex device, void* ptr) = 0;
  /// A fence after everything that is enqueued; null if all of it is done.
  /// `external` is what externalQueue returned.
  virtual std::unique_ptr<Fence> fence(
      XPUStream stream,
      sycl::queue* external) = 0;
  /// The queue of an external stream; null for the runtime's own streams.
  virtual std::shared_ptr<sycl::queue> externalQueue(XPUStream stream) = 0;
  virtual size_t totalMemory(DeviceIndex device) = 0;
  /// Bytes; nothing if SYCL does not tell.
  virtual optional<size_t> freeMemory(DeviceIndex device) = 0;
};

/// The memory of a card, which several ordinals may share.
struct Card {
  std::atomic<size_t> reserved{0}; // bytes
  std::atomic<size_t> limit{AllocatorConfig::kUnlimited}; // bytes
};

// Note [Exact peaks]
// ~~~~~~~~~~~~~~~~~~
// The peak of, say, the allocated bytes of a device is the maximum over time of
// a sum over its streams. A shared counter would give it, and would make every
// allocation of every thread write the same cache line. Instead each stream has
// counters of its own and, for each of them, `room`: how far it may grow before
// the device could reach a new peak. The room of all streams together is at
// most the known peak less the current sum, so that as long as each stays
// within its own, no peak is missed.
//
// An operation that would exceed its room is done with all streams of the
// device locked instead. Then the sum is known, the peak is raised to it if it
// is higher, and what lies between the two is dealt out again.

/// What allocating and freeing a block changes.
enum Counter : size_t {
  kAllocation,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kRequestedBytes,
  kNumCounters
};
using Counts = std::array<int64_t, kNumCounters>;
/// Indexed by StatType.
using CountsByType = std::array<Counts, 3>;

// Note [Stream uses]
// ~~~~~~~~~~~~~~~~~~
// recordStream notes which other streams use a block. When such a block is
// freed it is pending until each of these streams has passed a fence, which is
// submitted after the free. A fence costs more than ten allocations, so that
// blocks wait for one until there are eight or 16 MiB of them; it is later than
// the first of them needs, which is safe. Streams are asked every eighth
// allocation, and before the device is asked for more memory.
//
// The owner of an external queue may destroy it at any time, and another may
// follow at the same address. So every block that was allocated for an external
// stream counts as used by it: its free blocks are never in use. A copy of the
// queue is kept as long as such a block is allocated or pending.

class DeviceAllocator;

/// The blocks of one stream of one device.
struct C10_XPU_API StreamBlocks {
  StreamBlocks(
      DeviceAllocator& device,
      XPUStream stream,
      bool is_external,
      const AllocatorConfig& config)
      : device(device),
        is_external(is_external),
        stream(stream),
        config(config) {}
  StreamBlocks(const StreamBlocks&) = delete;
  StreamBlocks& operator=(const StreamBlocks&) = delete;

  // The caller holds `lock`. With `exclusive` it holds those of all streams of
  // the device; without, an operation that the counters have no room for does
  // nothing and returns null or false.

  /// A block from the cache; null if none fits.
  Block* allocate(size_t size, size_t requested, BlockTable&, bool exclusive);
  /// Makes a block free and merges it with its neighbours.
  bool free(Block* block, uint32_t epoch, bool exclusive);
  /// Client code freed the block, but a stream still uses it.
  /// Returns the streams that do.
  SmallVector<XPUStream, 2> setPending(Block* block);
  /// Adds a segment, as one free block.
  Block* addSegment(char* ptr, size_t size, bool is_small);
  /// Forgets a block, which is in no list.
  void recycle(Block* block);
  /// Raises unless an allocated block starts at `ptr`.
  void checkAllocated(const Block* block, const void* ptr) const;
  FreeBlocks& freeBlocks(bool is_small) {
    return is_small ? small : large;
  }
  int64_t current(size_t type, size_t counter) const {
    return limit[type][counter] - room[type][counter];
  }
  /// The sum of all increases.
  int64_t totalIncrease(size_t type, size_t counter) const {
    return type == 0 ? increased[1][counter] + increased[2][counter]
                     : increased[type][counter];
  }

  DeviceAllocator& device;
  const bool is_external;

  // Guards what follows, up to where another lock is named.
  SpinLock lock;
  XPUStream stream; // changes for an external queue without blocks in use
  std::shared_ptr<sycl::queue> external;
  // A counter is kept as the room that is left up to its limit, so that one
  // subtraction changes and checks it. See Note [Exact peaks]
  CountsByType limit{};
  CountsByType room{};
  CountsByType increased{}; // of a pool: the sums of all increases
  std::unordered_map<Block*, SmallVector<XPUStream, 2>> stream_uses;

  struct Fenced {
    std::unique_ptr<Fence> fence;
    std::vector<Block*> blocks;
  };
  struct Use {
    XPUStream stream;
    std::vector<Block*> unfenced;
    std::deque<Fenced> fenced;
  };
  std::mutex uses_mutex; // not taken while `lock` is held
  std::list<Use> uses; // guarded by uses_mutex, as the two below
  size_t num_unfenced = 0;
  size_t unfenced_bytes = 0;
  std::atomic<int> num_pending{0};
  std::atomic<uint32_t> turn{0};

 private:
  bool charge(bool is_small, const Counts& by, bool exclusive);
  Block* newBlock();

  const AllocatorConfig& config;
  FreeBlocks small{9}; // one size to a bin
  FreeBlocks large{16};
  std::deque<Block> blocks; // which do not move
  Block* unused = nullptr;
};

/// Calls the observers.
C10_XPU_API void notifyOutOfMemory(
    DeviceIndex device,
    size_t requested,
    size_t total,
    size_t free);

class C10_XPU_API DeviceAllocator {
 public:
  DeviceAllocator(
      MemoryBackend& backend,
      BlockTable& table,
      Card& card,
      DeviceIndex device,
      const AllocatorConfig& config);

  /// A block of at least `size` bytes, not 0; null if there is not enough
  /// memory even after the cache was given back.
  Block* allocate(size_t size, StreamId stream);

  /// Frees the block that starts at `ptr`, of whichever device. Returns its
  /// size.
  static size_t free(Block* block, void* ptr);
  static void recordStream(Block* block, void* ptr, XPUStream stream);
  /// The size of the block; raises unless it is allocated and starts at `ptr`.
  static size_t checkedSize(const Block* block, const void* ptr);

  void emptyCache();
  void setMemoryFraction(double fraction);
  void cacheInfo(size_t& total, size_t& largest);
  DeviceStats stats();
  void resetPeakStats();
  void resetAccumulatedStats();
  void snapshot(std::vector<SegmentInfo>& result);
  /// Whether an address lies in a segment of this device.
  bool owns(const void* ptr);
  [[noreturn]] void throwOutOfMemory(size_t size);
  DeviceIndex index() const {
    return device_;
  }

 private:
  struct LockAll;
  enum class Wait { No, Yes };

  Block* allocateSlow(size_t size, size_t requested, StreamId stream);
  Block* allocateExclusive(StreamBlocks&, size_t size, size_t requested);
  Block* allocateSegment(StreamBlocks&, size_t size, size_t requested);
  StreamBlocks& findOrMake(StreamId stream);
  size_t growth(size_t size) const;
  void* obtain(size_t size);
  void settle(StreamBlocks& asker);

  void freeExclusive(StreamBlocks&, Block*, const void* ptr);
  void addUses(
      StreamBlocks&,
      Block*,
      size_t size,
      const SmallVector<XPUStream, 2>& uses);
  void processUses(StreamBlocks&, Wait wait);
  void finishFree(StreamBlocks&, Block*);

  std::vector<Block*> idleSegments(const StreamBlocks* of = nullptr);
  void release(std::vector<Block*> segments);
  void releaseSegment(StreamBlocks&, Block*);
  void releaseOversize(StreamBlocks&, size_t size);
  void releaseAll();
  void collectGarbage();
  template <class F>
  void forEachOwnStat(F f);

  static bool isDirect(StreamId id) {
    return id >= 0 && id < kNumDirect;
  }
  uint32_t epoch() const {
    return epoch_.load(std::memory_order_relaxed);
  }

  MemoryBackend& backend_;
  BlockTable& table_;
  Card& card_;
  const DeviceIndex device_;
  const AllocatorConfig config_;

  // The runtime's own streams have small ids. Written under the mutex, read
  // without.
  static constexpr StreamId kNumDirect = 512;
  std::array<std::atomic<StreamBlocks*>, kNumDirect> direct_{};
  // Counts the segments asked for: the clock of the garbage collection.
  std::atomic<uint32_t> epoch_{0};

  // Guards everything below. Taken before the lock of a stream, and not taken
  // on a hit. As in the CUDA allocator it is recursive, since to give memory
  // back may free blocks.
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<StreamBlocks>> streams_;
  struct Segment {
    Block* first;
    size_t size; // bytes
  };
  std::map<const char*, Segment> segments_; // by address
  CountsByType peak_{};
  CountsByType allocated_base_{};
  CountsByType freed_base_{};
  DeviceStats stats_; // what is not counted by stream
};

} // namespace c10::xpu::impl
