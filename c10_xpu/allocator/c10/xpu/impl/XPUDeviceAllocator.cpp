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
#include <unordered_map>

namespace c10::xpu::impl {

using namespace XPUCachingAllocator;

namespace {

using Guard = std::lock_guard<std::recursive_mutex>;
using SpinGuard = std::lock_guard<SpinLock>;

constexpr size_t kAggregate = static_cast<size_t>(StatType::AGGREGATE);

std::atomic<TraceFn> trace_fn{nullptr};

size_t typeOf(bool is_small) {
  return size_t(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

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
  CountsByType current{};
  CountsByType limit{}; // of `current`, see Note [Exact peaks]
  CountsByType increased{}; // of each pool: the sums of all increases
  // The large ones, and the small ones, with one size to a bin.
  std::array<FreeBlocks, 2> free_blocks{FreeBlocks(16), FreeBlocks(9)};
  std::unordered_map<Block*, StreamUses> stream_uses;
  std::deque<Block> blocks; // which do not move
  Block* unused = nullptr;

  std::mutex pending_mutex; // guards `pending`; no other lock is taken with it
  /// What client code has freed, but streams still use.
  std::deque<std::pair<Block*, StreamUses>> pending;
  std::atomic<size_t> num_pending{0};

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

  // The caller of the following holds `lock`; with `exclusive` the locks of all
  // streams. Without, what would exceed a limit does nothing and returns null
  // or false.

  // Adds what a block contributes to the counters, or takes it away. A block
  // that is free and not split contributes nothing.
  C10_ALWAYS_INLINE void add(
      Counts& counts,
      int64_t times,
      BlockState state,
      size_t size,
      size_t requested = 0) const {
    const int64_t bytes = times * static_cast<int64_t>(size);
    if (state == BlockState::Free) {
      counts[kInactiveSplit] += times;
      counts[kInactiveSplitBytes] += bytes;
      return;
    }
    counts[kActive] += times;
    counts[kActiveBytes] += bytes;
    if (state == BlockState::Allocated) {
      counts[kAllocation] += times;
      counts[kAllocatedBytes] += bytes;
      counts[kRequestedBytes] += times * static_cast<int64_t>(requested);
      counts[kOversizeAllocation] += size >= max_split_size ? times : 0;
    }
  }

  // Inline and unrolled, so that the counts stay in registers.
  template <size_t kCounters = kNumBlockCounters>
  C10_ALWAYS_INLINE bool charge(
      bool is_small,
      const Counts& by,
      bool exclusive) {
    const size_t pool = typeOf(is_small);
    int64_t signs = 0;
#pragma GCC unroll 16
    for (size_t i = 0; i < kCounters; ++i) {
      signs |= limit[pool][i] - current[pool][i] - by[i];
      signs |= limit[kAggregate][i] - current[kAggregate][i] - by[i];
    }
    if (C10_UNLIKELY(signs < 0) && !exclusive) {
      return false;
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kCounters; ++i) {
      current[pool][i] += by[i];
      current[kAggregate][i] += by[i];
      increased[pool][i] += std::max<int64_t>(by[i], 0);
    }
    return true;
  }

  // Whether an operation with all streams locked has exceeded a limit.
  bool isOverLimit() const {
    int64_t signs = 0;
    for (size_t t = 0; t < limit.size(); ++t) {
      for (size_t i = 0; i < kNumCounters; ++i) {
        signs |= limit[t][i] - current[t][i];
      }
    }
    return signs < 0;
  }

  Block* newBlock() {
    if (unused == nullptr) {
      blocks.emplace_back().owner = this;
      return &blocks.back();
    }
    return std::exchange(unused, unused->free_list.next);
  }

  void recycle(Block* block) {
    block->state = BlockState::Unused;
    block->ptr = nullptr;
    block->prev = block->next = nullptr;
    block->free_list = {nullptr, std::exchange(unused, block)};
  }

  // A block from the cache; null if none fits.
  Block* allocate(size_t size, size_t requested, bool exclusive) {
    const bool is_small = size <= kSmallSize;
    FreeBlocks& free = free_blocks[is_small];
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
    const size_t rest = block->size - taken;
    Counts by{};
    add(by, 1, BlockState::Allocated, taken, requested);
    add(by, rest == 0 ? 0 : 1, BlockState::Free, rest);
    add(by, block->isSplit() ? -1 : 0, BlockState::Free, block->size);

    device.shared_.table.insert(block);
    Block* const remaining = rest == 0 ? nullptr : newBlock();
    if (C10_UNLIKELY(!charge(is_small, by, exclusive))) {
      if (remaining != nullptr) {
        recycle(remaining);
      }
      return nullptr;
    }
    if (remaining == nullptr) {
      free.erase(block);
    } else {
      remaining->ptr = block->ptr + taken;
      remaining->size = rest;
      remaining->is_small = is_small;
      remaining->state = BlockState::Free;
      free.replace(block, remaining);
      link(remaining, block->next);
      link(block, remaining);
      block->size = taken;
    }
    block->state = BlockState::Allocated;
    block->has_uses = false;
    block->requested_size = requested;
    return block;
  }

  // Makes a block free and merges it with its neighbours.
  bool free(Block* block, bool exclusive) {
    const auto ifFree = [](Block* neighbour) {
      const bool is_free =
          neighbour != nullptr && neighbour->state == BlockState::Free;
      return is_free ? neighbour : nullptr;
    };
    Block* const before = ifFree(block->prev);
    Block* const after = ifFree(block->next);
    Block* const first = before != nullptr ? before : block;
    Block* const end = after != nullptr ? after->next : block->next;
    const size_t around = (before != nullptr ? before->size : 0) +
        (after != nullptr ? after->size : 0);
    const size_t size = block->size + around;
    Counts by{};
    add(by, -1, block->state, block->size, block->requested_size);
    by[kInactiveSplit] -= int(before != nullptr) + int(after != nullptr);
    by[kInactiveSplitBytes] -= static_cast<int64_t>(around);
    const bool is_split = first->prev != nullptr || end != nullptr;
    add(by, is_split ? 1 : 0, BlockState::Free, size);
    if (C10_UNLIKELY(!charge(block->is_small, by, exclusive))) {
      return false;
    }
    FreeBlocks& free = free_blocks[block->is_small];
    if (before != nullptr) {
      free.erase(before);
      recycle(block);
    }
    first->size = size;
    link(first, end);
    first->state = BlockState::Free;
    first->freed_at = device.epoch_.load(std::memory_order_relaxed);
    if (after != nullptr) {
      free.replace(after, first);
      recycle(after);
    } else {
      free.insert(first);
    }
    return true;
  }

  // Client code freed the block, but the returned streams still use it.
  StreamUses setPending(Block* block) {
    Counts by{};
    add(by, -1, block->state, block->size, block->requested_size);
    add(by, 1, BlockState::PendingFree, block->size);
    charge(block->is_small, by, /*exclusive=*/true); // nothing grows
    block->state = BlockState::PendingFree;
    return std::move(stream_uses.extract(block).mapped());
  }

  // Adds a segment as one free block; with all streams locked.
  Block* addSegment(void* ptr, size_t size, bool is_small) {
    Block* const block = newBlock();
    block->ptr = static_cast<char*>(ptr);
    block->size = size;
    block->is_small = is_small;
    block->state = BlockState::Free;
    free_blocks[is_small].insert(block);
    countSegment(block, 1);
    return block;
  }

  void countSegment(const Block* segment, int64_t times) {
    Counts by{};
    by[kSegment] = times;
    by[kReservedBytes] = times * static_cast<int64_t>(segment->size);
    by[kOversizeSegment] = segment->size >= max_split_size ? times : 0;
    charge<kNumCounters>(segment->is_small, by, /*exclusive=*/true);
  }

  C10_ALWAYS_INLINE
  void checkAllocated(const Block* block, const void* ptr) const {
    TORCH_CHECK(
        block->ptr == ptr && block->state == BlockState::Allocated,
        c10::str("invalid XPU pointer: ", ptr, " is not an allocated block"));
  }
};

// Calls operation() with all streams locked. See Note [Exact peaks]
template <class Operation>
auto DeviceAllocator::withAllLocked(Operation operation) {
  const Guard guard(mutex_);
  SmallVector<std::unique_lock<SpinLock>, 8> locks;
  for (const auto& blocks : streams_) {
    locks.emplace_back(blocks->lock);
  }
  const auto settled = c10::make_scope_exit([&] {
    for (const auto& blocks : streams_) {
      if (C10_UNLIKELY(blocks->isOverLimit())) {
        return settle();
      }
    }
  });
  return operation();
}

// Calls operation(exclusive) with the stream locked, and if it returns false or
// null for lack of room, again with all streams locked.
template <class Operation>
auto DeviceAllocator::withLocked(StreamBlocks& blocks, Operation operation) {
  {
    const SpinGuard lock(blocks.lock);
    const auto result = operation(/*exclusive=*/false);
    if (C10_LIKELY(static_cast<bool>(result))) {
      return result;
    }
  }
  return withAllLocked([&] { return operation(/*exclusive=*/true); });
}

Block* DeviceAllocator::allocate(size_t requested, XPUStream stream) {
  if (C10_UNLIKELY(requested > AllocatorConfig::kMaxRequest)) {
    return nullptr;
  }
  const size_t size = shared_.config.roundSize(requested);
  const StreamId id = stream.id();
  StreamBlocks* const direct = id >= 0 && id < num_direct_
      ? direct_[id].load(std::memory_order_acquire)
      : nullptr;
  const auto allocateFrom = [&](StreamBlocks& blocks) {
    if (C10_UNLIKELY(blocks.num_pending.load(std::memory_order_relaxed) != 0)) {
      processPending(blocks, /*wait=*/false, /*most=*/1);
    }
    std::unique_lock<SpinLock> lock(blocks.lock);
    Block* const block = blocks.allocate(size, requested, /*exclusive=*/false);
    lock.unlock();
    return C10_LIKELY(block) ? block : allocateSlow(blocks, size, requested);
  };
  Block* block = nullptr;
  if (C10_LIKELY(direct != nullptr)) {
    block = allocateFrom(*direct);
  } else {
    const Guard guard(mutex_); // see Note [Private pools]
    block = allocateFrom(findOrMake(stream));
  }
  if (C10_LIKELY(block != nullptr)) {
    const StreamBlocks& blocks = *block->owner;
    if (C10_UNLIKELY(blocks.id == kExternalStreams)) {
      recordStream(block, block->ptr, stream); // see Note [Stream uses]
    }
    blocks.trace(TraceEvent::ALLOC, block->ptr, block->size);
    reportToProfiler(block->ptr, static_cast<int64_t>(block->size));
  }
  return block;
}

StreamBlocks& DeviceAllocator::findOrMake(const XPUStream& stream) {
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

// Raises the peaks to the present sums, and deals out what lies between to the
// streams that have blocks.
void DeviceAllocator::settle() {
  const auto shares = [](const auto& blocks) {
    return blocks->current[kAggregate][kActive] != 0;
  };
  const auto count = std::count_if(streams_.begin(), streams_.end(), shares);
  current_ = increased_ = {};
  for (const auto& blocks : streams_) {
    for (size_t t = 0; t < peak_.size(); ++t) {
      for (size_t i = 0; i < kNumCounters; ++i) {
        current_[t][i] += blocks->current[t][i];
        increased_[t][i] += blocks->increased[t][i];
        increased_[kAggregate][i] += blocks->increased[t][i];
      }
    }
  }
  for (size_t t = 0; t < peak_.size(); ++t) {
    for (size_t i = 0; i < kNumCounters; ++i) {
      peak_[t][i] = std::max(peak_[t][i], current_[t][i]);
      const int64_t room = peak_[t][i] - current_[t][i];
      const int64_t share = count > 1 ? room / count : room;
      for (const auto& blocks : streams_) {
        blocks->limit[t][i] =
            blocks->current[t][i] + (shares(blocks) ? share : 0);
      }
    }
  }
}

// Several times what is needed, up to a part of what is reserved, so that
// segments are few, and their blocks merge to serve other sizes.
size_t DeviceAllocator::segmentSize(size_t size) const {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  const size_t max_split_size = shared_.config.max_split_size;
  size_t reserved = 0;
  for (const auto& blocks : streams_) {
    reserved += size_t(blocks->current[kAggregate][kReservedBytes]);
  }
  const size_t wanted = max_split_size == AllocatorConfig::kUnlimited
      ? std::min(reserved / 8, kMaxGrowth) / size * size
      : size;
  const size_t rounded = roundUp(std::max(wanted, size), kRoundLarge);
  // A segment that rounding makes oversize could not serve the request.
  return size < max_split_size && rounded >= max_split_size ? size : rounded;
}

// Memory from the pool's allocator or the runtime; null if it or the limit of
// the card refuses. Inline, because after a system call the processor
// mispredicts each return.
C10_ALWAYS_INLINE void* DeviceAllocator::obtain(
    StreamBlocks& blocks,
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
      ptr = own->raw_alloc_with_stream(size, blocks.stream);
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

// A block at the start of a new segment, after garbage is collected.
C10_ALWAYS_INLINE Block* DeviceAllocator::allocateSegment(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const double part = shared_.config.garbage_collection_threshold;
  if (part > 0) {
    const auto all = std::min(card_.limit.load(), card_.total);
    releaseIdle(size_t(part * double(all)));
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
  ++counts_.num_device_alloc;
  ++blocks.pool.num_segments;
  blocks.trace(TraceEvent::SEGMENT_ALLOC, ptr, segment);
  return withAllLocked([&] {
    segments_[ptr] = blocks.addSegment(ptr, segment, is_small);
    return blocks.allocate(size, requested, /*exclusive=*/true);
  });
}

Block* DeviceAllocator::allocateSlow(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const Guard guard(mutex_);
  ++epoch_;
  for (const int attempt : {0, 1, 2}) {
    if (attempt != 0) { // first the cache of the stream, then all of the device
      attempt == 1 ? emptyCacheOf(blocks) : emptyCache();
    } else if (blocks.num_pending != 0) {
      processPending(blocks, /*wait=*/false);
    }
    std::unique_lock<SpinLock> lock(blocks.lock);
    Block* block = blocks.free_blocks[size <= kSmallSize].find(size);
    lock.unlock();
    if (block != nullptr) { // free since, or a limit was exceeded
      block = withAllLocked(
          [&] { return blocks.allocate(size, requested, /*exclusive=*/true); });
    }
    if (block == nullptr) {
      block = allocateSegment(blocks, size, requested);
    }
    if (block != nullptr) {
      return block;
    }
    counts_.num_alloc_retries += attempt == 0 ? 1 : 0;
  }
  Block* block = nullptr; // the last resort is a private pool that allows it
  for (const auto& each : streams_) {
    if (block == nullptr && &blocks.pool == &pools_.front() &&
        each->pool.use_on_oom && each->id == blocks.id) {
      block = withAllLocked(
          [&] { return each->allocate(size, requested, /*exclusive=*/true); });
    }
  }
  return block;
}

void DeviceAllocator::free(Block* block, void* ptr) {
  StreamBlocks& blocks = *block->owner;
  DeviceAllocator& self = blocks.device;
  const bool traced = trace_fn.load(std::memory_order_relaxed) != nullptr ||
      c10::impl::GPUTrace::get_trace() != nullptr;
  if (C10_UNLIKELY(traced)) { // before the memory can be someone else's
    std::unique_lock<SpinLock> lock(blocks.lock);
    blocks.checkAllocated(block, ptr);
    lock.unlock();
    blocks.trace(TraceEvent::FREE_REQUESTED, ptr, block->size);
    if (!block->has_uses) {
      blocks.trace(TraceEvent::FREE_COMPLETED, ptr, block->size);
    }
  }
  std::unique_lock<SpinLock> lock(blocks.lock);
  blocks.checkAllocated(block, ptr);
  const auto size = static_cast<int64_t>(block->size);
  const bool freed =
      !block->has_uses && blocks.free(block, /*exclusive=*/false);
  lock.unlock();
  if (C10_UNLIKELY(!freed)) {
    self.freeSlow(blocks, block, ptr);
  }
  self.reportToProfiler(ptr, -size);
}

void DeviceAllocator::freeSlow(StreamBlocks& blocks, Block* block, void* ptr) {
  StreamUses uses;
  withLocked(blocks, [&](bool exclusive) {
    blocks.checkAllocated(block, ptr);
    if (block->has_uses) {
      uses = blocks.setPending(block);
    }
    return !uses.empty() || blocks.free(block, exclusive);
  });
  if (uses.empty()) {
    return;
  }
  std::unique_lock<std::mutex> lock(blocks.pending_mutex);
  blocks.pending.emplace_front(block, std::move(uses));
  ++blocks.num_pending;
  lock.unlock();
  try {
    processPending(blocks, /*wait=*/false, /*most=*/1);
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
  auto& uses = blocks.stream_uses[block];
  if (std::find(uses.begin(), uses.end(), use) == uses.end()) {
    uses.push_back(std::move(use));
    block->has_uses = true;
  }
}

// Frees, of the `most` first pending blocks, those that no stream uses any
// more.
void DeviceAllocator::processPending(
    StreamBlocks& blocks,
    bool wait,
    size_t most) {
  // Submits the fences that are missing.
  const auto passed = [&](StreamUse& use) {
    const bool idle = !use.fence && !(use.fence = shared_.backend.fence(use));
    return idle || use.fence(wait);
  };
  std::exception_ptr error;
  std::vector<Block*> done;
  {
    const std::lock_guard<std::mutex> lock(blocks.pending_mutex);
    for (auto n = std::min(most, blocks.pending.size()); n != 0; --n) {
      auto each = std::move(blocks.pending.front());
      blocks.pending.pop_front();
      auto& uses = each.second;
      try {
        for (auto use = uses.end(); use != uses.begin();) {
          use = passed(*--use) ? uses.erase(use) : use;
        }
      } catch (...) {
        error = std::current_exception();
      }
      if (uses.empty()) {
        done.push_back(each.first);
      } else {
        blocks.pending.push_back(std::move(each));
      }
    }
    blocks.num_pending = blocks.pending.size();
  }
  for (Block* block : done) {
    blocks.trace(TraceEvent::FREE_COMPLETED, block->ptr, block->size);
    withLocked(blocks, [&](bool all) { return blocks.free(block, all); });
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Gives back segments, those idle for longest first, until no more than
// `target` bytes of the card are reserved.
void DeviceAllocator::releaseIdle(size_t target, const StreamBlocks* of) {
  std::vector<std::pair<int32_t, Block*>> idle;
  for (const auto& entry : segments_) {
    Block* const first = entry.second;
    const SpinGuard lock(first->owner->lock);
    if ((of == nullptr || first->owner == of) && first->isFreeSegment() &&
        first->owner->pool.use_count == 0) {
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
  auto entry = segments_.extract(ptr);
  auto put_back = c10::make_scope_exit([&] {
    segments_.insert(std::move(entry));
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
  ++counts_.num_device_free;
  --blocks.pool.num_segments;
  withAllLocked([&] {
    blocks.countSegment(segment, -1);
    blocks.recycle(segment);
  });
  blocks.trace(TraceEvent::SEGMENT_FREE, ptr, size);
}

void DeviceAllocator::emptyCache(MempoolId_t pool) {
  const Guard guard(mutex_);
  for (const auto& blocks : streams_) {
    if (pool == MempoolId_t() || pool == blocks->pool.id) {
      emptyCacheOf(*blocks);
    }
  }
}

void DeviceAllocator::emptyCacheOf(StreamBlocks& blocks) {
  processPending(blocks, /*wait=*/true);
  releaseIdle(0, &blocks);
}

Pool& DeviceAllocator::findPool(MempoolId_t id) {
  const auto pool = std::find_if(
      pools_.begin(), pools_.end(), [&](auto& p) { return p.id == id; });
  checkPool(pool != pools_.end() && pool->use_count > 0, id, "is not in use");
  return *pool;
}

void DeviceAllocator::createOrIncrefPool(
    MempoolId_t id,
    XPUAllocator* allocator,
    bool use_on_oom) {
  const Guard guard(mutex_);
  checkPool(id != MempoolId_t(), id, "is not private");
  const auto is_gone = [](const Pool& pool) {
    return pool.use_count == 0 && pool.num_segments == 0;
  };
  auto pool = std::find_if(
      pools_.begin(), pools_.end(), [&](auto& p) { return p.id == id; });
  if (pool == pools_.end()) {
    pool = std::find_if(pools_.begin() + 1, pools_.end(), is_gone);
  }
  if (pool == pools_.end()) {
    pool = pools_.emplace(pool);
  }
  if (is_gone(*pool)) {
    const bool own = allocator != GetAllocator(kXPU); // not the native one
    *pool = {id, own ? allocator : nullptr, use_on_oom};
  }
  ++pool->use_count;
}

void DeviceAllocator::beginAllocateToPool(MempoolId_t id, PoolFilter filter) {
  const Guard guard(mutex_);
  for (const Pool* pool : filtered_) {
    checkPool(pool->id != id, id, "is being allocated to already");
  }
  createOrIncrefPool(id, nullptr, /*use_on_oom=*/false);
  filtered_.push_back(&findPool(id));
  filtered_.back()->filter = std::move(filter);
  num_direct_ = 0;
}

void DeviceAllocator::endAllocateToPool(MempoolId_t id) {
  const Guard guard(mutex_);
  Pool& pool = findPool(id);
  checkPool(bool(pool.filter), id, "is not being allocated to");
  filtered_.erase(std::find(filtered_.begin(), filtered_.end(), &pool));
  pool.filter = nullptr;
  num_direct_ = filtered_.empty() ? kNumDirect : 0;
}

void DeviceAllocator::releasePool(MempoolId_t id) {
  const Guard guard(mutex_);
  Pool& pool = findPool(id);
  checkPool(pool.use_count > 1 || !pool.filter, id, "is being allocated to");
  --pool.use_count;
}

int DeviceAllocator::getPoolUseCount(MempoolId_t id) {
  const Guard guard(mutex_);
  int count = 0;
  for (const Pool& pool : pools_) {
    count += pool.id == id ? pool.use_count : 0;
  }
  return count;
}

DeviceStats DeviceAllocator::stats() {
  const Guard guard(mutex_);
  withAllLocked([&] { settle(); });
  DeviceStats stats = counts_;
  const auto read = [&](Stat& stat, size_t t, Counter i) {
    stat.current = current_[t][i];
    stat.peak = peak_[t][i];
    stat.allocated = increased_[t][i] - increased_base_[t][i];
    stat.freed = stat.allocated + current_base_[t][i] - stat.current;
  };
  for (size_t t = 0; t < peak_.size(); ++t) {
    read(stats.allocation[t], t, kAllocation);
    read(stats.segment[t], t, kSegment);
    read(stats.active[t], t, kActive);
    read(stats.inactive_split[t], t, kInactiveSplit);
    read(stats.allocated_bytes[t], t, kAllocatedBytes);
    read(stats.reserved_bytes[t], t, kReservedBytes);
    read(stats.active_bytes[t], t, kActiveBytes);
    read(stats.inactive_split_bytes[t], t, kInactiveSplitBytes);
    read(stats.requested_bytes[t], t, kRequestedBytes);
  }
  read(stats.oversize_allocations, kAggregate, kOversizeAllocation);
  read(stats.oversize_segments, kAggregate, kOversizeSegment);
  stats.max_split_size = static_cast<int64_t>(shared_.config.max_split_size);
  return stats;
}

void DeviceAllocator::resetPeakStats() {
  withAllLocked([&] {
    peak_ = {};
    settle();
  });
}

void DeviceAllocator::resetAccumulatedStats() {
  const Guard guard(mutex_);
  withAllLocked([&] { settle(); });
  counts_.num_alloc_retries = counts_.num_ooms = 0;
  increased_base_ = increased_;
  current_base_ = current_;
}

void DeviceAllocator::snapshot(
    std::vector<SegmentInfo>& result,
    MempoolId_t pool) {
  const Guard guard(mutex_);
  for (const auto& entry : segments_) {
    const Block* const first = entry.second;
    SegmentInfo segment;
    segment.owner_private_pool_id = first->owner->pool.id;
    if (pool != MempoolId_t() && pool != segment.owner_private_pool_id) {
      continue;
    }
    segment.device = static_cast<int>(device_);
    segment.address = reinterpret_cast<int64_t>(entry.first);
    const SpinGuard lock(first->owner->lock);
    segment.stream = first->owner->id;
    segment.is_large = !first->is_small;
    for (const Block* block = first; block != nullptr; block = block->next) {
      BlockInfo info;
      info.size = static_cast<int64_t>(block->size);
      info.allocated = block->state == BlockState::Allocated;
      info.active = block->state != BlockState::Free;
      info.requested_size =
          info.allocated ? static_cast<int64_t>(block->requested_size) : 0;
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
  const auto after = segments_.upper_bound(ptr);
  if (after == segments_.begin()) {
    return false;
  }
  const Block* last = std::prev(after)->second;
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
  ++counts_.num_ooms;
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
