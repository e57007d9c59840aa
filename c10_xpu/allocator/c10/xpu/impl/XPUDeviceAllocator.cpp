#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <utility>

namespace c10::xpu::impl {

using namespace XPUCachingAllocator;

namespace {

using Guard = std::lock_guard<std::recursive_mutex>;
using SpinGuard = std::lock_guard<SpinLock>;

constexpr size_t kAggregate = static_cast<size_t>(StatType::AGGREGATE);

std::atomic<TraceFn> trace_fn{nullptr};

void trace(
    TraceEvent::Action action,
    DeviceIndex device,
    const void* ptr,
    size_t size,
    StreamId stream) {
  if (const TraceFn fn = trace_fn.load(std::memory_order_acquire);
      C10_UNLIKELY(fn != nullptr)) {
    fn({action,
        device,
        reinterpret_cast<int64_t>(ptr),
        static_cast<int64_t>(size),
        stream});
  }
}

struct Observers {
  std::mutex mutex;
  std::vector<OutOfMemoryObserver> all;
};

Observers& observers() {
  static auto* instance = new Observers;
  return *instance;
}

size_t typeOf(bool is_small) {
  return static_cast<size_t>(
      is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

// Adds what a block contributes to the counters, or takes it away.
void add(
    Counts& counts,
    int64_t times,
    BlockState state,
    size_t size,
    bool is_split,
    size_t requested = 0,
    bool oversize = false) {
  const int64_t bytes = times * static_cast<int64_t>(size);
  if (state == BlockState::Free) {
    counts[kInactiveSplit] += is_split ? times : 0;
    counts[kInactiveSplitBytes] += is_split ? bytes : 0;
    return;
  }
  counts[kActive] += times;
  counts[kActiveBytes] += bytes;
  if (state == BlockState::Allocated) {
    counts[kAllocation] += times;
    counts[kAllocatedBytes] += bytes;
    counts[kRequestedBytes] += times * static_cast<int64_t>(requested);
    counts[kOversizeAllocation] += oversize ? times : 0;
  }
}

size_t roundUp(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}

} // namespace

// ---- the blocks of one stream ----

// Inline, so that the counts stay in registers.
C10_ALWAYS_INLINE bool StreamBlocks::charge(
    bool is_small,
    const Counts& by,
    bool exclusive) {
  Counts& pool = room[typeOf(is_small)];
  Counts& both = room[kAggregate];
  int64_t signs = 0;
  for (size_t i = 0; i < kNumBlockCounters; ++i) {
    signs |= (pool[i] - by[i]) | (both[i] - by[i]);
  }
  if (C10_UNLIKELY(signs < 0) && !exclusive) {
    return false;
  }
  Counts& sums = increased[typeOf(is_small)];
  for (size_t i = 0; i < kNumBlockCounters; ++i) {
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
  block->free_list = {nullptr, std::exchange(unused, block)};
}

Block* StreamBlocks::allocate(size_t size, size_t requested, bool exclusive) {
  const bool is_small = size <= kSmallSize;
  const size_t max_split_size = device.config_.max_split_size;
  FreeBlocks& free = freeBlocks(is_small);
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
  add(by, 1, BlockState::Allocated, taken, true, requested, oversize);
  add(by, rest == 0 ? 0 : 1, BlockState::Free, rest, true);
  add(by, -1, BlockState::Free, block->size, block->isSplit());

  // First what may throw.
  device.table_.insert(block);
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
    block->size = taken;
    free.insert(remaining);
  }
  block->state = BlockState::Allocated;
  block->num_uses = 0;
  block->requested_size = requested;
  return block;
}

bool StreamBlocks::free(Block* block, bool exclusive) {
  const auto ifFree = [](Block* neighbour) {
    return neighbour != nullptr && neighbour->state == BlockState::Free
        ? neighbour
        : nullptr;
  };
  Block* const before = ifFree(block->prev);
  Block* const after = ifFree(block->next);
  Counts by{};
  const auto take = [&](const Block* of) {
    const bool oversize = of->size >= device.config_.max_split_size;
    add(by, -1, of->state, of->size, true, of->requested_size, oversize);
    return of->size;
  };
  const size_t merged = take(block) + (before != nullptr ? take(before) : 0) +
      (after != nullptr ? take(after) : 0);
  const Block* const first = before != nullptr ? before : block;
  const Block* const last = after != nullptr ? after : block;
  const bool is_split = first->prev != nullptr || last->next != nullptr;
  add(by, 1, BlockState::Free, merged, is_split);
  if (C10_UNLIKELY(!charge(block->is_small, by, exclusive))) {
    return false;
  }

  FreeBlocks& free = freeBlocks(block->is_small);
  // The left one of two blocks that merge stays.
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
  block->freed_at = device.epoch_.load(std::memory_order_relaxed);
  free.insert(block);
  return true;
}

SmallVector<XPUStream, 2> StreamBlocks::setPending(Block* block) {
  const bool oversize = block->size >= device.config_.max_split_size;
  const size_t requested = block->requested_size;
  Counts by{};
  add(by, -1, block->state, block->size, true, requested, oversize);
  add(by, 1, BlockState::PendingFree, block->size, true);
  charge(block->is_small, by, /*exclusive=*/false); // has room: nothing grows
  block->state = BlockState::PendingFree;
  SmallVector<XPUStream, 2> streams;
  const auto recorded = stream_uses.find(block);
  if (recorded != stream_uses.end()) {
    streams = std::move(recorded->second);
    stream_uses.erase(recorded);
  }
  if (is_external) {
    streams.push_back(stream);
  }
  block->num_uses = static_cast<uint16_t>(streams.size());
  num_pending.fetch_add(1, std::memory_order_relaxed);
  return streams;
}

Block* StreamBlocks::addSegment(char* ptr, size_t size, bool is_small) {
  Block* const block = newBlock();
  block->ptr = ptr;
  block->size = size;
  block->is_small = is_small;
  block->state = BlockState::Free;
  freeBlocks(is_small).insert(block);
  countSegment(block, 1);
  return block;
}

void StreamBlocks::countSegment(const Block* segment, int64_t by) {
  const bool oversize = segment->size >= device.config_.max_split_size;
  const auto bytes = by * static_cast<int64_t>(segment->size);
  for (const size_t type : {kAggregate, typeOf(segment->is_small)}) {
    room[type][kSegment] -= by;
    room[type][kReservedBytes] -= bytes;
    room[type][kOversizeSegment] -= oversize ? by : 0;
  }
  if (by > 0) {
    Counts& sums = increased[typeOf(segment->is_small)];
    sums[kSegment] += by;
    sums[kReservedBytes] += bytes;
    sums[kOversizeSegment] += oversize ? by : 0;
  }
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

/// Locks all streams of a device, whose mutex is held, and settles the counters
/// at the end. See Note [Exact peaks]
struct DeviceAllocator::LockAll {
  explicit LockAll(DeviceAllocator& device, StreamBlocks* asker = nullptr)
      : device(device), asker(asker) {
    for (const auto& blocks : device.streams_) {
      blocks->lock.lock();
    }
  }
  LockAll(const LockAll&) = delete;
  LockAll& operator=(const LockAll&) = delete;
  ~LockAll() {
    device.settle(asker);
    for (const auto& blocks : device.streams_) {
      blocks->lock.unlock();
    }
  }
  DeviceAllocator& device;
  StreamBlocks* const asker;
};

Block* DeviceAllocator::allocate(size_t requested, StreamId stream) {
  constexpr uint32_t kTurns = 8;
  if (C10_UNLIKELY(requested > AllocatorConfig::kMaxRequest)) {
    return nullptr;
  }
  const size_t size = config_.roundSize(requested);
  StreamBlocks* const blocks = isDirect(stream)
      ? direct_[static_cast<size_t>(stream)].load(std::memory_order_acquire)
      : nullptr;
  Block* block = nullptr;
  if (C10_LIKELY(blocks != nullptr)) {
    if (C10_UNLIKELY(
            blocks->num_pending.load(std::memory_order_relaxed) != 0) &&
        blocks->turn.fetch_add(1, std::memory_order_relaxed) % kTurns == 0) {
      processUses(*blocks, /*wait=*/false);
    }
    const SpinGuard lock(blocks->lock);
    block = blocks->allocate(size, requested, /*exclusive=*/false);
  }
  if (C10_UNLIKELY(block == nullptr)) {
    block = allocateSlow(size, requested, stream);
  }
  if (C10_LIKELY(block != nullptr)) {
    trace(TraceEvent::ALLOC, device_, block->ptr, block->size, stream);
  }
  return block;
}

Block* DeviceAllocator::allocateSlow(
    size_t size,
    size_t requested,
    StreamId stream) {
  const Guard guard(mutex_);
  StreamBlocks& blocks = findOrMake(stream);
  Block* block = allocateExclusive(blocks, size, requested);
  if (block == nullptr && blocks.num_pending != 0) {
    processUses(blocks, /*wait=*/false);
    block = allocateExclusive(blocks, size, requested);
  }
  if (block == nullptr) {
    epoch_.fetch_add(1, std::memory_order_relaxed);
    collectGarbage();
    block = allocateSegment(blocks, size, requested);
  }
  if (block == nullptr) {
    ++counts_.num_alloc_retries;
  }
  // First the cache of the stream, then all that the device has cached.
  for (StreamBlocks* of : {&blocks, static_cast<StreamBlocks*>(nullptr)}) {
    if (block == nullptr) {
      releaseAll(of);
      block = allocateExclusive(blocks, size, requested);
    }
    if (block == nullptr) {
      block = allocateSegment(blocks, size, requested);
    }
  }
  return block;
}

StreamBlocks& DeviceAllocator::findOrMake(StreamId id) {
  const XPUStream stream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device_), id));
  const auto external = backend_.externalQueue(stream);
  StreamBlocks* found = nullptr;
  for (const auto& blocks : streams_) {
    const SpinGuard lock(blocks->lock);
    if (blocks->is_external != (external != nullptr)) {
      continue;
    }
    const bool vacant = external && blocks->current(kAggregate, kActive) == 0;
    if (blocks->stream == stream &&
        (!external || vacant || *blocks->external == *external)) {
      found = blocks.get();
      break;
    }
    found = vacant ? blocks.get() : found;
  }
  if (found == nullptr) {
    streams_.push_back(
        std::make_unique<StreamBlocks>(*this, stream, external != nullptr));
    found = streams_.back().get();
  }
  if (external) {
    const SpinGuard lock(found->lock);
    // Of pending blocks, another thread may be reading them.
    if (found->current(kAggregate, kActive) == 0) {
      found->stream = stream;
      found->external = external;
    }
  } else if (isDirect(id)) {
    direct_[static_cast<size_t>(id)].store(found, std::memory_order_release);
  }
  return *found;
}

Block* DeviceAllocator::allocateExclusive(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const LockAll all(*this, &blocks);
  return blocks.allocate(size, requested, /*exclusive=*/true);
}

// Raises the peaks to the present sums, and deals out what lies between. Half
// of it goes to the stream that asked.
void DeviceAllocator::settle(const StreamBlocks* asker) {
  const auto shares = [&](const StreamBlocks& blocks) {
    return &blocks != asker && blocks.current(kAggregate, kActive) != 0;
  };
  int64_t others = 0;
  for (const auto& blocks : streams_) {
    others += shares(*blocks) ? 1 : 0;
  }
  for (size_t t = 0; t < peak_.size(); ++t) {
    for (size_t i = 0; i < kNumCounters; ++i) {
      const int64_t sum = total(t, i);
      peak_[t][i] = std::max(peak_[t][i], sum);
      const int64_t slack = peak_[t][i] - sum;
      const int64_t share = others == 0 ? 0 : slack / 2 / others;
      for (const auto& blocks : streams_) {
        const int64_t room = blocks.get() == asker ? slack - share * others
            : shares(*blocks)                      ? share
                                                   : 0;
        blocks->limit[t][i] = blocks->current(t, i) + room;
        blocks->room[t][i] = room;
      }
    }
  }
}

int64_t DeviceAllocator::total(size_t type, size_t counter) const {
  int64_t sum = 0;
  for (const auto& blocks : streams_) {
    sum += blocks->current(type, counter);
  }
  return sum;
}

// Several times what is needed, up to a part of what is reserved already: that
// keeps segments few, and lets their blocks merge to serve other sizes.
size_t DeviceAllocator::segmentSize(size_t size) const {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  size_t times = 1;
  if (config_.max_split_size == AllocatorConfig::kUnlimited) {
    const auto reserved =
        static_cast<size_t>(total(kAggregate, kReservedBytes));
    times = std::max<size_t>(std::min(reserved / 8, kMaxGrowth) / size, 1);
  }
  // A segment that rounding makes oversize could not serve the request.
  const size_t rounded = roundUp(times * size, kRoundLarge);
  return size < config_.max_split_size && rounded >= config_.max_split_size
      ? size
      : rounded;
}

// A block at the start of a new segment.
Block* DeviceAllocator::allocateSegment(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const bool is_small = size <= kSmallSize;
  size_t segment = segmentSize(size);
  auto* ptr = static_cast<char*>(obtain(segment));
  if (ptr == nullptr && segment > roundUp(size, kRoundLarge) && !is_small) {
    segment = roundUp(size, kRoundLarge);
    ptr = static_cast<char*>(obtain(segment));
  }
  if (ptr == nullptr) {
    return nullptr;
  }
  ++counts_.num_device_alloc;
  Block* block = nullptr;
  try {
    auto& place = segments_[ptr] = {nullptr, segment};
    const LockAll all(*this, &blocks);
    place.first = blocks.addSegment(ptr, segment, is_small);
    block = blocks.allocate(size, requested, /*exclusive=*/true);
  } catch (...) { // lack of host memory
    const auto place = segments_.find(ptr);
    if (place == segments_.end() || place->second.first == nullptr) {
      segments_.erase(ptr);
      card_.reserved -= segment;
      backend_.deallocate(device_, ptr);
    } // else it stays cached
    throw;
  }
  trace(TraceEvent::SEGMENT_ALLOC, device_, ptr, segment, blocks.stream.id());
  return block;
}

// Memory from the runtime; null if it or the limit of the card refuses.
void* DeviceAllocator::obtain(size_t size) {
  size_t reserved = card_.reserved;
  do {
    if (reserved + size > card_.limit) {
      return nullptr;
    }
  } while (!card_.reserved.compare_exchange_weak(reserved, reserved + size));
  void* ptr = nullptr;
  try {
    ptr = backend_.allocate(device_, size);
  } catch (...) {
    card_.reserved -= size;
    throw;
  }
  if (ptr == nullptr) {
    card_.reserved -= size;
  }
  return ptr;
}

// ---- freeing ----

size_t DeviceAllocator::free(Block* block, void* ptr) {
  StreamBlocks& blocks = *block->owner;
  DeviceAllocator& self = blocks.device;
  if (C10_UNLIKELY(trace_fn.load(std::memory_order_relaxed) != nullptr)) {
    self.traceFree(block, ptr);
  }
  SmallVector<XPUStream, 2> uses;
  size_t size = 0;
  bool freed = false;
  {
    const SpinGuard lock(blocks.lock);
    blocks.checkAllocated(block, ptr);
    size = block->size;
    if (C10_LIKELY(block->num_uses == 0 && !blocks.is_external)) {
      freed = blocks.free(block, /*exclusive=*/false);
    } else {
      uses = blocks.setPending(block);
    }
  }
  if (C10_LIKELY(uses.empty())) {
    if (C10_UNLIKELY(!freed)) {
      self.freeExclusive(blocks, block, ptr);
    }
  } else {
    try {
      self.processUses(blocks, /*wait=*/false, block, uses);
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
      // A block without a fence stays pending. Whoever needs memory tries
      // again, and raises.
    }
  }
  return size;
}

// Before the memory can be someone else's.
void DeviceAllocator::traceFree(const Block* block, const void* ptr) {
  StreamBlocks& blocks = *block->owner;
  const size_t size = checkedSize(block, ptr);
  const StreamId stream = blocks.stream.id();
  trace(TraceEvent::FREE_REQUESTED, device_, ptr, size, stream);
  if (block->num_uses == 0 && !blocks.is_external) {
    trace(TraceEvent::FREE_COMPLETED, device_, ptr, size, stream);
  }
}

size_t DeviceAllocator::checkedSize(const Block* block, const void* ptr) {
  const SpinGuard lock(block->owner->lock);
  block->owner->checkAllocated(block, ptr);
  return block->size;
}

// Frees a pending block, or the allocated one that starts at `ptr`.
void DeviceAllocator::freeExclusive(
    StreamBlocks& blocks,
    Block* block,
    const void* ptr) {
  const Guard guard(mutex_);
  const LockAll all(*this, &blocks);
  if (ptr != nullptr) {
    blocks.checkAllocated(block, ptr);
  }
  blocks.free(block, /*exclusive=*/true);
}

void DeviceAllocator::recordStream(Block* block, void* ptr, XPUStream stream) {
  StreamBlocks& blocks = *block->owner;
  const SpinGuard lock(blocks.lock);
  blocks.checkAllocated(block, ptr);
  if (stream == blocks.stream) {
    return;
  }
  auto& uses = blocks.stream_uses[block];
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) {
    uses.push_back(stream);
    ++block->num_uses;
  }
}

