#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/xpu/impl/XPUTrace.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>

namespace c10::xpu::impl {

using namespace XPUCachingAllocator;

// Note [Exact peaks]
// ~~~~~~~~~~~~~~~~~~
// A peak of a device is the maximum over time of a sum over its streams. With a
// shared counter every allocation of every thread would write the same cache
// line. Instead each stream is granted part of what lies between the sum and
// the known peak, and counts down what room is left of its grant. As long as no
// room is below zero, the sum is not above the peak. An operation that leaves
// one below zero ends with settle(): with all streams locked the sum is known,
// the peak is raised to it if it is higher, and what lies between the two is
// granted anew.

namespace {

using Guard = std::lock_guard<std::recursive_mutex>;
using SpinGuard = std::lock_guard<SpinLock>;

enum Counter : size_t {
  kAllocation,
  kActive,
  kInactiveSplit,
  kAllocatedBytes,
  kActiveBytes,
  kInactiveSplitBytes,
  kRequestedBytes,
  kOversizeAllocation,
  kNumCounters,
  kOfSegments // those of segments are counted with the mutex of the device held
};
using Counts = std::array<int64_t, kNumCounters>;
using CountsByType = std::array<Counts, 3>; // by StatType

constexpr size_t kAggregate = static_cast<size_t>(StatType::AGGREGATE);

size_t typeOf(bool is_small) {
  return size_t(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

// Calls visit(stat, counter, type) for all statistics.
template <class Visitor>
void forEachStat(DeviceStats& stats, Visitor visit) {
  const auto visitTypes = [&](StatArray& array, Counter counter) {
    for (size_t type = 0; type < array.size(); ++type) {
      visit(array[type], counter, type);
    }
  };
  visitTypes(stats.allocation, kAllocation);
  visitTypes(stats.active, kActive);
  visitTypes(stats.inactive_split, kInactiveSplit);
  visitTypes(stats.allocated_bytes, kAllocatedBytes);
  visitTypes(stats.active_bytes, kActiveBytes);
  visitTypes(stats.inactive_split_bytes, kInactiveSplitBytes);
  visitTypes(stats.requested_bytes, kRequestedBytes);
  visit(stats.oversize_allocations, kOversizeAllocation, kAggregate);
  visitTypes(stats.segment, kOfSegments);
  visitTypes(stats.reserved_bytes, kOfSegments);
  visit(stats.oversize_segments, kOfSegments, kAggregate);
}

std::atomic<TraceFn> trace_fn{nullptr};

std::string formatSize(size_t size) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed << static_cast<double>(size) / (1 << 20) << " MiB";
  return text.str();
}

void checkPool(bool ok, MempoolId_t id, const char* problem) {
  const auto name = c10::str("The XPU pool (", id.first, ", ", id.second, ") ");
  TORCH_CHECK(ok, name, problem);
}

void link(Block* left, Block* right) {
  left->next = right;
  if (right != nullptr) {
    right->prev = left;
  }
}

} // namespace

AllocatorConfig AllocatorConfig::parse(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  AllocatorConfig config;
  std::istringstream options(text);
  for (std::string option; std::getline(options, option, ',');) {
    std::istringstream pair(option);
    std::string key;
    double number = -1;
    std::getline(pair, key, ':');
    const bool is_number = pair >> number && pair.eof();
    const bool is_whole =
        is_number && number < 1e12 && number == std::trunc(number);
    const size_t whole = is_whole && number > 0 ? size_t(number) : 0;
    bool valid = true;
    const char* allowed =
        "max_split_size_mb, roundup_power2_divisions or "
        "garbage_collection_threshold, with a colon and a value";
    if (key == "max_split_size_mb") {
      config.max_split_size = whole << 20;
      valid = config.max_split_size > kLargeBuffer;
      allowed = "a whole number greater than 20";
    } else if (key == "roundup_power2_divisions") {
      config.roundup_power2_divisions = whole;
      valid = llvm::isPowerOf2_64(whole);
      allowed = "a power of two (1, 2, 4, 8, ...)";
    } else if (key == "garbage_collection_threshold") {
      config.garbage_collection_threshold = number;
      valid = is_number && number > 0 && number < 1;
      allowed = "a number greater than 0 and less than 1";
    } else {
      valid = option.empty();
    }
    TORCH_CHECK(
        valid,
        c10::str("PYTORCH_XPU_ALLOC_CONF: '", option, "' must be ", allowed));
  }
  return config;
}

/// The blocks of one stream of one device, or of all its external queues, in
/// one pool.
struct StreamBlocks {
  StreamBlocks(DeviceAllocator& device, Pool& in, XPUStream stream, StreamId id)
      : device(device), pool(in), stream(stream), id(id) {}

