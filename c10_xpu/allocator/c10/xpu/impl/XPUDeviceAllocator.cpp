#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>

namespace c10::xpu::impl {

namespace {

// Blocks that wait for a fence at most, see Note [Stream uses].
constexpr size_t kMaxUnfenced = 8;
constexpr size_t kMaxUnfencedBytes = size_t{16} << 20;
constexpr uint32_t kTurns = 8;

std::atomic<XPUCachingAllocator::TraceFn> trace_fn{nullptr};

bool isTraced() {
  return trace_fn.load(std::memory_order_relaxed) != nullptr;
}

void trace(
    TraceEvent::Action action,
    DeviceIndex device,
    const void* ptr,
    size_t size,
    StreamId stream) {
  if (const auto fn = trace_fn.load(std::memory_order_acquire);
      C10_UNLIKELY(fn != nullptr)) {
    fn({action,
        device,
        reinterpret_cast<int64_t>(ptr),
        static_cast<int64_t>(size),
        stream});
  }
}

StatType typeOf(bool is_small) {
  return is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL;
}

void update(Stat& stat, int64_t by) {
  stat.current += by;
  stat.peak = std::max(stat.peak, stat.current);
  (by > 0 ? stat.allocated : stat.freed) += std::abs(by);
}

void update(XPUCachingAllocator::StatArray& stats, bool is_small, int64_t by) {
  update(stats[static_cast<size_t>(StatType::AGGREGATE)], by);
  update(stats[static_cast<size_t>(typeOf(is_small))], by);
}

size_t roundUp(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}

} // namespace

// ---- the blocks of one stream ----

// Inline, since the counts are in registers then.
C10_ALWAYS_INLINE bool StreamBlocks::charge(
    bool is_small,
    const Counts& by,
    bool exclusive) {
  Counts& pool = room[static_cast<size_t>(typeOf(is_small))];
  Counts& both = room[static_cast<size_t>(StatType::AGGREGATE)];
  int64_t signs = 0;
  for (size_t i = 0; i < kNumCounters; ++i) {
    signs |= (pool[i] - by[i]) | (both[i] - by[i]);
  }
  // A counter that does not grow has room: `room` is never negative.
  if (C10_UNLIKELY(signs < 0) && !exclusive) {
    return false;
  }
  Counts& sums = increased[static_cast<size_t>(typeOf(is_small))];
  for (size_t i = 0; i < kNumCounters; ++i) {
    pool[i] -= by[i];
    both[i] -= by[i];
    sums[i] += std::max<int64_t>(by[i], 0);
  }
  return true;
}

Block* StreamBlocks::newBlock() {
  if (unused == nullptr) {
    blocks.emplace_back();
    blocks.back().owner = this;
    return &blocks.back();
  }
  return std::exchange(unused, unused->free_list.next);
}

void StreamBlocks::recycle(Block* block) {
  block->state = BlockState::Unused;
  block->ptr = nullptr;
  block->prev = block->next = nullptr;
  block->free_list = {nullptr, unused};
  unused = block;
}

Block* StreamBlocks::allocate(
    size_t size,
    size_t requested,
    BlockTable& table,
    bool exclusive) {
  const bool is_small = size <= kSmallSize;
  FreeBlocks& free = freeBlocks(is_small);
  Block* const block = free.find(size);
  if (C10_UNLIKELY(block == nullptr)) {
    return nullptr;
  }
  // An oversize block serves only requests of about its size, whole.
  const bool oversize = block->size >= config.max_split_size;
  if (C10_UNLIKELY(oversize) &&
      (size < config.max_split_size || block->size - size >= kLargeBuffer)) {
    return nullptr;
  }
  const size_t rest = oversize ? 0 : block->size - size;
  const auto taken = static_cast<int64_t>(block->size - rest);
  const int64_t was_split = block->isSplit() ? 1 : 0;
  const int64_t has_rest = rest != 0 ? 1 : 0;
  Counts by{};
  by[kAllocation] = by[kActive] = 1;
  by[kAllocatedBytes] = by[kActiveBytes] = taken;
  by[kRequestedBytes] = static_cast<int64_t>(requested);
  by[kInactiveSplit] = has_rest - was_split;
  by[kInactiveSplitBytes] = static_cast<int64_t>(rest) -
      was_split * static_cast<int64_t>(block->size);

  // What may throw comes first.
  table.insert(block);
  Block* const remaining = rest == 0 ? nullptr : newBlock();
  if (C10_UNLIKELY(!charge(is_small, by, exclusive))) {
    if (remaining != nullptr) {
      recycle(remaining);
    }
    return nullptr;
  }
  free.erase(block);
  if (remaining != nullptr) {
    remaining->ptr = block->ptr + taken;
    remaining->size = rest;
    remaining->prev = block;
    remaining->next = block->next;
    remaining->is_small = is_small;
    remaining->state = BlockState::Free;
    if (block->next != nullptr) {
      block->next->prev = remaining;
    }
    block->next = remaining;
    block->size = static_cast<size_t>(taken);
    free.insert(remaining);
  }
  block->state = BlockState::Allocated;
  block->num_fences = 0;
  block->requested_size = requested;
  return block;
}

bool StreamBlocks::free(Block* block, uint32_t epoch, bool exclusive) {
  const auto freeNeighbour = [](Block* neighbour) {
    return neighbour != nullptr && neighbour->state == BlockState::Free
        ? neighbour
        : nullptr;
  };
  Block* const before = freeNeighbour(block->prev);
  Block* const after = freeNeighbour(block->next);
  const auto size = static_cast<int64_t>(block->size);
  Counts by{};
  by[kActive] = -1;
  by[kActiveBytes] = -size;
  if (block->state == BlockState::Allocated) {
    by[kAllocation] = -1;
    by[kAllocatedBytes] = -size;
    by[kRequestedBytes] = -static_cast<int64_t>(block->requested_size);
  }
  int64_t merged = size;
  for (const Block* neighbour : {before, after}) {
    if (neighbour != nullptr) {
      merged += static_cast<int64_t>(neighbour->size);
      by[kInactiveSplit] -= 1;
      by[kInactiveSplitBytes] -= static_cast<int64_t>(neighbour->size);
    }
  }
  const Block* const first = before != nullptr ? before : block;
  const Block* const last = after != nullptr ? after : block;
  if (first->prev != nullptr || last->next != nullptr) {
    by[kInactiveSplit] += 1;
    by[kInactiveSplitBytes] += merged;
  }
  if (C10_UNLIKELY(!charge(block->is_small, by, exclusive))) {
    return false;
  }

  FreeBlocks& free = freeBlocks(block->is_small);
  // The left one of two that merge stays.
  const auto absorb = [this](Block* left, Block* right) {
    left->size += right->size;
    left->next = right->next;
    if (right->next != nullptr) {
      right->next->prev = left;
    }
    recycle(right);
  };
  if (after != nullptr) {
    free.erase(after);
    absorb(block, after);
  }
  if (before != nullptr) {
    free.erase(before);
    absorb(before, block);
    block = before;
  }
  block->state = BlockState::Free;
  block->freed_at = epoch;
  free.insert(block);
  return true;
}

SmallVector<XPUStream, 2> StreamBlocks::setPending(Block* block) {
  const auto size = static_cast<int64_t>(block->size);
  Counts by{};
  by[kAllocation] = -1;
  by[kAllocatedBytes] = -size;
  by[kRequestedBytes] = -static_cast<int64_t>(block->requested_size);
  charge(block->is_small, by, /*exclusive=*/false); // nothing grows
  block->state = BlockState::PendingFree;
  SmallVector<XPUStream, 2> result;
  const auto recorded = stream_uses.find(block);
  if (recorded != stream_uses.end()) {
    result = std::move(recorded->second);
    stream_uses.erase(recorded);
  }
  if (is_external) {
    result.push_back(stream);
  }
  return result;
}

Block* StreamBlocks::addSegment(char* ptr, size_t size, bool is_small) {
  Block* const block = newBlock();
  block->ptr = ptr;
  block->size = size;
  block->is_small = is_small;
  block->state = BlockState::Free;
  freeBlocks(is_small).insert(block);
  return block;
}

void StreamBlocks::checkAllocated(const Block* block, const void* ptr) const {
  TORCH_CHECK(
      block->ptr == ptr && block->state == BlockState::Allocated,
      "invalid XPU pointer: ",
      ptr,
      " is not allocated: it was freed already, or it is not the start of a "
      "block of the XPU caching allocator");
}

// ---- allocating ----

/// Locks all streams of a device, with its mutex held.
struct DeviceAllocator::LockAll {
  explicit LockAll(DeviceAllocator& device) : device(device) {
    for (const auto& blocks : device.streams_) {
      blocks->lock.lock();
    }
  }
  LockAll(const LockAll&) = delete;
  LockAll& operator=(const LockAll&) = delete;
  ~LockAll() {
    for (const auto& blocks : device.streams_) {
      blocks->lock.unlock();
    }
  }
  DeviceAllocator& device;
};

DeviceAllocator::DeviceAllocator(
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

Block* DeviceAllocator::allocate(size_t requested, StreamId stream) {
  if (C10_UNLIKELY(requested > AllocatorConfig::kMaxRequest)) {
    return nullptr;
  }
  const size_t size = config_.roundSize(requested);
  Block* block = nullptr;
  StreamBlocks* const blocks = isDirect(stream)
      ? direct_[static_cast<size_t>(stream)].load(std::memory_order_acquire)
      : nullptr;
  if (C10_LIKELY(blocks != nullptr && size < config_.max_split_size)) {
    if (C10_UNLIKELY(
            blocks->num_pending.load(std::memory_order_relaxed) != 0) &&
        blocks->turn.fetch_add(1, std::memory_order_relaxed) % kTurns == 0) {
      processUses(*blocks, Wait::No);
    }
    const std::lock_guard<SpinLock> lock(blocks->lock);
    block = blocks->allocate(size, requested, table_, /*exclusive=*/false);
  }
  if (C10_UNLIKELY(block == nullptr)) {
    block = allocateSlow(size, requested, stream);
  }
  if (block != nullptr) {
    trace(TraceEvent::ALLOC, device_, block->ptr, block->size, stream);
  }
  return block;
}

Block* DeviceAllocator::allocateSlow(
    size_t size,
    size_t requested,
    StreamId stream) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  StreamBlocks& blocks = findOrMake(stream);
  const auto attempt = [&]() -> Block* {
    if (Block* block = allocateExclusive(blocks, size, requested)) {
      return block;
    }
    return allocateSegment(blocks, size, requested);
  };

  Block* block = allocateExclusive(blocks, size, requested);
  if (block == nullptr && blocks.num_pending != 0) {
    processUses(blocks, Wait::No);
    block = allocateExclusive(blocks, size, requested);
  }
  if (block == nullptr) {
    epoch_.fetch_add(1, std::memory_order_relaxed);
    collectGarbage();
    block = allocateSegment(blocks, size, requested);
  }
  if (block == nullptr) {
    // First what costs least, in the end all that the device has cached.
    ++stats_.num_alloc_retries;
    releaseOversize(blocks, size);
    block = attempt();
  }
  if (block == nullptr) {
    processUses(blocks, Wait::Yes);
    release(idleSegments(&blocks));
    block = attempt();
  }
  if (block == nullptr) {
    releaseAll();
    block = attempt();
  }
  if (block != nullptr && block->size >= config_.max_split_size) {
    update(stats_.oversize_allocations, 1);
  }
  return block;
}

StreamBlocks& DeviceAllocator::findOrMake(StreamId id) {
  const XPUStream stream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device_), id));
  const auto external = backend_.externalQueue(stream);
  const bool direct = !external && isDirect(id);
  StreamBlocks* found = nullptr;
  if (direct) {
    found = direct_[static_cast<size_t>(id)].load(std::memory_order_relaxed);
  } else {
    for (const auto& blocks : streams_) {
      const std::lock_guard<SpinLock> lock(blocks->lock);
      if (blocks->is_external != (external != nullptr)) {
        continue;
      }
      const bool same_stream = blocks->stream == stream;
      const bool same_queue = external
          ? blocks->external && *blocks->external == *external
          : same_stream;
      // Blocks that no external stream has in use may serve any other.
      const bool vacant = external && !blocks->external;
      if (same_stream && (same_queue || vacant)) {
        found = blocks.get();
        break;
      }
      if (vacant) {
        found = blocks.get();
      }
    }
  }
  if (found == nullptr) {
    streams_.push_back(
        std::make_unique<StreamBlocks>(*this, stream, external != nullptr, config_));
    found = streams_.back().get();
    if (direct) {
      direct_[static_cast<size_t>(id)].store(found, std::memory_order_release);
    }
  }
  if (external) {
    const std::lock_guard<SpinLock> lock(found->lock);
    found->stream = stream;
    found->external = external;
  }
  return *found;
}

