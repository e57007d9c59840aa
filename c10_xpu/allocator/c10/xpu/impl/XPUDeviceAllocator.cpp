#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <algorithm>

namespace c10::xpu::impl {

using namespace XPUCachingAllocator;

std::atomic<TraceFn> trace_fn{nullptr};

namespace {

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
  visitTypes(stats.segment, kSegment);
  visitTypes(stats.reserved_bytes, kReservedBytes);
  visit(stats.oversize_segments, kOversizeSegment, kAggregate);
}

void checkPool(bool ok, MempoolId_t id, const char* problem) {
  TORCH_CHECK(ok, "The XPU pool (", id.first, ", ", id.second, ") ", problem);
}

} // namespace

void StreamBlocks::setPending(Block* block) {
  auto*& uses = block->client.uses;
  uses = uses == nullptr ? new StreamUses : uses;
  Counts by{};
  add(by, -1, *block);
  block->state = BlockState::PendingFree;
  add(by, 1, *block);
  charge(block->is_small, by);
}

void DeviceAllocator::recordStream(Block* block, void* ptr, XPUStream stream) {
  StreamBlocks& blocks = *block->owner;
  auto& backend = blocks.device.backend_;
  StreamUse use{stream, backend.externalQueue(stream), nullptr};
  const StreamLock guard(blocks);
  checkAllocated(block->isAllocated(ptr), ptr);
  if (stream.id() == blocks.id && stream == blocks.stream) {
    return;
  }
  auto*& uses = block->client.uses;
  uses = uses == nullptr ? new StreamUses : uses;
  if (std::find(uses->begin(), uses->end(), use) == uses->end()) {
    uses->push_back(std::move(use));
  }
}

void DeviceAllocator::emptyCache(MempoolId_t pool) {
  const Guard guard(mutex_);
  processPending(/*wait=*/true);
  releaseIdle(0, pool);
}

DeviceStats DeviceAllocator::stats() {
  const Guard guard(mutex_);
  settle();
  DeviceStats stats = stats_;
  stats.num_ooms = num_ooms_;
  stats.max_split_size = static_cast<int64_t>(backend_.config.max_split_size);
  return stats;
}

void DeviceAllocator::resetPeakStats() {
  const Guard guard(mutex_);
  forEachStat(stats_, [](Stat& stat, auto...) { stat.peak = 0; });
  settle();
}

void DeviceAllocator::resetAccumulatedStats() {
  const Guard guard(mutex_);
  settle();
  forEachStat(stats_, [](Stat& s, auto...) { s.allocated = s.freed = 0; });
  stats_.num_alloc_retries = num_ooms_ = 0;
}

void DeviceAllocator::snapshot(
    std::vector<SegmentInfo>& result,
    MempoolId_t pool) {
  const Guard guard(mutex_);
  std::sort(segments_.begin(), segments_.end(), [](auto& a, auto& b) {
    return a.first->ptr < b.first->ptr;
  });
  for (const auto& [first, size] : segments_) {
    StreamBlocks& blocks = *first->owner;
    if (!blocks.pool.isOf(pool)) {
      continue;
    }
    SegmentInfo segment;
    segment.device = static_cast<int>(device);
    segment.address = reinterpret_cast<int64_t>(first->ptr);
    segment.total_size = static_cast<int64_t>(size);
    segment.stream = blocks.id;
    segment.owner_private_pool_id = blocks.pool.id;
    const StreamLock guard(blocks);
    segment.is_large = !first->is_small;
    for (const Block* block = first; block != nullptr; block = block->next) {
      BlockInfo info;
      info.size = static_cast<int64_t>(block->size);
      info.active = block->state != BlockState::Free;
      segment.active_size += info.active ? info.size : 0;
      info.allocated = block->state == BlockState::Allocated;
      if (info.allocated) {
        segment.allocated_size += info.size;
        info.requested_size = int64_t(block->client.requested_size);
        segment.requested_size += info.requested_size;
      }
      segment.blocks.push_back(info);
    }
    result.push_back(std::move(segment));
  }
}

bool DeviceAllocator::owns(const void* ptr) {
  const Guard guard(mutex_);
  return std::any_of(segments_.begin(), segments_.end(), [&](auto& segment) {
    const char* const start = segment.first->ptr;
    return start <= ptr && ptr < start + segment.second;
  });
}

Pool& DeviceAllocator::createOrIncrefPool(MempoolId_t id, PoolMemory memory) {
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
    *pool = {id, false, 0, 0, std::move(memory)};
  }
  ++pool->use_count;
  return *pool;
}