  DeviceAllocator& device;
  Pool& pool;
  const XPUStream stream; // for external queues, the device's default
  const StreamId id; // or kExternalStreams
  const size_t max_split_size = device.shared_.config.max_split_size; // bytes

  SpinLock lock; // guards what follows
  // See Note [Exact peaks]. What the blocks amount to is `granted` - `room`.
  CountsByType granted{};
  CountsByType room{};
  bool is_over = false; // some room is below zero
  CountsByType increased{}; // of each pool: by increases since settle()
  // The large ones, and the small ones, with one size to a bin.
  std::array<FreeBlocks, 2> free_blocks{FreeBlocks(16), FreeBlocks(9)};
  std::deque<Block> blocks; // which do not move
  Block* unused = nullptr;

  // Tells those who record what the allocator does.
  void trace(TraceEvent::Action action, const void* ptr, size_t size) const {
    const auto at = reinterpret_cast<uintptr_t>(ptr);
    const TraceFn fn = trace_fn.load(std::memory_order_acquire);
    if (C10_UNLIKELY(fn != nullptr)) {
      fn({action, device.device_, int64_t(at), int64_t(size), id, pool.id});
    }
    if (action == TraceEvent::ALLOC) {
      impl::trace(&TraceHooks::trace_gpu_memory_allocation, at);
    } else if (action == TraceEvent::FREE_REQUESTED) {
      impl::trace(&TraceHooks::trace_gpu_memory_deallocation, at);
    }
  }

  // The caller of the following holds `lock`, by a StreamLock where counters
  // may grow.

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
      counts[kOversizeAllocation] += block.size >= max_split_size ? times : 0;
    }
  }

  // Inline and unrolled, so that the counts stay in registers.
  C10_ALWAYS_INLINE void charge(bool is_small, const Counts& by) {
    const size_t pool = typeOf(is_small);
    int64_t signs = 0;
#pragma GCC unroll 16
    for (size_t i = 0; i < kNumCounters; ++i) {
      signs |= room[pool][i] -= by[i];
      signs |= room[kAggregate][i] -= by[i];
      increased[pool][i] += std::max<int64_t>(by[i], 0);
    }
    is_over |= signs < 0;
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
    block->ptr = nullptr;
    block->prev = block->next = nullptr;
    block->free_list = {nullptr, std::exchange(unused, block)};
  }

  // A block from the cache; null if none fits.
  Block* allocate(size_t size, size_t requested) {
    FreeBlocks& free = free_blocks[size <= kSmallSize];
    Block* const block = free.find(size);
    if (C10_UNLIKELY(block == nullptr)) {
      return nullptr;
    }
    // An oversize block serves only requests of about its size, whole.
    const bool oversize = block->size >= max_split_size;
    if (C10_UNLIKELY(oversize) &&
        (size < max_split_size || block->size - size >= kLargeBuffer)) {
      return nullptr;
    }
    const size_t taken = oversize ? block->size : size;
    device.shared_.table.insert(block); // raises before anything is changed,
    Block* const rest = newRest(block, taken); // as does this
    Counts by{};
    add(by, -1, *block);
    free.erase(block);
    return take(block, rest, requested, by);
  }

  // For what is beyond the first `size` bytes of a block, or null.
  Block* newRest(const Block* block, size_t size) {
    return block->size == size
        ? nullptr
        : newBlock(block->ptr + size, block->size - size, block->is_small);
  }