Block* DeviceAllocator::allocateExclusive(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const LockAll all(*this);
  Block* const block =
      blocks.allocate(size, requested, table_, /*exclusive=*/true);
  settle(blocks);
  return block;
}

// The caller has all streams locked. See Note [Exact peaks]
void DeviceAllocator::settle(StreamBlocks& asker) {
  constexpr size_t kAggregate = static_cast<size_t>(StatType::AGGREGATE);
  int64_t others = 0; // that have blocks in use
  for (const auto& blocks : streams_) {
    others += blocks.get() != &asker && blocks->current(kAggregate, kActive) != 0;
  }
  for (size_t t = 0; t < peak_.size(); ++t) {
    for (size_t i = 0; i < kNumCounters; ++i) {
      int64_t sum = 0;
      for (const auto& blocks : streams_) {
        sum += blocks->current(t, i);
      }
      peak_[t][i] = std::max(peak_[t][i], sum);
      const int64_t slack = peak_[t][i] - sum;
      const int64_t share = others == 0 ? 0 : slack / 2 / others;
      for (const auto& blocks : streams_) {
        const int64_t room = blocks.get() == &asker
            ? slack - share * others
            : blocks->current(kAggregate, kActive) != 0 ? share : 0;
        blocks->limit[t][i] = blocks->current(t, i) + room;
        blocks->room[t][i] = room;
      }
    }
  }
}

