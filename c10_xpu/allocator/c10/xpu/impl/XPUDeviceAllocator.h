#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/SmallVector.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/llvmMathExtras.h>
#include <c10/xpu/XPUMemoryStats.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUBlock.h>
#include <c10/xpu/impl/XPUTrace.h>

#include <sycl/queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// The core of the XPU caching allocator: the memory of one device. A test can
// put a model in place of the SYCL runtime, which it knows as MemoryBackend. An
// allocation that hits, and a free, are inline.

namespace c10::xpu::impl {

using XPUCachingAllocator::DeviceStats;
using XPUCachingAllocator::kExternalStreams;
using XPUCachingAllocator::SegmentInfo;
using XPUCachingAllocator::StatType;
using XPUCachingAllocator::TraceEvent;
using XPUCachingAllocator::TraceFn;

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

/// The settings of PYTORCH_XPU_ALLOC_CONF: key:value pairs between commas.
struct AllocatorConfig {
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

  /// Applies a key:value pair; false if it is none of kAllocatorOptions.
  bool set(const std::string& option);

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

constexpr const char* kAllocatorOptions =
    "max_split_size_mb:(a whole number greater than 20), "
    "roundup_power2_divisions:(1, 2, 4, 8, ...), "
    "garbage_collection_threshold:(greater than 0, less than 1)";

/// PyTorch's settings for all accelerators, where it has such. They are used
/// where PYTORCH_XPU_ALLOC_CONF is not set.
inline AllocatorConfig (*common_config)() = nullptr;

class DeviceAllocator;

/// What the allocators of all devices share, and what they ask of the SYCL
/// runtime. Errors are c10::Error.
struct MemoryBackend {
  virtual ~MemoryBackend() = default;
  /// 512-byte aligned; null if there is not enough memory.
  virtual void* allocate(DeviceIndex device, size_t size) = 0;
  virtual void deallocate(DeviceIndex device, void* ptr) = 0;
  /// A fence after everything that is enqueued; null if all of it is done.
  virtual Fence fence(const StreamUse& use) = 0;
  /// Makes the queue that a filter or an allocator of a pool gets.
  virtual void makeQueue(XPUStream stream) = 0;
  /// A copy of the queue of an external stream.
  virtual optional<sycl::queue> externalQueue(XPUStream stream) = 0;
  /// Tells who wants to know, and returns what the error says.
  virtual std::string outOfMemory(DeviceAllocator& device, size_t size) = 0;

  AllocatorConfig config;
  BlockTable table;
};

/// The memory of a card, which several ordinals may share. In bytes.
struct Card {
  size_t total = 0;
  std::mutex mutex; // held while more is reserved
  std::atomic<size_t> reserved{0};
  std::atomic<size_t> limit{AllocatorConfig::kUnlimited};
  std::atomic<double> fraction{1}; // of the total, which the limit is
  std::vector<DeviceAllocator*> devices; // its ordinals
};

// Note [Private pools]
// ~~~~~~~~~~~~~~~~~~~~
// Free blocks, their lock and their counters belong to a stream in a pool. The
// first pool of a device serves all requests that no filter sends to a private
// one. Filters are asked with the mutex of the device held, which an allocation
// from a private pool keeps until it has a block: the pool cannot be released
// meanwhile. Pools are never destroyed: a new one takes the place of one that
// has neither uses nor segments.
//
// Whatever takes Python's GIL is called with no lock held, since a thread that
// has the GIL may wait for one. These are the trace hooks, also that of a new
// queue, what gathers stacks for ALLOC, FREE_REQUESTED and OOM, and observers.

struct PoolMemory { // without functions: the SYCL runtime's
  std::function<void*(size_t size, XPUStream stream)> allocate; // or null
  std::function<void(void* ptr)> deallocate;
};

struct Pool {
  MempoolId_t id;
  bool use_on_oom = false; // by requests for the first pool
  int use_count = 0; // while it is not 0, the segments stay
  size_t num_segments = 0;
  PoolMemory memory{};