  // Allocates a free block that is in no list, up to its rest.
  C10_ALWAYS_INLINE
  Block* take(Block* block, Block* rest, size_t requested, Counts by = {}) {
    if (rest != nullptr) {
      link(rest, block->next);
      link(block, rest);
      block->size -= rest->size;
      add(by, 1, *rest);
      free_blocks[block->is_small].insert(rest);
    }
    block->state = BlockState::Allocated;
    block->client = {requested, nullptr};
    add(by, 1, *block);
    charge(block->is_small, by);
    return block;
  }

  // Makes a block free and merges it with its neighbours.
  void free(Block* block) {
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
    block->freed_at = device.epoch_.load(std::memory_order_relaxed);
    add(by, 1, *block);
    free.insert(block);
    charge(block->is_small, by);
  }

  // Client code freed the block, but streams still use it.
  void setPending(Block* block) {
    Counts by{};
    add(by, -1, *block);
    block->state = BlockState::PendingFree;
    add(by, 1, *block);
    charge(block->is_small, by);
  }

  C10_ALWAYS_INLINE
  void checkAllocated(const Block* block, const void* ptr) const {
    TORCH_CHECK(
        block->ptr == ptr && block->state == BlockState::Allocated,
        c10::str("invalid XPU pointer: ", ptr, " is not an allocated block"));
  }
};

/// Holds the lock of a stream. See Note [Exact peaks]
class StreamLock {
 public:
  explicit StreamLock(StreamBlocks& blocks) : blocks_(blocks) {
    blocks_.lock.lock();
  }
  ~StreamLock() {
    const bool is_over = std::exchange(blocks_.is_over, false);
    blocks_.lock.unlock();
    if (C10_UNLIKELY(is_over)) {
      blocks_.device.settle();
    }
  }
  StreamLock(const StreamLock&) = delete;
  StreamLock& operator=(const StreamLock&) = delete;

 private:
  StreamBlocks& blocks_;
};

// A block of the stream from the cache, or null.
Block* DeviceAllocator::allocateCached(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const StreamLock lock(blocks);
  return blocks.allocate(size, requested);
}

StreamBlocks& DeviceAllocator::blocksOf(const XPUStream& stream) {
  const bool external = shared_.backend.externalQueue(stream).has_value();
  const StreamId id = external ? kExternalStreams : stream.id();
  const auto found =
      std::find_if(filtered_.rbegin(), filtered_.rend(), [&](const Pool* each) {
        return each->filter(stream);
      });
  Pool& pool = found == filtered_.rend() ? pools_.front() : **found;
  for (const auto& blocks : streams_) {
    if (blocks->id == id && &blocks->pool == &pool) {
      return *blocks;
    }
  }
  const Stream usual(Stream::DEFAULT, Device(kXPU, device_));
  streams_.push_back(
      std::make_shared<StreamBlocks>(
          *this, pool, external ? XPUStream(usual) : stream, id));
  if (id >= 0 && id < kNumDirect && &pool == &pools_.front()) {
    direct_[id].store(streams_.back().get(), std::memory_order_release);
  }
  return *streams_.back();
}

// Several times what is needed, up to a part of what is reserved, so that
// segments are few, and their blocks merge to serve other sizes.
C10_ALWAYS_INLINE size_t DeviceAllocator::segmentSize(size_t size) const {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  const size_t max_split_size = shared_.config.max_split_size;
  const auto reserved = size_t(stats_.reserved_bytes[kAggregate].current);
  const size_t wanted = max_split_size == AllocatorConfig::kUnlimited
      ? std::min(reserved / 8, kMaxGrowth) / size * size
      : size;
  const size_t rounded = roundUp(std::max(wanted, size), kRoundLarge);
  // A segment that rounding makes oversize could not serve the request.
  return size < max_split_size && rounded >= max_split_size ? size : rounded;
}