// How much memory to ask for when `size` bytes are needed: several times that,
// up to a part of what is reserved already. It keeps the number of segments low
// and lets free blocks merge to serve other sizes.
size_t DeviceAllocator::growth(size_t size) const {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  size_t times = std::min(reserved / 8, kMaxGrowth) / size;
  if (config_.max_split_size != AllocatorConfig::kUnlimited) {
    times = 1; // a larger segment might not be split
  }
  return roundUp(std::max<size_t>(times, 1) * size, kRoundLarge);
}

// A block at the start of a new segment.
Block* DeviceAllocator::allocateSegment(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const bool is_small = size <= kSmallSize;
  size_t segment = growth(size);
  void* ptr = obtain(segment);
  if (ptr == nullptr && !is_small) {
    segment = roundUp(size, kRoundLarge);
    ptr = obtain(segment);
  }
  if (ptr == nullptr) {
    return nullptr;
  }
  Block* first = nullptr;
  Block* block = nullptr;
  try {
    const auto place = 
        segments_.emplace(static_cast<char*>(ptr), Segment{nullptr, segment})
            .first;
    const LockAll all(*this);
    first = blocks.addSegment(static_cast<char*>(ptr), segment, is_small);
    place->second.first = first;
    block = blocks.allocate(size, requested, table_, /*exclusive=*/true);
    settle(blocks);
  } catch (...) {
    // Lack of host memory. A segment without a block is given back; one with a
    // free block stays cached.
    if (first == nullptr) {
      segments_.erase(static_cast<char*>(ptr));
      card_.reserved -= segment;
      backend_.deallocate(device_, ptr);
      throw;
    }
  }
  ++stats_.num_device_alloc;
  update(stats_.segment, is_small, 1);
  update(stats_.reserved_bytes, is_small, static_cast<int64_t>(segment));
  if (segment >= config_.max_split_size) {
    update(stats_.oversize_segments, 1);
  }
  trace(TraceEvent::SEGMENT_ALLOC, device_, ptr, segment, blocks.stream.id());
  return block;
}