void DeviceAllocator::beginAllocateToPool(
    MempoolId_t id,
    std::function<bool(XPUStream)> filter) {
  const Guard guard(mutex_);
  const Pool* const old = findPool(id);
  checkPool(!old || !old->filter, id, "is being allocated to already");
  Pool& pool = createOrIncrefPool(id);
  pool.filter = std::move(filter);
  filtered_.push_back(&pool);
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

void DeviceAllocator::setUseOnOOM(MempoolId_t id, bool use_on_oom) {
  const Guard guard(mutex_);
  poolInUse(id).use_on_oom = use_on_oom;
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

size_t DeviceAllocator::segmentSize(size_t size) const {
  if (size <= kSmallSize) {
    return kSmallBuffer;
  }
  const size_t most = backend_.config.max_split_size;
  const size_t wanted = most == AllocatorConfig::kUnlimited
      ? std::min(reserved_ / 8, kMaxGrowth) / size * size
      : size;
  const size_t rounded = roundUp(std::max(wanted, size), kRoundLarge);
  // A segment that rounding makes oversize could not serve the request.
  return size < most && rounded >= most ? size : rounded;
}

char* DeviceAllocator::obtain(const StreamBlocks& blocks, size_t size) {
  std::unique_lock<std::mutex> guard(card.mutex, std::defer_lock);
  if (card.devices.size() > 1) {
    guard.lock();
  }
  if (card.reserved + size > card.limit) {
    return nullptr;
  }
  const auto& own = blocks.pool.memory.allocate;
  void* const ptr =
      own ? own(size, blocks.stream) : backend_.allocate(device, size);
  card.reserved += ptr == nullptr ? 0 : size;
  return static_cast<char*>(ptr);
}

Block* DeviceAllocator::allocateSegment(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const double part = backend_.config.garbage_collection_threshold;
  if (part > 0) {
    const auto all = std::min(card.limit.load(), card.total);
    releaseIdle(size_t(part * double(all)));
  }
  const bool is_small = size <= kSmallSize;
  size_t segment = segmentSize(size);
  char* ptr = obtain(blocks, segment);
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
  ++blocks.pool.num_segments;
  reserved_ += segment;
  const StreamLock guard(blocks);
  Block* const block = blocks.newBlock(ptr, segment, is_small);
  Counts by{};
  blocks.addSegment(by, 1, segment);
  take(blocks, block, size, requested, by);
  segments_.emplace_back(block, segment);
  return block;
}

Block* DeviceAllocator::allocateSlow(
    StreamBlocks& blocks,
    size_t size,
    size_t requested) {
  const Guard guard(mutex_);
  epoch_.store(epoch_ + 1, std::memory_order_relaxed);
  for (const int attempt : {0, 1, 2}) {
    const bool may_fit = attempt != 0 || has_pending_; // a cached block now
    if (may_fit) {
      processPending(/*wait=*/attempt != 0);
    }
    if (attempt != 0) { // first the cache of the stream, then of the device
      releaseIdle(0, {}, attempt == 1 ? &blocks : nullptr);
    }
    Block* block = may_fit ? allocateCached(blocks, size, requested) : nullptr;
    block = block ? block : allocateSegment(blocks, size, requested);
    if (block != nullptr) {
      return block;
    }
    stats_.num_alloc_retries += attempt == 0 ? 1 : 0;
  }
  Block* block = nullptr; // the last resort: a private pool that allows it
  for (const auto& each : streams_) {
    if (block == nullptr && &blocks.pool == &pools_.front() &&
        each->pool.use_on_oom && each->id == blocks.id) {
      block = allocateCached(*each, size, requested);
    }
  }
  return block;
}

void DeviceAllocator::raiseOutOfMemory(
    const StreamBlocks& blocks,
    size_t size) {
  blocks.trace(TraceEvent::OOM, nullptr, size);
  reportToProfiler(nullptr, static_cast<int64_t>(size));
  ++num_ooms_;
  TORCH_CHECK_WITH(OutOfMemoryError, false, backend_.outOfMemory(*this, size));
}

void DeviceAllocator::freeLater(Block* block) {
  const Guard guard(mutex_);
  pending_.push_front(block);
  try {
    processPending(/*wait=*/false, /*most=*/1);
  } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
    // It stays pending: a later allocation tries again, and raises.
  }
}

StreamBlocks& DeviceAllocator::blocksOf(const XPUStream& stream) {
  const bool external = backend_.externalQueue(stream).has_value();
  const StreamId id = external ? kExternalStreams : stream.id();
  Pool* pool = &pools_.front();
  for (Pool* const each : filtered_) {
    pool = each->filter(stream) ? each : pool;
  }
  for (const auto& blocks : streams_) {
    if (blocks->id == id && &blocks->pool == pool) {
      return *blocks;
    }
  }
  const Stream usual(Stream::DEFAULT, Device(kXPU, device));
  const XPUStream own = external ? XPUStream(usual) : stream;
  const auto& config = backend_.config;
  streams_.emplace_back(new StreamBlocks{*this, *pool, own, id, config});
  if (id >= 0 && id < kNumDirect && pool == &pools_.front()) {
    direct_[id].store(streams_.back().get(), std::memory_order_release);
  }
  return *streams_.back();
}

void DeviceAllocator::processPending(bool wait, size_t most) {
  const Guard guard(mutex_);
  const auto passed = [&](StreamUse& use) {
    const bool idle = !use.fence && !(use.fence = backend_.fence(use));
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
      const StreamLock guard(*block->owner);
      block->owner->free(block, epoch_);
    }
  }
  has_pending_ = !pending_.empty();
}