// Memory from the pool's allocator or the runtime; null if it or the limit of
// the card refuses.
C10_ALWAYS_INLINE void* DeviceAllocator::obtain(
    const StreamBlocks& blocks,
    size_t size) {
  size_t reserved = card_.reserved;
  do {
    if (reserved + size > card_.limit) {
      return nullptr;
    }
  } while (!card_.reserved.compare_exchange_weak(reserved, reserved + size));
  auto undo = c10::make_scope_exit([&] { card_.reserved -= size; });
  void* ptr = nullptr;
  if (auto* own = blocks.pool.allocator) {
    try {
      ptr = XPUCachingAllocator::allocateFrom(*own, size, blocks.stream);
    } catch (const OutOfMemoryError&) { // NOLINT(bugprone-empty-catch)
    }
  } else {
    ptr = shared_.backend.allocate(device_, size);
  }
  if (ptr != nullptr) {
    undo.release();
  }
  return ptr;
}

C10_ALWAYS_INLINE void DeviceAllocator::countSegment(
    StreamBlocks& blocks,
    size_t size,
    bool is_small,
    int64_t by) {
  const auto change = [](Stat& stat, int64_t change) {
    stat.current += change;
    stat.peak = std::max(stat.peak, stat.current);
    (change > 0 ? stat.allocated : stat.freed) += std::abs(change);
  };
  blocks.pool.num_segments += size_t(by);
  for (const size_t type : {kAggregate, typeOf(is_small)}) {
    change(stats_.segment[type], by);
    change(stats_.reserved_bytes[type], by * int64_t(size));
  }
  if (size >= shared_.config.max_split_size) {
    change(stats_.oversize_segments, by);
  }
}

// A block at the start of a new segment, after garbage is collected.
C10_ALWAYS_INLINE Block* DeviceAllocator::allocateSegment(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const double part = shared_.config.garbage_collection_threshold;
  if (part > 0) {
    const auto all = std::min(card_.limit.load(), card_.total);
    releaseIdle(size_t(part * double(all)), [](auto&) { return true; });
  }
  const bool is_small = size <= kSmallSize;
  size_t segment = segmentSize(size);
  void* ptr = obtain(blocks, segment);
  const size_t least = is_small ? segment : roundUp(size, kRoundLarge);
  if (ptr == nullptr && segment > least) {
    segment = least;
    ptr = obtain(blocks, segment);
  }
  if (ptr == nullptr) {
    return nullptr;
  }
  blocks.trace(TraceEvent::SEGMENT_ALLOC, ptr, segment);
  ++stats_.num_device_alloc;
  countSegment(blocks, segment, is_small, 1);
  const StreamLock lock(blocks);
  Block* const block =
      blocks.newBlock(static_cast<char*>(ptr), segment, is_small);
  const bool oversize = segment >= shared_.config.max_split_size;
  Block* const rest = blocks.newRest(block, oversize ? segment : size);
  shared_.table.insert(block);
  segments_.push_back(block);
  return blocks.take(block, rest, requested);
}

C10_ALWAYS_INLINE Block* DeviceAllocator::allocateSlow(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const Guard guard(mutex_);
  epoch_.store(epoch_ + 1, std::memory_order_relaxed);
  for (const int attempt : {0, 1, 2}) {
    if (has_pending_) {
      processPending(/*wait=*/attempt != 0);
    }
    if (attempt != 0) { // first the cache of the stream, then all of the device
      releaseIdle(0, [&](const StreamBlocks& each) {
        return attempt == 2 || &each == &blocks;
      });
    }
    Block* block = allocateCached(blocks, size, requested); // was freed since
    if (block == nullptr) {
      block = allocateSegment(blocks, size, requested);
    }
    if (block != nullptr) {
      return block;
    }
    stats_.num_alloc_retries += attempt == 0 ? 1 : 0;
  }
  Block* block = nullptr; // the last resort is a private pool that allows it
  for (const auto& each : streams_) {
    if (block == nullptr && &blocks.pool == &pools_.front() &&
        each->pool.use_on_oom && each->id == blocks.id) {
      block = allocateCached(*each, size, requested);
    }
  }
  return block;
}