// Memory from the runtime; null if it or the limit of the card refuses.
void* DeviceAllocator::obtain(size_t size) {
  if (card_.reserved.fetch_add(size) + size <= card_.limit) {
    try {
      if (void* ptr = backend_.allocate(device_, size)) {
        return ptr;
      }
    } catch (...) {
      card_.reserved -= size;
      throw;
    }
  }
  card_.reserved -= size;
  return nullptr;
}

// ---- freeing ----

size_t DeviceAllocator::free(Block* block, void* ptr) {
  StreamBlocks& blocks = *block->owner;
  DeviceAllocator& self = blocks.device;
  if (C10_UNLIKELY(isTraced())) {
    // Before the memory can be someone else's.
    const size_t size = self.checkedSize(block, ptr);
    trace(TraceEvent::FREE_REQUESTED, self.device_, ptr, size, blocks.stream.id());
  }
  SmallVector<XPUStream, 2> uses;
  size_t size = 0;
  bool freed = false;
  {
    const std::lock_guard<SpinLock> lock(blocks.lock);
    blocks.checkAllocated(block, ptr);
    size = block->size;
    if (C10_LIKELY(block->num_fences == 0 && !blocks.is_external)) {
      freed = blocks.free(block, self.epoch(), /*exclusive=*/false);
    } else {
      uses = blocks.setPending(block);
    }
  }
  if (C10_UNLIKELY(!uses.empty())) {
    self.addUses(blocks, block, size, uses);
  } else {
    if (C10_UNLIKELY(!freed)) {
      self.freeExclusive(blocks, block, ptr);
    }
    trace(TraceEvent::FREE_COMPLETED, self.device_, ptr, size, blocks.stream.id());
  }
  if (C10_UNLIKELY(size >= self.config_.max_split_size)) {
    const std::lock_guard<std::recursive_mutex> guard(self.mutex_);
    update(self.stats_.oversize_allocations, -1);
  }
  return size;
}