  bool isGone() const {
    return use_count == 0 && num_segments == 0;
  }
  bool isOf(MempoolId_t asked) const { // {0, 0}: of any
    return asked == MempoolId_t() || asked == id;
  }
  /// Whether a request for a stream is for the pool.
  std::function<bool(XPUStream)> filter = nullptr;
};

// Note [Exact peaks]
// ~~~~~~~~~~~~~~~~~~
// A peak of a device is the maximum over time of a sum over its streams. With a
// shared counter, all threads would write the same cache line. Instead each
// stream is granted part of what lies between the sum and the known peak, and
// counts down its room: while none is below zero, the sum is not above the
// peak. An operation that leaves one below zero ends with settle(), which locks
// all streams, raises the peak to the sum, and grants anew.

using Guard = std::lock_guard<std::recursive_mutex>;
using StreamLock = std::lock_guard<StreamBlocks>;

enum Counter : size_t {
  kAllocation,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kRequestedBytes,
  kOversizeAllocation,
  kSegment,
  kReservedBytes,
  kOversizeSegment,
  kNumCounters
};
using Counts = std::array<int64_t, kNumCounters>;
using CountsByType = std::array<Counts, 3>; // by StatType
constexpr size_t kAggregate = static_cast<size_t>(StatType::AGGREGATE);

C10_XPU_API extern std::atomic<TraceFn> trace_fn;

inline void link(Block* left, Block* right) {
  left->next = right;
  if (right != nullptr) {
    right->prev = left;
  }
}

/// The blocks of a stream, or of all external queues, of a device in a pool.
struct C10_XPU_API StreamBlocks {
  DeviceAllocator& device;
  Pool& pool;
  const XPUStream stream; // for external queues, the device's default
  const StreamId id; // or kExternalStreams
  const AllocatorConfig& config;

  // Guards what follows. Held for some ten nanoseconds, hardly ever by two
  // threads at once; a std::mutex would cost a third of an allocation.
  std::atomic_flag locked = ATOMIC_FLAG_INIT;
  // See Note [Exact peaks]. What the blocks amount to is `granted` - `room`.
  CountsByType granted{};
  CountsByType room{};
  bool is_over = false; // some room is below zero
  CountsByType increased{}; // of each pool: by increases since settle()
  // The large ones, and the small ones, with one size to a bin.
  std::array<FreeBlocks, 2> free_blocks{FreeBlocks(16), FreeBlocks(9)};
  std::deque<Block> blocks{}; // which do not move
  Block* unused = nullptr;

  // Tells those who record what the allocator does.
  void trace(TraceEvent::Action action, const void* ptr, size_t size) const {
    const auto at = reinterpret_cast<uintptr_t>(ptr);
    const TraceFn fn = trace_fn.load(std::memory_order_acquire);
    if (C10_UNLIKELY(fn != nullptr)) {
      const DeviceIndex ordinal = stream.device_index();
      fn({action, ordinal, int64_t(at), int64_t(size), id, pool.id});
    }
    if (action == TraceEvent::ALLOC) {
      impl::trace(&TraceHooks::trace_gpu_memory_allocation, at);
    } else if (action == TraceEvent::FREE_REQUESTED) {
      impl::trace(&TraceHooks::trace_gpu_memory_deallocation, at);
    }
  }