void* DeviceAllocator::allocate(
    size_t requested,
    XPUStream stream,
    bool may_fail) {
  const StreamId id = stream.id();
  StreamBlocks* blocks = id >= 0 && id < num_direct_
      ? direct_[id].load(std::memory_order_acquire)
      : nullptr;
  std::unique_lock<std::recursive_mutex> guard; // see Note [Private pools]
  if (C10_UNLIKELY(blocks == nullptr)) {
    guard = std::unique_lock<std::recursive_mutex>(mutex_);
    blocks = &blocksOf(stream);
  }
  if (C10_UNLIKELY(has_pending_.load(std::memory_order_relaxed))) {
    processPending(/*wait=*/false, /*most=*/1);
  }
  Block* block = nullptr;
  if (C10_LIKELY(requested <= AllocatorConfig::kMaxRequest)) {
    const size_t size = shared_.config.roundSize(requested);
    block = allocateCached(*blocks, size, requested);
    if (C10_UNLIKELY(block == nullptr)) {
      block = allocateSlow(*blocks, size, requested);
    }
  }
  if (C10_UNLIKELY(block == nullptr)) {
    return may_fail ? nullptr
                    : shared_.backend.outOfMemory(*this, requested, stream);
  }
  if (C10_UNLIKELY(blocks->id == kExternalStreams)) {
    recordStream(block, block->ptr, stream); // see Note [Stream uses]
  }
  block->owner->trace(TraceEvent::ALLOC, block->ptr, block->size);
  reportToProfiler(block->ptr, static_cast<int64_t>(block->size));
  return block->ptr;
}

void DeviceAllocator::free(Block* block, void* ptr) {
  StreamBlocks& blocks = *block->owner;
  const bool traced = trace_fn.load(std::memory_order_relaxed) != nullptr ||
      c10::impl::GPUTrace::get_trace() != nullptr;
  if (C10_UNLIKELY(traced)) { // before the memory can be someone else's
    std::unique_lock<SpinLock> lock(blocks.lock);
    blocks.checkAllocated(block, ptr);
    lock.unlock();
    blocks.trace(TraceEvent::FREE_REQUESTED, ptr, block->size);
    if (block->client.uses == nullptr) {
      blocks.trace(TraceEvent::FREE_COMPLETED, ptr, block->size);
    }
  }
  int64_t size = 0;
  bool is_used = false;
  {
    const StreamLock lock(blocks);
    blocks.checkAllocated(block, ptr);
    size = static_cast<int64_t>(block->size);
    is_used = block->client.uses != nullptr;
    is_used ? blocks.setPending(block) : blocks.free(block);
  }
  if (C10_UNLIKELY(is_used)) {
    blocks.device.freeLater(block);
  }
  blocks.device.reportToProfiler(ptr, -size);
}

void DeviceAllocator::freeLater(Block* block) {
  const Guard guard(mutex_);
  pending_.push_front(block);
  try {
    processPending(/*wait=*/false, /*most=*/1);
  } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
    // The block stays pending. A later allocation submits the fence again, and
    // raises if that fails.
  }
}

void DeviceAllocator::recordStream(Block* block, void* ptr, XPUStream stream) {
  StreamBlocks& blocks = *block->owner;
  auto& backend = blocks.device.shared_.backend;
  StreamUse use{stream, backend.externalQueue(stream), nullptr};
  const SpinGuard lock(blocks.lock);
  blocks.checkAllocated(block, ptr);
  if (stream.id() == blocks.id && stream == blocks.stream) {
    return;
  }
  auto*& uses = block->client.uses;
  uses = uses == nullptr ? new StreamUses : uses;
  if (std::find(uses->begin(), uses->end(), use) == uses->end()) {
    uses->push_back(std::move(use));
  }
}