void DeviceAllocator::releaseIdle(
    size_t target,
    MempoolId_t pool,
    const StreamBlocks* blocks) {
  std::vector<std::pair<int32_t, Block*>> idle;
  for (const auto& segment : segments_) {
    Block* const first = segment.first;
    StreamBlocks& owner = *first->owner;
    const StreamLock guard(owner);
    if (first->isFreeSegment() && owner.pool.use_count == 0 &&
        owner.pool.isOf(pool) && (blocks == nullptr || blocks == &owner)) {
      idle.emplace_back(first->freed_at - epoch_, first);
    }
  }
  std::sort(idle.begin(), idle.end());
  for (const auto& entry : idle) {
    if (card.reserved > target) {
      release(entry.second);
    }
  }
}

void DeviceAllocator::release(Block* segment) {
  StreamBlocks& blocks = *segment->owner;
  FreeBlocks& free_blocks = blocks.free_blocks[segment->is_small];
  {
    const StreamLock guard(blocks);
    if (!segment->isFreeSegment()) {
      return;
    }
    free_blocks.erase(segment);
    segment->state = BlockState::PendingFree;
  }
  auto put_back = c10::make_scope_exit([&] {
    const StreamLock guard(blocks);
    segment->state = BlockState::Free;
    free_blocks.insert(segment);
  });
  if (blocks.id != kExternalStreams) { // see Note [Stream uses]
    const Fence fence = backend_.fence({blocks.stream, nullopt, nullptr});
    if (fence && !fence(/*wait=*/true)) {
      return;
    }
  }
  void* const ptr = segment->ptr;
  const size_t size = segment->size;
  const PoolMemory& own = blocks.pool.memory;
  own.allocate ? own.deallocate(ptr) : backend_.deallocate(device, ptr);
  put_back.release();
  segments_.erase(
      std::find(segments_.begin(), segments_.end(), std::pair(segment, size)));
  card.reserved -= size;
  reserved_ -= size;
  --blocks.pool.num_segments;
  ++stats_.num_device_free;
  blocks.trace(TraceEvent::SEGMENT_FREE, ptr, size);
  const StreamLock guard(blocks);
  Counts by{};
  blocks.addSegment(by, -1, size);
  blocks.charge(segment->is_small, by);
  blocks.recycle(segment);
}

Pool* DeviceAllocator::findPool(MempoolId_t id) {
  const auto pool = std::find_if(
      pools_.begin(), pools_.end(), [&](auto& p) { return p.id == id; });
  return pool == pools_.end() ? nullptr : &*pool;
}

Pool& DeviceAllocator::poolInUse(MempoolId_t id) {
  Pool* const pool = findPool(id);
  checkPool(pool && pool->use_count > 0, id, "is not in use");
  return *pool;
}

void DeviceAllocator::settle() noexcept {
  const Guard guard(mutex_);
  for (const auto& blocks : streams_) {
    blocks->lock();
  }
  const auto shares = [](const auto& blocks) {
    return blocks->amount(kAggregate, kActive) != 0;
  };
  const auto count = std::count_if(streams_.begin(), streams_.end(), shares);
  forEachStat(stats_, [&](Stat& stat, Counter counter, size_t type) {
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
    blocks->unlock();
  }
}

} // namespace c10::xpu::impl