size_t DeviceAllocator::checkedSize(const Block* block, const void* ptr) {
  const std::lock_guard<SpinLock> lock(block->owner->lock);
  block->owner->checkAllocated(block, ptr);
  return block->size;
}

void DeviceAllocator::freeExclusive(
    StreamBlocks& blocks,
    Block* block,
    const void* ptr) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  const LockAll all(*this);
  if (ptr != nullptr) {
    blocks.checkAllocated(block, ptr);
  }
  blocks.free(block, epoch(), /*exclusive=*/true);
  settle(blocks);
}

void DeviceAllocator::recordStream(Block* block, void* ptr, XPUStream stream) {
  StreamBlocks& blocks = *block->owner;
  const std::lock_guard<SpinLock> lock(blocks.lock);
  blocks.checkAllocated(block, ptr);
  if (stream == blocks.stream) {
    return;
  }
  auto& uses = blocks.stream_uses[block];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) {
    uses.push_back(stream);
    ++block->num_fences;
  }
}

// See Note [Stream uses]
void DeviceAllocator::addUses(
    StreamBlocks& blocks,
    Block* block,
    size_t size,
    const SmallVector<XPUStream, 2>& uses) {
  bool fence_now = false;
  {
    const std::lock_guard<std::mutex> lock(blocks.uses_mutex);
    block->num_fences = static_cast<uint16_t>(uses.size());
    for (const XPUStream& stream : uses) {
      auto use = std::find_if(
          blocks.uses.begin(), blocks.uses.end(), [&](const auto& known) {
            return known.stream == stream;
          });
      if (use == blocks.uses.end()) {
        use = blocks.uses.insert(use, StreamBlocks::Use{stream, {}, {}});
      }
      use->unfenced.push_back(block);
      fence_now = fence_now || !isDirect(stream.id());
    }
    blocks.num_pending.fetch_add(1, std::memory_order_relaxed);
    blocks.unfenced_bytes += size;
    fence_now = fence_now || ++blocks.num_unfenced >= kMaxUnfenced ||
        blocks.unfenced_bytes >= kMaxUnfencedBytes;
  }
  if (fence_now) {
    try {
      processUses(blocks, Wait::No);
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
      // The block stays pending; whoever needs it tries again, and raises.
    }
  }
}