// Frees, of the `most` first pending blocks, those that no stream uses any
// more. Submits the fences that are missing.
void DeviceAllocator::processPending(bool wait, size_t most) {
  const Guard guard(mutex_);
  const auto passed = [&](StreamUse& use) {
    const bool idle = !use.fence && !(use.fence = shared_.backend.fence(use));
    return idle || use.fence(wait);
  };
  has_pending_ = true; // also if a fence raises
  for (auto n = std::min(most, pending_.size()); n != 0; --n) {
    Block* const block = pending_.front();
    pending_.pop_front();
    pending_.push_back(block);
    StreamUses& uses = *block->client.uses;
    for (auto use = uses.end(); use != uses.begin();) {
      use = passed(*--use) ? uses.erase(use) : use;
    }
    if (uses.empty()) {
      pending_.pop_back();
      delete &uses;
      block->owner->trace(TraceEvent::FREE_COMPLETED, block->ptr, block->size);
      const StreamLock lock(*block->owner);
      block->owner->free(block);
    }
  }
  has_pending_ = !pending_.empty();
}

// Gives back segments of streams that the filter selects, those idle for
// longest first, until no more than `target` bytes of the card are reserved.
template <class Filter>
void DeviceAllocator::releaseIdle(size_t target, Filter filter) {
  std::vector<std::pair<int32_t, Block*>> idle;
  for (Block* const first : segments_) {
    const SpinGuard lock(first->owner->lock);
    if (first->isFreeSegment() && first->owner->pool.use_count == 0 &&
        filter(*first->owner)) {
      idle.emplace_back(first->freed_at - epoch_, first);
    }
  }
  std::sort(idle.begin(), idle.end());
  for (const auto& entry : idle) {
    if (card_.reserved > target) {
      release(entry.second);
    }
  }
}

// A block is free for reuse on its stream once client code has freed it, but
// may go back to the runtime only when the stream has done the work that used
// it.
void DeviceAllocator::release(Block* segment) {
  StreamBlocks& blocks = *segment->owner;
  FreeBlocks& free_blocks = blocks.free_blocks[segment->is_small];
  {
    const SpinGuard lock(blocks.lock);
    if (!segment->isFreeSegment()) {
      return;
    }
    free_blocks.erase(segment);
    segment->state = BlockState::PendingFree;
  }
  void* const ptr = segment->ptr;
  const size_t size = segment->size;
  // Before the call: the address may be someone else's right after it.
  segments_.erase(std::find(segments_.begin(), segments_.end(), segment));
  auto put_back = c10::make_scope_exit([&] {
    segments_.push_back(segment);
    const SpinGuard lock(blocks.lock);
    segment->state = BlockState::Free;
    free_blocks.insert(segment);
  });
  if (blocks.id != kExternalStreams) { // see Note [Stream uses]
    const Fence fence =
        shared_.backend.fence({blocks.stream, nullopt, nullptr});
    if (fence && !fence(/*wait=*/true)) {
      return;
    }
  }
  if (auto* own = blocks.pool.allocator) {
    own->raw_delete(ptr);
  } else {
    shared_.backend.deallocate(device_, ptr);
  }
  put_back.release();
  card_.reserved -= size;
  ++stats_.num_device_free;
  countSegment(blocks, size, segment->is_small, -1);
  blocks.trace(TraceEvent::SEGMENT_FREE, ptr, size);
  const SpinGuard lock(blocks.lock);
  blocks.recycle(segment);
}

void DeviceAllocator::emptyCache(MempoolId_t pool) {
  const Guard guard(mutex_);
  processPending(/*wait=*/true);
  releaseIdle(0, [&](const StreamBlocks& blocks) {
    return pool == MempoolId_t() || pool == blocks.pool.id;
  });
}

Pool* DeviceAllocator::findPool(MempoolId_t id) {
  const auto pool = std::find_if(
      pools_.begin(), pools_.end(), [&](auto& p) { return p.id == id; });
  return pool == pools_.end() ? nullptr : &*pool;
}

Pool& DeviceAllocator::poolInUse(MempoolId_t id) {
  Pool* const pool = findPool(id);
  checkPool(pool != nullptr && pool->use_count > 0, id, "is not in use");
  return *pool;
}

