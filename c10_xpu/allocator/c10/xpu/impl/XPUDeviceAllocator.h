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
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

// The core of the XPU caching allocator: the memory of one device. All it knows
// of the SYCL runtime is MemoryBackend, so that a test can put a model in its
// place.

namespace c10::xpu::impl {

/// A point in a stream. Returns whether the stream has passed it; with `wait`,
/// waits for that first, unless a host task must end, which may wait for us.
using Fence = std::function<bool(bool wait)>;

/// What the allocator asks of the SYCL runtime. Errors are c10::Error.
struct MemoryBackend {
  virtual ~MemoryBackend() = default;
  /// 512-byte aligned; null if there is not enough memory.
  virtual void* allocate(DeviceIndex device, size_t size) = 0;
  virtual void deallocate(DeviceIndex device, void* ptr) = 0;
  /// A fence after everything that is enqueued; null if all of it is done.
  /// `external` is what externalQueue returned for the stream.
  virtual Fence fence(XPUStream stream, sycl::queue* external) = 0;
  /// The queue of an external stream; null for the runtime's own streams.
  virtual std::shared_ptr<sycl::queue> externalQueue(XPUStream stream) = 0;
  virtual size_t totalMemory(DeviceIndex device) = 0;
  /// Bytes; nothing if SYCL does not tell.
  virtual optional<size_t> freeMemory(DeviceIndex device) = 0;
};

/// The memory of a card, which several ordinals may share. In bytes.
struct Card {
  std::atomic<size_t> reserved{0};
  std::atomic<size_t> limit{AllocatorConfig::kUnlimited};
};

// Note [Exact peaks]
// ~~~~~~~~~~~~~~~~~~
// The peak of, say, the allocated bytes of a device is the maximum over time of
// a sum over its streams. A shared counter would give it, and would make every
// allocation of every thread write the same cache line. Instead each stream has
// counters of its own and, for each of them, `room`: how far it may grow before
// the device could reach a new peak. The room of all streams together is at
// most the known peak less the current sum, so that no peak is missed as long
// as each stream stays within its own.
//
// An operation that would exceed its room is done with all streams of the
// device locked. Then the sum is known, the peak is raised to it if it is
// higher, and what lies between the two is dealt out again.

enum Counter : size_t {
  // What allocating and freeing a block changes.
  kAllocation,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kRequestedBytes,
  kOversizeAllocation,
  kNumBlockCounters,
  // These change only while all streams are locked.
  kSegment = kNumBlockCounters,
  kReservedBytes,
  kOversizeSegment,
  kNumCounters
};
using Counts = std::array<int64_t, kNumCounters>;
/// Indexed by StatType.
using CountsByType = std::array<Counts, 3>;

// Note [Stream uses]
// ~~~~~~~~~~~~~~~~~~
// recordStream notes which other streams use a block. A block that is freed
// stays pending until each of these streams has passed a fence that was
// submitted after the free. Fences are looked at by every eighth allocation,
// and before the device is asked for more memory.
//
// The owner of an external queue may destroy it, and another may follow at the
// same address. So a block of an external stream always counts as used by that
// stream: its free blocks are idle, and may serve any external stream. A copy
// of the queue is kept as long as one of its blocks is allocated or pending.

class DeviceAllocator;

/// The blocks of one stream of one device.
struct C10_XPU_API StreamBlocks {
  StreamBlocks(DeviceAllocator& device, XPUStream stream, bool is_external)
      : device(device), is_external(is_external), stream(stream) {}
  StreamBlocks(const StreamBlocks&) = delete;
  StreamBlocks& operator=(const StreamBlocks&) = delete;

  // The caller of these holds `lock`, and with `exclusive` those of all streams
  // of the device. Without, an operation for which the counters have no room
  // does nothing and returns null or false.

  /// A block from the cache; null if none fits.
  Block* allocate(size_t size, size_t requested, bool exclusive);
  /// Makes a block free and merges it with its neighbours.
  bool free(Block* block, bool exclusive);
  /// Client code freed the block, but the returned streams still use it.
  SmallVector<XPUStream, 2> setPending(Block* block);
  /// Adds a segment as one free block; with all streams locked.
  Block* addSegment(char* ptr, size_t size, bool is_small);
  /// Counts a segment that is added (1) or given back (-1).
  void countSegment(const Block* segment, int64_t by);
  void recycle(Block* block);
  /// Raises unless an allocated block starts at `ptr`.
  void checkAllocated(const Block* block, const void* ptr) const;