// Adds the uses of a block, if one is given. Then submits the fences that are
// missing, and frees the pending blocks whose streams have passed theirs.
void DeviceAllocator::processUses(
    StreamBlocks& blocks,
    bool wait,
    Block* added,
    const SmallVector<XPUStream, 2>& streams) {
  std::vector<Block*> done;
  std::exception_ptr error;
  {
    const std::lock_guard<std::mutex> lock(blocks.uses_mutex);
    for (const XPUStream& stream : streams) {
      auto use = std::find_if(
          blocks.uses.begin(), blocks.uses.end(), [&](const auto& known) {
            return known.stream == stream;
          });
      if (use == blocks.uses.end()) {
        use = blocks.uses.insert(use, StreamBlocks::Use{stream, {}});
      }
      use->pending.push_back({added, nullptr});
    }
    for (auto& use : blocks.uses) {
      try {
        auto& pending = use.pending;
        bool idle = false;
        if (Fence& last = pending.back().fence; !last) {
          const bool own = use.stream == blocks.stream;
          last =
              backend_.fence(use.stream, own ? blocks.external.get() : nullptr);
          idle = !last;
        }
        while (!pending.empty()) {
          // The next fence stands for those that could not be submitted.
          const auto next = std::find_if(
              pending.begin(), pending.end(), [](const auto& each) {
                return each.fence != nullptr;
              });
          if (!idle && !next->fence(wait)) {
            break;
          }
          const auto end = idle ? pending.end() : std::next(next);
          for (auto it = pending.begin(); it != end; ++it) {
            if (--it->block->num_uses == 0) {
              done.push_back(it->block);
            }
          }
          pending.erase(pending.begin(), end);
        }
      } catch (...) {
        error = std::current_exception();
      }
    }
    blocks.uses.remove_if([](const auto& use) { return use.pending.empty(); });
  }
  for (Block* block : done) {
    finishUse(blocks, block);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// Frees a pending block that no stream uses any more.
void DeviceAllocator::finishUse(StreamBlocks& blocks, Block* block) {
  const StreamId stream = blocks.stream.id();
  trace(TraceEvent::FREE_COMPLETED, device_, block->ptr, block->size, stream);
  bool freed = false;
  {
    const SpinGuard lock(blocks.lock);
    freed = blocks.free(block, /*exclusive=*/false);
  }
  if (!freed) {
    freeExclusive(blocks, block, nullptr);
  }
  blocks.num_pending.fetch_sub(1, std::memory_order_relaxed);
  std::shared_ptr<sycl::queue> vacated; // destroyed without the locks
  if (blocks.is_external) {
    const Guard guard(mutex_); // so that nobody is about to allocate
    const SpinGuard lock(blocks.lock);
    if (blocks.current(kAggregate, kActive) == 0) {
      vacated = std::move(blocks.external);
    }
  }
}

// ---- giving segments back; with the mutex ----

// The segments that are one free block, those idle for longest first.
std::multimap<uint32_t, Block*, std::greater<>> DeviceAllocator::idleSegments(
    const StreamBlocks* of) {
  std::multimap<uint32_t, Block*, std::greater<>> idle; // by age
  for (const auto& entry : segments_) {
    Block* const first = entry.second.first;
    if (of == nullptr || first->owner == of) {
      const SpinGuard lock(first->owner->lock);
      if (first->state == BlockState::Free && !first->isSplit()) {
        idle.emplace(epoch_ - first->freed_at, first);
      }
    }
  }
  return idle;
}

// Gives a segment back if it is idle. A block is free
// for reuse on its stream as soon as client code has freed it, but for the
// runtime only when the stream has done the work that used it.
void DeviceAllocator::release(Block* segment) {
  StreamBlocks& blocks = *segment->owner;
  {
    const SpinGuard lock(blocks.lock);
    if (segment->state != BlockState::Free || segment->isSplit()) {
      return;
    }
    blocks.freeBlocks(segment->is_small).erase(segment);
    segment->state = BlockState::PendingFree;
  }
  char* const ptr = segment->ptr;
  const size_t size = segment->size;
  const auto putBack = [&] {
    const SpinGuard lock(blocks.lock);
    segment->state = BlockState::Free;
    blocks.freeBlocks(segment->is_small).insert(segment);
  };
  auto entry = decltype(segments_)::node_type();
  try {
    // The free blocks of external streams are idle, see Note [Stream uses].
    const Fence fence =
        blocks.is_external ? nullptr : backend_.fence(blocks.stream, nullptr);
    if (fence && !fence(/*wait=*/true)) {
      putBack();
      return;
    }
    // Before the call: the address may be someone else's right after it.
    entry = segments_.extract(ptr);
    backend_.deallocate(device_, ptr);
  } catch (...) {
    if (entry) {
      segments_.insert(std::move(entry));
    }
    putBack();
    throw;
  }
  card_.reserved -= size;
  ++counts_.num_device_free;
  {
    const LockAll all(*this, &blocks);
    blocks.countSegment(segment, -1);
    blocks.recycle(segment);
  }
  trace(TraceEvent::SEGMENT_FREE, device_, ptr, size, blocks.stream.id());
}

void DeviceAllocator::releaseAll(StreamBlocks* of) {
  for (const auto& blocks : streams_) {
    if (of == nullptr || blocks.get() == of) {
      processUses(*blocks, /*wait=*/true);
    }
  }
  for (const auto& idle : idleSegments(of)) {
    release(idle.second);
  }
}

void DeviceAllocator::collectGarbage() {
  if (config_.garbage_collection_threshold <= 0) {
    return;
  }
  const size_t limit =
      std::min(card_.limit.load(), backend_.totalMemory(device_));
  const auto target = static_cast<size_t>(
      config_.garbage_collection_threshold * static_cast<double>(limit));
  if (card_.reserved > target) {
    for (const auto& idle : idleSegments()) {
      if (card_.reserved > target) {
        release(idle.second);
      }
    }
  }
}

void DeviceAllocator::emptyCache() {
  const Guard guard(mutex_);
  releaseAll();
}

void DeviceAllocator::setMemoryFraction(double fraction) {
  card_.limit = static_cast<size_t>(
      fraction * static_cast<double>(backend_.totalMemory(device_)));
}

// ---- reports ----

DeviceStats DeviceAllocator::stats() {
  const Guard guard(mutex_);
  const LockAll all(*this);
  DeviceStats stats = counts_;
  const auto read = [&](Stat& stat, size_t t, Counter i) {
    int64_t increased = 0;
    for (const auto& blocks : streams_) {
      increased += blocks->totalIncrease(t, i);
    }
    stat.current = total(t, i);
    stat.peak = peak_[t][i];
    stat.allocated = increased - increased_base_[t][i];
    stat.freed = increased - stat.current - decreased_base_[t][i];
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
  stats.max_split_size = config_.max_split_size == AllocatorConfig::kUnlimited
      ? -1
      : static_cast<int64_t>(config_.max_split_size);
  return stats;
}

void DeviceAllocator::resetPeakStats() {
  const Guard guard(mutex_);
  const LockAll all(*this);
  peak_ = {};
}

void DeviceAllocator::resetAccumulatedStats() {
  const Guard guard(mutex_);
  const LockAll all(*this);
  counts_.num_alloc_retries = 0;
  counts_.num_ooms = 0;
  increased_base_ = {};
  decreased_base_ = {};
  for (const auto& blocks : streams_) {
    for (size_t t = 0; t < peak_.size(); ++t) {
      for (size_t i = 0; i < kNumCounters; ++i) {
        const int64_t increased = blocks->totalIncrease(t, i);
        increased_base_[t][i] += increased;
        decreased_base_[t][i] += increased - blocks->current(t, i);
      }
    }
  }
}

void DeviceAllocator::snapshot(std::vector<SegmentInfo>& result) {
  const Guard guard(mutex_);
  for (const auto& entry : segments_) {
    const Block* const first = entry.second.first;
    SegmentInfo segment;
    segment.device = static_cast<int>(device_);
    segment.address = reinterpret_cast<int64_t>(entry.first);
    segment.total_size = static_cast<int64_t>(entry.second.size);
    const SpinGuard lock(first->owner->lock);
    segment.stream = first->owner->stream.id();
    segment.is_large = !first->is_small;
    for (const Block* block = first; block != nullptr; block = block->next) {
      BlockInfo info;
      info.size = static_cast<int64_t>(block->size);
      info.allocated = block->state == BlockState::Allocated;
      info.active = block->state != BlockState::Free;
      if (info.allocated) {
        info.requested_size = static_cast<int64_t>(block->requested_size);
      } else if (!info.active && !block->isSplit()) {
        info.gc_counter = static_cast<int32_t>(epoch_ - block->freed_at);
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
  const Guard guard(mutex_);
  const auto* const address = static_cast<const char*>(ptr);
  const auto after = segments_.upper_bound(address);
  return after != segments_.begin() &&
      address < std::prev(after)->first + std::prev(after)->second.size;
}

void DeviceAllocator::throwOutOfMemory(size_t size) {
  trace(TraceEvent::OOM, device_, nullptr, size, 0);
  DeviceStats now;
  {
    const Guard guard(mutex_);
    ++counts_.num_ooms;
    now = stats();
  }
  const size_t total = backend_.totalMemory(device_);
  const auto free = backend_.freeMemory(device_);
  const size_t limit = card_.limit;
  const auto text = [](int64_t bytes) {
    return formatSize(static_cast<size_t>(bytes));
  };
  const auto all = [] {
    const std::lock_guard<std::mutex> guard(observers().mutex);
    return observers().all;
  }();
  reportOutOfMemoryToProfiler(
      static_cast<int64_t>(size),
      now.allocated_bytes[kAggregate].current,
      now.reserved_bytes[kAggregate].current,
      Device(kXPU, device_));
  for (const auto& observer : all) {
    observer(device_, size, total, free.value_or(0));
  }
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
      text(now.allocated_bytes[kAggregate].current),
      " already allocated; ",
      free ? formatSize(*free) : "unknown",
      " free; ",
      text(now.reserved_bytes[kAggregate].current),
      " reserved in total by PyTorch; limit ",
      limit == AllocatorConfig::kUnlimited ? "not set" : formatSize(limit),
      "). If reserved memory is much more than allocated memory, try setting "
      "max_split_size_mb in PYTORCH_XPU_ALLOC_CONF to avoid fragmentation");
}

} // namespace c10::xpu::impl

namespace c10::xpu::XPUCachingAllocator {

void setTrace(TraceFn trace) {
  impl::trace_fn = trace;
}

void attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  const std::lock_guard<std::mutex> guard(impl::observers().mutex);
  impl::observers().all.push_back(std::move(observer));
}

} // namespace c10::xpu::XPUCachingAllocator