// Submits the fences that blocks wait for, and frees the blocks whose streams
// have passed theirs.
void DeviceAllocator::processUses(StreamBlocks& blocks, Wait wait) {
  std::vector<Block*> done;
  std::exception_ptr error;
  {
    const std::lock_guard<std::mutex> lock(blocks.uses_mutex);
    const auto passed = [&done](std::vector<Block*>& of) {
      for (Block* block : of) {
        if (--block->num_fences == 0) {
          done.push_back(block);
        }
      }
      of.clear();
    };
    blocks.num_unfenced = 0;
    blocks.unfenced_bytes = 0;
    for (auto& use : blocks.uses) {
      try {
        if (!use.unfenced.empty()) {
          const bool own = use.stream == blocks.stream;
          auto fence = backend_.fence(
              use.stream, own ? blocks.external.get() : nullptr);
          if (fence) {
            use.fenced.push_back({std::move(fence), std::move(use.unfenced)});
            use.unfenced.clear();
          } else {
            passed(use.unfenced);
          }
        }
        while (!use.fenced.empty()) {
          auto& oldest = use.fenced.front();
          if (wait == Wait::Yes && !oldest.fence->waitsForHost()) {
            oldest.fence->wait();
          } else if (!oldest.fence->complete()) {
            break;
          }
          passed(oldest.blocks);
          use.fenced.pop_front();
        }
      } catch (...) {
        error = std::current_exception();
        blocks.num_unfenced += use.unfenced.size();
      }
    }
    blocks.uses.remove_if([](const auto& use) {
      return use.unfenced.empty() && use.fenced.empty();
    });
  }
  for (Block* block : done) {
    finishFree(blocks, block);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Frees a pending block that no stream uses any more.
void DeviceAllocator::finishFree(StreamBlocks& blocks, Block* block) {
  const void* const ptr = block->ptr;
  const size_t size = block->size;
  const StreamId stream = blocks.stream.id();
  std::shared_ptr<sycl::queue> unused; // destroyed without the lock
  {
    const std::lock_guard<SpinLock> lock(blocks.lock);
    if (blocks.free(block, epoch(), /*exclusive=*/false)) {
      block = nullptr;
    }
  }
  if (block != nullptr) {
    freeExclusive(blocks, block, nullptr);
  }
  blocks.num_pending.fetch_sub(1, std::memory_order_relaxed);
  if (blocks.is_external) {
    const std::lock_guard<SpinLock> lock(blocks.lock);
    if (blocks.current(0, kActive) == 0) {
      unused = std::move(blocks.external);
    }
  }
  trace(TraceEvent::FREE_COMPLETED, device_, ptr, size, stream);
}

// ---- giving segments back; the caller holds the mutex ----

std::vector<Block*> DeviceAllocator::idleSegments(const StreamBlocks* of) {
  std::vector<Block*> idle;
  for (const auto& segment : segments_) {
    Block* const first = segment.second.first;
    if (of == nullptr || first->owner == of) {
      const std::lock_guard<SpinLock> lock(first->owner->lock);
      if (first->state == BlockState::Free && !first->isSplit()) {
        idle.push_back(first);
      }
    }
  }
  return idle;
}

// Gives those of the segments back that are still idle. Work that was enqueued
// before may still use them: a block is free for reuse on its stream as soon as
// client code has freed it, but for the runtime only when the stream is done.
void DeviceAllocator::release(std::vector<Block*> segments) {
  std::stable_sort(
      segments.begin(), segments.end(), [](const Block* a, const Block* b) {
        return std::less<>()(a->owner, b->owner);
      });
  for (auto begin = segments.begin(); begin != segments.end();) {
    StreamBlocks& blocks = *(*begin)->owner;
    const auto end = std::find_if(begin, segments.end(), [&](const Block* b) {
      return b->owner != &blocks;
    });
    std::vector<Block*> taken;
    {
      const std::lock_guard<SpinLock> lock(blocks.lock);
      for (; begin != end; ++begin) {
        Block* const block = *begin;
        if (block->state == BlockState::Free && !block->isSplit()) {
          blocks.freeBlocks(block->is_small).erase(block);
          block->state = BlockState::PendingFree;
          taken.push_back(block);
        }
      }
    }
    const auto putBack = [&] {
      const std::lock_guard<SpinLock> lock(blocks.lock);
      for (Block* block : taken) {
        block->state = BlockState::Free;
        blocks.freeBlocks(block->is_small).insert(block);
      }
    };
    try {
      // The free blocks of an external stream are idle, see Note [Stream uses].
      if (!taken.empty() && !blocks.is_external) {
        if (const auto fence = backend_.fence(blocks.stream, nullptr)) {
          if (fence->waitsForHost()) {
            putBack();
            continue;
          }
          fence->wait();
        }
      }
      for (; !taken.empty(); taken.pop_back()) {
        releaseSegment(blocks, taken.back());
      }
    } catch (...) {
      putBack();
      throw;
    }
  }
}

void DeviceAllocator::releaseSegment(StreamBlocks& blocks, Block* block) {
  char* const ptr = block->ptr;
  const size_t size = block->size;
  // Before the call: the address may be someone else's right after it.
  auto segment = segments_.extract(ptr);
  try {
    backend_.deallocate(device_, ptr);
  } catch (...) {
    segments_.insert(std::move(segment));
    throw;
  }
  card_.reserved -= size;
  ++stats_.num_device_free;
  update(stats_.segment, block->is_small, -1);
  update(
      stats_.reserved_bytes, block->is_small, -static_cast<int64_t>(size));
  if (size >= config_.max_split_size) {
    update(stats_.oversize_segments, -1);
  }
  {
    const std::lock_guard<SpinLock> lock(blocks.lock);
    blocks.recycle(block);
  }
  trace(TraceEvent::SEGMENT_FREE, device_, ptr, size, blocks.stream.id());
}

// As many idle oversize segments of the stream as a request needs.
void DeviceAllocator::releaseOversize(StreamBlocks& blocks, size_t size) {
  const size_t max_split = config_.max_split_size;
  if (max_split == AllocatorConfig::kUnlimited) {
    return;
  }
  std::vector<Block*> idle = idleSegments(&blocks);
  std::sort(idle.begin(), idle.end(), [](const Block* a, const Block* b) {
    return a->size < b->size;
  });
  const size_t needed = std::max(size, max_split);
  const auto enough = std::find_if(idle.begin(), idle.end(), [&](Block* b) {
    return b->size >= needed;
  });
  if (enough != idle.end()) {
    release({*enough});
    return;
  }
  std::vector<Block*> chosen;
  for (size_t sum = 0; sum < needed && !idle.empty() &&
       idle.back()->size >= max_split;
       idle.pop_back()) {
    sum += idle.back()->size;
    chosen.push_back(idle.back());
  }
  release(std::move(chosen));
}

void DeviceAllocator::releaseAll() {
  for (size_t i = 0; i < streams_.size(); ++i) {
    processUses(*streams_[i], Wait::Yes);
  }
  release(idleSegments());
}

// The segments that have been idle longest, until the card is below the
// threshold.
void DeviceAllocator::collectGarbage() {
  if (config_.garbage_collection_threshold <= 0) {
    return;
  }
  const size_t limit =
      std::min(card_.limit.load(), backend_.totalMemory(device_));
  const auto target = static_cast<size_t>(
      config_.garbage_collection_threshold * static_cast<double>(limit));
  size_t reserved = card_.reserved;
  if (reserved <= target) {
    return;
  }
  const uint32_t now = epoch();
  std::vector<Block*> idle = idleSegments();
  std::stable_sort(idle.begin(), idle.end(), [now](Block* a, Block* b) {
    return now - a->freed_at > now - b->freed_at;
  });
  auto end = idle.begin();
  for (; end != idle.end() && reserved > target; ++end) {
    reserved -= (*end)->size;
  }
  release({idle.begin(), end});
}

void DeviceAllocator::emptyCache() {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  releaseAll();
}

void DeviceAllocator::setMemoryFraction(double fraction) {
  card_.limit = static_cast<size_t>(
      fraction * static_cast<double>(backend_.totalMemory(device_)));
}

// ---- reports ----

DeviceStats DeviceAllocator::stats() {
  using XPUCachingAllocator::StatArray;
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  const LockAll all(*this);
  DeviceStats stats = stats_;
  constexpr std::array<StatArray DeviceStats::*, kNumCounters> members = {
      &DeviceStats::allocation,
      &DeviceStats::active,
      &DeviceStats::inactive_split,
      &DeviceStats::allocated_bytes,
      &DeviceStats::active_bytes,
      &DeviceStats::inactive_split_bytes,
      &DeviceStats::requested_bytes};
  for (size_t t = 0; t < peak_.size(); ++t) {
    for (size_t i = 0; i < kNumCounters; ++i) {
      Stat& stat = (stats.*members[i])[t];
      for (const auto& blocks : streams_) {
        stat.current += blocks->current(t, i);
        stat.allocated += blocks->totalIncrease(t, i);
      }
      // A peak that was not settled yet is that of now.
      stat.peak = std::max(peak_[t][i], stat.current);
      stat.freed = stat.allocated - stat.current - freed_base_[t][i];
      stat.allocated -= allocated_base_[t][i];
    }
  }
  stats.max_split_size = config_.max_split_size == AllocatorConfig::kUnlimited
      ? -1
      : static_cast<int64_t>(config_.max_split_size);
  return stats;
}

template <class F>
void DeviceAllocator::forEachOwnStat(F f) {
  for (auto* stats : {&stats_.segment, &stats_.reserved_bytes}) {
    std::for_each(stats->begin(), stats->end(), f);
  }
  f(stats_.oversize_allocations);
  f(stats_.oversize_segments);
}

void DeviceAllocator::resetPeakStats() {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  const LockAll all(*this);
  forEachOwnStat([](Stat& stat) { stat.peak = stat.current; });
  peak_ = {};
  if (!streams_.empty()) {
    settle(*streams_.front());
  }
}

void DeviceAllocator::resetAccumulatedStats() {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  const LockAll all(*this);
  forEachOwnStat([](Stat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  allocated_base_ = {};
  freed_base_ = {};
  for (const auto& blocks : streams_) {
    for (size_t t = 0; t < peak_.size(); ++t) {
      for (size_t i = 0; i < kNumCounters; ++i) {
        const int64_t increase = blocks->totalIncrease(t, i);
        allocated_base_[t][i] += increase;
        freed_base_[t][i] += increase - blocks->current(t, i);
      }
    }
  }
}

void DeviceAllocator::cacheInfo(size_t& total, size_t& largest) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  for (const auto& blocks : streams_) {
    const std::lock_guard<SpinLock> lock(blocks->lock);
    for (const bool is_small : {true, false}) {
      blocks->freeBlocks(is_small).forEach([&](const Block* block) {
        total += block->size;
        largest = std::max(largest, block->size);
      });
    }
  }
}

void DeviceAllocator::snapshot(std::vector<SegmentInfo>& result) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  for (const auto& entry : segments_) {
    const Block* const first = entry.second.first;
    const StreamBlocks& blocks = *first->owner;
    SegmentInfo segment;
    segment.device = device_;
    segment.address = reinterpret_cast<int64_t>(entry.first);
    segment.total_size = static_cast<int64_t>(entry.second.size);
    const std::lock_guard<SpinLock> lock(first->owner->lock);
    segment.stream = blocks.stream.id();
    segment.is_large = !first->is_small;
    for (const Block* block = first; block != nullptr; block = block->next) {
      XPUCachingAllocator::BlockInfo info;
      info.size = static_cast<int64_t>(block->size);
      info.allocated = block->state == BlockState::Allocated;
      info.active = block->state != BlockState::Free;
      if (info.allocated) {
        info.requested_size = static_cast<int64_t>(block->requested_size);
      } else if (!info.active && !block->isSplit()) {
        info.gc_counter = static_cast<int32_t>(epoch() - block->freed_at);
      }
      segment.requested_size += info.requested_size;
      segment.allocated_size += info.allocated ? info.size : 0;
      segment.active_size += info.active ? info.size : 0;
      segment.blocks.push_back(info);
    }
    result.push_back(std::move(segment));
  }
}

bool DeviceAllocator::owns(const void* ptr) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  const auto* const address = static_cast<const char*>(ptr);
  auto after = segments_.upper_bound(address);
  return after != segments_.begin() &&
      address < std::prev(after)->first + std::prev(after)->second.size;
}

void DeviceAllocator::throwOutOfMemory(size_t size) {
  size_t allocated = 0;
  size_t reserved = 0;
  {
    const std::lock_guard<std::recursive_mutex> guard(mutex_);
    ++stats_.num_ooms;
    const DeviceStats now = stats();
    allocated = static_cast<size_t>(now.allocated_bytes[0].current);
    reserved = static_cast<size_t>(now.reserved_bytes[0].current);
  }
  trace(TraceEvent::OOM, device_, nullptr, size, 0);
  const size_t total = backend_.totalMemory(device_);
  const auto free = backend_.freeMemory(device_);
  const size_t limit = card_.limit;
  notifyOutOfMemory(device_, size, total, free.value_or(0));
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "XPU out of memory. Tried to allocate ",
      formatSize(size),
      " (xpu:",
      static_cast<int>(device_),
      "; ",
      formatSize(total),
      " total capacity; ",
      formatSize(allocated),
      " already allocated; ",
      free ? formatSize(*free) : std::string("unknown"),
      " free; ",
      formatSize(reserved),
      " reserved in total by PyTorch; ",
      limit == AllocatorConfig::kUnlimited ? std::string("no limit is set")
                                           : formatSize(limit) + " allowed",
      "). If reserved memory is much more than allocated memory, try setting "
      "max_split_size_mb in PYTORCH_XPU_ALLOC_CONF to avoid fragmentation.");
}

} // namespace c10::xpu::impl

namespace c10::xpu::XPUCachingAllocator {

void setTrace(TraceFn trace) {
  impl::trace_fn = trace;
}

} // namespace c10::xpu::XPUCachingAllocator