void DeviceAllocator::createOrIncrefPool(
    MempoolId_t id,
    XPUAllocator* allocator,
    bool use_on_oom) {
  const Guard guard(mutex_);
  checkPool(id != MempoolId_t(), id, "is not private");
  Pool* pool = findPool(id);
  for (size_t i = 1; pool == nullptr && i < pools_.size(); ++i) {
    pool = pools_[i].isGone() ? &pools_[i] : nullptr;
  }
  if (pool == nullptr) {
    pool = &pools_.emplace_back();
  }
  if (pool->isGone()) {
    const bool own = allocator != GetAllocator(kXPU); // not the native one
    *pool = {id, own ? allocator : nullptr, use_on_oom};
  }
  ++pool->use_count;
}

void DeviceAllocator::beginAllocateToPool(
    MempoolId_t id,
    std::function<bool(XPUStream)> filter) {
  const Guard guard(mutex_);
  for (const Pool* pool : filtered_) {
    checkPool(pool->id != id, id, "is being allocated to already");
  }
  createOrIncrefPool(id, nullptr, /*use_on_oom=*/false);
  filtered_.push_back(findPool(id));
  filtered_.back()->filter = std::move(filter);
  num_direct_ = 0;
}

void DeviceAllocator::endAllocateToPool(MempoolId_t id) {
  const Guard guard(mutex_);
  Pool& pool = poolInUse(id);
  checkPool(bool(pool.filter), id, "is not being allocated to");
  filtered_.erase(std::find(filtered_.begin(), filtered_.end(), &pool));
  pool.filter = nullptr;
  num_direct_ = filtered_.empty() ? kNumDirect : 0;
}

void DeviceAllocator::releasePool(MempoolId_t id) {
  const Guard guard(mutex_);
  Pool& pool = poolInUse(id);
  checkPool(pool.use_count > 1 || !pool.filter, id, "is being allocated to");
  --pool.use_count;
}

int DeviceAllocator::getPoolUseCount(MempoolId_t id) {
  const Guard guard(mutex_);
  const Pool* const pool = findPool(id);
  return pool == nullptr ? 0 : pool->use_count;
}

// See Note [Exact peaks]. Only streams that have blocks are granted room.
void DeviceAllocator::settle() noexcept {
  const Guard guard(mutex_);
  for (const auto& blocks : streams_) {
    blocks->lock.lock();
  }
  const auto shares = [](const auto& blocks) {
    return blocks->amount(kAggregate, kActive) != 0;
  };
  const auto count = std::count_if(streams_.begin(), streams_.end(), shares);
  forEachStat(stats_, [&](Stat& stat, Counter counter, size_t type) {
    if (counter == kOfSegments) {
      return;
    }
    int64_t now = 0;
    int64_t increase = 0;
    for (const auto& blocks : streams_) {
      now += blocks->amount(type, counter);
      for (size_t pool = 1; pool < blocks->increased.size(); ++pool) {
        increase += type == kAggregate || type == pool
            ? blocks->increased[pool][counter]
            : 0;
      }
    }
    stat.allocated += increase;
    stat.freed += increase - (now - stat.current);
    stat.current = now;
    stat.peak = std::max(stat.peak, now);
    const auto share = (stat.peak - now) / std::max<int64_t>(count, 1);
    for (const auto& blocks : streams_) {
      const int64_t amount = blocks->amount(type, counter);
      blocks->room[type][counter] = shares(blocks) ? share : 0;
      blocks->granted[type][counter] = amount + blocks->room[type][counter];
    }
  });
  for (const auto& blocks : streams_) {
    blocks->increased = {};
    blocks->is_over = false;
    blocks->lock.unlock();
  }
}

DeviceStats DeviceAllocator::stats() {
  const Guard guard(mutex_);
  settle();
  DeviceStats stats = stats_;
  stats.max_split_size = static_cast<int64_t>(shared_.config.max_split_size);
  return stats;
}

void DeviceAllocator::resetPeakStats() {
  const Guard guard(mutex_);
  forEachStat(stats_, [](Stat& stat, Counter counter, size_t) {
    stat.peak = counter == kOfSegments ? stat.current : 0; // settle() raises it
  });
  settle();
}