  FreeBlocks& freeBlocks(bool is_small) {
    return is_small ? small : large;
  }
  int64_t current(size_t type, size_t counter) const {
    return limit[type][counter] - room[type][counter];
  }
  int64_t totalIncrease(size_t type, size_t counter) const {
    return type == 0 ? increased[1][counter] + increased[2][counter]
                     : increased[type][counter];
  }

  DeviceAllocator& device;
  const bool is_external;

  SpinLock lock; // guards what follows
  XPUStream stream; // of vacant blocks of an external stream it may change
  std::shared_ptr<sycl::queue> external; // null while they are vacant
  // A counter is kept as the room that is left up to its limit, so that one
  // subtraction both changes and checks it. See Note [Exact peaks]
  CountsByType limit{};
  CountsByType room{};
  CountsByType increased{}; // of a pool: the sums of all increases
  FreeBlocks small{9}; // one size to a bin
  FreeBlocks large{16};
  std::unordered_map<Block*, SmallVector<XPUStream, 2>> stream_uses;
  std::deque<Block> blocks; // which do not move
  Block* unused = nullptr;

  struct Pending {
    Block* block;
    Fence fence; // null until it could be submitted
  };
  struct Use {
    XPUStream stream;
    std::deque<Pending> pending; // in the order of their fences
  };
  std::mutex uses_mutex; // guards `uses`; not taken while `lock` is held
  std::list<Use> uses;
  std::atomic<int> num_pending{0};
  std::atomic<uint32_t> turn{0};

 private:
  bool charge(bool is_small, const Counts& by, bool exclusive);
  Block* newBlock();
};

class C10_XPU_API DeviceAllocator {
 public:
  DeviceAllocator(
      MemoryBackend& backend,
      BlockTable& table,
      Card& card,
      DeviceIndex device,
      const AllocatorConfig& config)
      : backend_(backend),
        table_(table),
        card_(card),
        device_(device),
        config_(config) {}

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
  XPUCachingAllocator::DeviceStats stats();
  void resetPeakStats();
  void resetAccumulatedStats();
  void snapshot(std::vector<XPUCachingAllocator::SegmentInfo>& result);
  /// Whether an address lies in a segment of this device.
  bool owns(const void* ptr);
  [[noreturn]] void throwOutOfMemory(size_t size);

  DeviceIndex index() const {
    return device_;
  }

 private:
  friend struct StreamBlocks;
  struct LockAll;

  Block* allocateSlow(size_t size, size_t requested, StreamId stream);
  Block* allocateExclusive(StreamBlocks&, size_t size, size_t requested);
  Block* allocateSegment(StreamBlocks&, size_t size, size_t requested);
  StreamBlocks& findOrMake(StreamId stream);
  size_t segmentSize(size_t size) const;
  void* obtain(size_t size);
  void settle(const StreamBlocks* asker);
  int64_t total(size_t type, size_t counter) const;

  void traceFree(const Block* block, const void* ptr);
  void freeExclusive(StreamBlocks&, Block*, const void* ptr);
  void processUses(
      StreamBlocks&,
      bool wait,
      Block* added = nullptr,
      const SmallVector<XPUStream, 2>& streams = {});
  void finishUse(StreamBlocks&, Block*);

  std::multimap<uint32_t, Block*, std::greater<>> idleSegments(
      const StreamBlocks* of = nullptr);
  void release(Block* segment);
  void releaseAll(StreamBlocks* of = nullptr);
  void collectGarbage();

  static bool isDirect(StreamId id) {
    return id >= 0 && id < kNumDirect;
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

  // Guards everything below. Not taken on a hit; taken before the locks of
  // streams. Recursive, since giving memory back frees pending blocks.
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<StreamBlocks>> streams_;
  struct Segment {
    Block* first;
    size_t size; // bytes
  };
  std::map<const char*, Segment> segments_; // by address
  CountsByType peak_{};
  CountsByType increased_base_{}; // as of the last reset
  CountsByType decreased_base_{};
  XPUCachingAllocator::DeviceStats counts_; // of the members num_*
};

} // namespace c10::xpu::impl