  void lock() {
    while (locked.test_and_set(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  void unlock();

  // The caller of the following holds the lock.

  // Adds what a block contributes to the counters, or takes it away. A block
  // that is free and not split contributes nothing.
  C10_ALWAYS_INLINE
  void add(Counts& counts, int64_t times, const Block& block) const {
    const int64_t bytes = times * static_cast<int64_t>(block.size);
    if (block.state == BlockState::Free) {
      counts[kInactiveSplit] += block.isSplit() ? times : 0;
      counts[kInactiveSplitBytes] += block.isSplit() ? bytes : 0;
      return;
    }
    counts[kActive] += times;
    counts[kActiveBytes] += bytes;
    if (block.state == BlockState::Allocated) {
      counts[kAllocation] += times;
      counts[kAllocatedBytes] += bytes;
      counts[kRequestedBytes] +=
          times * static_cast<int64_t>(block.client.requested_size);
      counts[kOversizeAllocation] +=
          block.size >= config.max_split_size ? times : 0;
    }
  }

  // Inline and unrolled, so that the counts stay in registers.
  C10_ALWAYS_INLINE void charge(bool is_small, const Counts& by) {
    const size_t pool = is_small ? 1 : 2; // of StatType
    int64_t signs = 0;
#pragma GCC unroll 16
    for (size_t i = 0; i < kNumCounters; ++i) {
      signs |= room[pool][i] -= by[i];
      signs |= room[kAggregate][i] -= by[i];
      increased[pool][i] += std::max<int64_t>(by[i], 0);
    }
    is_over |= signs < 0;
  }

  void addSegment(Counts& counts, int64_t times, size_t size) const {
    counts[kSegment] += times;
    counts[kReservedBytes] += times * static_cast<int64_t>(size);
    counts[kOversizeSegment] += size >= config.max_split_size ? times : 0;
  }

  int64_t amount(size_t type, Counter counter) const {
    return granted[type][counter] - room[type][counter];
  }

  Block* newBlock(char* ptr, size_t size, bool is_small) {
    Block* block = unused;
    if (block == nullptr) {
      block = &blocks.emplace_back();
      block->owner = this;
    } else {
      unused = block->free_list.next;
    }
    block->ptr = ptr;
    block->size = size;
    block->is_small = is_small;
    block->state = BlockState::Free;
    return block;
  }

  void recycle(Block* block) {
    block->state = BlockState::Unused;
    block->prev = block->next = nullptr;
    block->free_list = {nullptr, std::exchange(unused, block)};
  }

  // Makes a block free and merges it with its neighbours.
  void free(Block* block, uint32_t now) {
    FreeBlocks& free = free_blocks[block->is_small];
    Counts by{};
    add(by, -1, *block);
    block->state = BlockState::Free;
    for (Block* neighbour : {block->prev, block->next}) {
      if (neighbour != nullptr && neighbour->state == BlockState::Free) {
        add(by, -1, *neighbour);
        free.erase(neighbour);
        Block* const second = neighbour == block->prev ? block : neighbour;
        block = neighbour == block->prev ? neighbour : block;
        block->size += second->size;
        link(block, second->next);
        recycle(second);
      }
    }
    block->freed_at = now;
    add(by, 1, *block);
    free.insert(block);
    charge(block->is_small, by);
  }

  // Client code freed the block, but streams may still use it.
  void setPending(Block* block);
};

inline void checkAllocated(bool ok, const void* ptr) {
  TORCH_CHECK(ok, "invalid XPU pointer: ", ptr, " is not an allocated block");
}

class C10_XPU_API DeviceAllocator {
 public:
  DeviceAllocator(MemoryBackend& backend, Card& card, DeviceIndex device)
      : card(card), device(device), backend_(backend) {
    card.devices.push_back(this);
  }

  Card& card;
  const DeviceIndex device;

  /// At least `requested` bytes, which must not be 0.
  void* allocate(size_t requested, XPUStream stream, bool is_retry = false) {
    const StreamId id = stream.id();
    StreamBlocks* blocks = id >= 0 && id < num_direct_
        ? direct_[id].load(std::memory_order_acquire)
        : nullptr;
    std::unique_lock<std::recursive_mutex> guard; // see Note [Private pools]
    if (C10_UNLIKELY(blocks == nullptr)) {
      guard = std::unique_lock<std::recursive_mutex>(mutex_);
      if (!filtered_.empty()) {
        guard.unlock();
        backend_.makeQueue(stream);
        guard.lock();
      }
      blocks = &blocksOf(stream);
    }
    if (C10_UNLIKELY(has_pending_.load(std::memory_order_relaxed))) {
      processPending(/*wait=*/false, /*most=*/1);
    }
    Block* block = nullptr;
    if (C10_LIKELY(requested <= AllocatorConfig::kMaxRequest)) {
      const size_t size = backend_.config.roundSize(requested);
      block = allocateCached(*blocks, size, requested);
      if (C10_UNLIKELY(block == nullptr)) {
        block = allocateSlow(*blocks, size, requested);
      }
    }
    if (C10_UNLIKELY(block == nullptr)) {
      // Other ordinals have locks of their own.
      guard = {};
      if (!is_retry && card.devices.size() > 1) {
        for (DeviceAllocator* const each : card.devices) {
          each->emptyCache();
        }
        return allocate(requested, stream, /*is_retry=*/true);
      }
      raiseOutOfMemory(*blocks, requested);
    }
    if (C10_UNLIKELY(blocks->id == kExternalStreams)) {
      recordStream(block, block->ptr, stream); // see Note [Stream uses]
    }
    guard = {};
    block->owner->trace(TraceEvent::ALLOC, block->ptr, block->size);
    reportToProfiler(block->ptr, static_cast<int64_t>(block->size));
    return block->ptr;
  }

  /// Frees the block that starts at `ptr`, of whichever device.
  static void free(Block* block, void* ptr) {
    StreamBlocks& blocks = *block->owner;
    // That it was asked for is traced before the memory can be someone else's.
    const bool traced = trace_fn.load(std::memory_order_relaxed) != nullptr ||
        c10::impl::GPUTrace::get_trace() != nullptr;
    int64_t size = 0;
    bool later = false;
    {
      const StreamLock guard(blocks);
      checkAllocated(block->isAllocated(ptr), ptr);
      size = static_cast<int64_t>(block->size);
      later = traced || block->client.uses != nullptr;
      later ? blocks.setPending(block)
            : blocks.free(block, blocks.device.epoch_);
    }
    if (C10_UNLIKELY(later)) {
      const auto finish =
          c10::make_scope_exit([&] { blocks.device.freeLater(block); });
      blocks.trace(TraceEvent::FREE_REQUESTED, ptr, size_t(size));
    }
    blocks.device.reportToProfiler(ptr, -size);
  }

  static void recordStream(Block* block, void* ptr, XPUStream stream);

  /// Of one private pool, or for {0, 0} all; not of private pools in use.
  void emptyCache(MempoolId_t pool = {});

  DeviceStats stats();
  void resetPeakStats();
  void resetAccumulatedStats();

  /// Adds the segments of one private pool, or for {0, 0} all.
  void snapshot(std::vector<SegmentInfo>& result, MempoolId_t pool = {});

  /// Whether an address lies in a segment of this device.
  bool owns(const void* ptr);

  // Private pools: see c10/xpu/XPUMemPool.h.
  Pool& createOrIncrefPool(MempoolId_t id, PoolMemory memory = {});
  void beginAllocateToPool(
      MempoolId_t id,
      std::function<bool(XPUStream)> filter);
  void endAllocateToPool(MempoolId_t id);
  void setUseOnOOM(MempoolId_t id, bool use_on_oom);
  void releasePool(MempoolId_t id);
  int getPoolUseCount(MempoolId_t id);

 private:
  friend struct StreamBlocks;
  // A block from the cache; null if none fits.
  Block* allocateCached(StreamBlocks& blocks, size_t size, size_t requested) {
    const StreamLock guard(blocks);
    Block* const block = blocks.free_blocks[size <= kSmallSize].find(size);
    if (C10_UNLIKELY(block == nullptr)) {
      return nullptr;
    }
    // An oversize block serves only requests of about its size.
    const size_t most = blocks.config.max_split_size;
    if (C10_UNLIKELY(block->size >= most) &&
        (size < most || block->size - size >= kLargeBuffer)) {
      return nullptr;
    }
    return take(blocks, block, size, requested);
  }

  // Allocates a free block, unless it is oversize without what is beyond
  // `size`. The lock of the stream is held.
  C10_ALWAYS_INLINE Block* take(
      StreamBlocks& blocks,
      Block* block,
      size_t size,
      size_t requested,
      Counts by = {}) {
    FreeBlocks& free = blocks.free_blocks[block->is_small];
    backend_.table.insert(block); // this and newBlock raise before any change
    Block* rest = nullptr;
    if (block->size != size && block->size < blocks.config.max_split_size) {
      const size_t left = block->size - size;
      rest = blocks.newBlock(block->ptr + size, left, block->is_small);
    }
    if (by[kSegment] == 0) { // a new segment is in no list
      blocks.add(by, -1, *block);
      free.erase(block);
    }
    if (rest != nullptr) {
      link(rest, block->next);
      link(block, rest);
      block->size = size;
      blocks.add(by, 1, *rest);
      free.insert(rest);
    }
    block->state = BlockState::Allocated;
    block->client = {requested, nullptr};
    blocks.add(by, 1, *block);
    blocks.charge(block->is_small, by);
    return block;
  }

  // Several times what is needed, up to a part of what is reserved, so that
  // segments are few, and their blocks merge to serve other sizes.
  size_t segmentSize(size_t size) const;

  // Memory of the pool or the runtime; null if it or the card's limit refuses.
  char* obtain(const StreamBlocks& blocks, size_t size);

  // A block at the start of a new segment, after garbage is collected.
  Block* allocateSegment(StreamBlocks& blocks, size_t size, size_t requested);
  Block* allocateSlow(StreamBlocks& blocks, size_t size, size_t requested);
  [[noreturn]] void raiseOutOfMemory(const StreamBlocks& blocks, size_t size);

  // Completes a free, now or once no stream uses the block any more.
  void freeLater(Block* block);
  StreamBlocks& blocksOf(const XPUStream& stream);

  // Frees, of the `most` first pending blocks, those that no stream uses any
  // more. Submits the fences that are missing.
  void processPending(bool wait, size_t most = ~size_t{0});

  // Gives back segments, those idle for longest first, until no more than
  // `target` bytes of the card are reserved.
  void releaseIdle(
      size_t target,
      MempoolId_t pool = {},
      const StreamBlocks* blocks = nullptr);

  // A block that client code has freed may be used again on its stream at once,
  // but may go back to the runtime only when the stream has done its work.
  void release(Block* segment);

  Pool* findPool(MempoolId_t id);
  Pool& poolInUse(MempoolId_t id);
  // See Note [Exact peaks]. Only streams that have blocks are granted room.
  void settle() noexcept;

  void reportToProfiler(void* ptr, int64_t size) {
    if (C10_LIKELY(!ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE)) ||
        !memoryProfilingEnabled()) {
      return;
    }
    const DeviceStats now = stats();
    const int64_t allocated = now.allocated_bytes[kAggregate].current;
    const int64_t reserved = now.reserved_bytes[kAggregate].current;
    const Device where(kXPU, device);
    ptr ? reportMemoryUsageToProfiler(ptr, size, allocated, reserved, where)
        : reportOutOfMemoryToProfiler(size, allocated, reserved, where);
  }

  MemoryBackend& backend_;

  // For streams of the runtime, by id. Written under the mutex, read without.
  static constexpr StreamId kNumDirect = 512;
  std::array<std::atomic<StreamBlocks*>, kNumDirect> direct_{};
  std::atomic<StreamId> num_direct_{kNumDirect}; // 0 while a pool has a filter
  std::atomic<bool> has_pending_{false};
  std::atomic<int64_t> num_ooms_{0};
  // Counts slow allocations: the clock of the garbage collection.
  std::atomic<uint32_t> epoch_{0};

  // Guards everything below. Not taken on a hit; taken before the locks of
  // streams. Recursive, since giving memory back frees pending blocks.
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<StreamBlocks>> streams_;
  std::deque<Pool> pools_{1}; // which do not move
  std::vector<Pool*> filtered_; // those with a filter; the last is asked first
  std::deque<Block*> pending_; // freed by client code, but streams use them
  // Their first blocks and sizes, in no order.
  std::vector<std::pair<Block*, size_t>> segments_;
  size_t reserved_ = 0; // the sum of the sizes
  DeviceStats stats_; // every Stat as of settle()
};

inline void StreamBlocks::unlock() { // see Note [Exact peaks]
  const bool was_over = std::exchange(is_over, false);
  locked.clear(std::memory_order_release);
  if (C10_UNLIKELY(was_over)) {
    device.settle();
  }
}

// Of the caching allocator, which is the current one unless set() replaced it.
bool isNative(const Allocator* allocator);
/// Raises before init, in a forked child, and for an index of no device.
DeviceAllocator& deviceAllocator(int device);

} // namespace c10::xpu::impl