void DeviceAllocator::resetAccumulatedStats() {
  const Guard guard(mutex_);
  settle();
  forEachStat(
      stats_, [](Stat& stat, auto...) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = stats_.num_ooms = 0;
}

void DeviceAllocator::snapshot(
    std::vector<SegmentInfo>& result,
    MempoolId_t pool) {
  const Guard guard(mutex_);
  std::sort(segments_.begin(), segments_.end(), [](Block* a, Block* b) {
    return a->ptr < b->ptr;
  });
  for (const Block* const first : segments_) {
    SegmentInfo segment;
    segment.owner_private_pool_id = first->owner->pool.id;
    if (pool != MempoolId_t() && pool != segment.owner_private_pool_id) {
      continue;
    }
    segment.device = static_cast<int>(device_);
    segment.address = reinterpret_cast<int64_t>(first->ptr);
    const SpinGuard lock(first->owner->lock);
    segment.stream = first->owner->id;
    segment.is_large = !first->is_small;
    for (const Block* block = first; block != nullptr; block = block->next) {
      BlockInfo info;
      info.size = static_cast<int64_t>(block->size);
      info.allocated = block->state == BlockState::Allocated;
      info.active = block->state != BlockState::Free;
      info.requested_size = info.allocated
          ? static_cast<int64_t>(block->client.requested_size)
          : 0;
      segment.total_size += info.size;
      segment.requested_size += info.requested_size;
      segment.allocated_size += info.allocated ? info.size : 0;
      segment.active_size += info.active ? info.size : 0;
      segment.blocks.push_back(info);
    }
    result.push_back(std::move(segment));
  }
}

void DeviceAllocator::reportToProfiler(void* ptr, int64_t size) {
  if (C10_LIKELY(!ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE)) ||
      !memoryProfilingEnabled()) {
    return;
  }
  const DeviceStats now = stats();
  const int64_t allocated = now.allocated_bytes[kAggregate].current;
  const int64_t reserved = now.reserved_bytes[kAggregate].current;
  const Device device(kXPU, device_);
  if (ptr != nullptr) {
    reportMemoryUsageToProfiler(ptr, size, allocated, reserved, device);
  } else {
    reportOutOfMemoryToProfiler(size, allocated, reserved, device);
  }
}

bool DeviceAllocator::owns(const void* ptr) {
  const Guard guard(mutex_);
  const Block* last = nullptr; // of those before it, the last segment
  for (const Block* const first : segments_) {
    if (first->ptr <= ptr && (last == nullptr || first->ptr > last->ptr)) {
      last = first;
    }
  }
  if (last == nullptr) {
    return false;
  }
  const SpinGuard lock(last->owner->lock);
  for (; last->next != nullptr; last = last->next) {
  }
  return ptr < last->ptr + last->size;
}

void DeviceAllocator::throwOutOfMemory(size_t size, optional<size_t> free) {
  if (const TraceFn fn = trace_fn) {
    fn({TraceEvent::OOM, device_, 0, static_cast<int64_t>(size), 0, {}});
  }
  reportToProfiler(nullptr, static_cast<int64_t>(size));
  const Guard guard(mutex_);
  ++stats_.num_ooms;
  const DeviceStats now = stats();
  const size_t limit = card_.limit;
  const auto text = [](const StatArray& bytes) {
    return formatSize(static_cast<size_t>(bytes[kAggregate].current));
  };
  const auto message = "XPU out of memory. Tried to allocate " +
      formatSize(size) + " (xpu:" + std::to_string(int{device_}) + "; " +
      formatSize(card_.total) + " total capacity; " +
      text(now.allocated_bytes) + " already allocated; " +
      (free ? formatSize(*free) : "unknown") + " free; " +
      text(now.reserved_bytes) + " reserved in total by PyTorch; limit " +
      (limit == AllocatorConfig::kUnlimited ? "not set" : formatSize(limit));
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      message,
      "). If much more is reserved than allocated, try max_split_size_mb in "
      "PYTORCH_XPU_ALLOC_CONF");
}

} // namespace c10::xpu::impl

void c10::xpu::XPUCachingAllocator::setTrace(TraceFn trace) {
  impl::trace_fn = trace;
}
