#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUBlock.h>
#include <c10/xpu/impl/XPUBlockTable.h>
#include <c10/xpu/impl/XPUFreeBlocks.h>
#include <c10/xpu/impl/XPUHeldBlocks.h>
#include <c10/xpu/impl/XPUSpinLock.h>
#include <c10/xpu/impl/XPUStatLedger.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace c10::xpu::impl {

// Note [Life of a cached block]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Each pair of device and stream has an arena. It owns segments, which are
// allocations of the SYCL runtime, and cuts them into blocks, each described by
// a node (`Block`). Segments and blocks never change arena: memory that was
// freed for a stream may be used again on that stream without waiting, because
// the stream is in order.
//
//               adopt                   release
//    runtime ----------> Free, whole segment ----------> runtime
//                          |        ^
//            allocate,     |        | merge with free neighbours
//            split         v        |
//                        Allocated -+---------------+
//                          | free                   |
//                          v                        | no stream uses it
//                        Retiring ------------------+
//                          | streams still use it   |
//                          v                        | all events complete
//                        Held ----------------------+
//
// - allocate: the free block that fits best (Note [Size classes]) is taken from
//   its bin and cut to size; the rest is a new node behind it.
// - free: the address leads to the node by way of the block table, without a
//   lock; under the lock of the node's arena it is compared with the node's
//   address and state, so that a pointer that is not an allocated block's is an
//   error and changes nothing. Then free neighbours are merged: at no time are
//   two free blocks side by side. The node with the lower address survives, so
//   that a segment's first node lives as long as the segment does, and a block
//   keeps its node.
// - The free block that came about last is kept at hand, outside of the bins:
//   a program that allocates and frees in turns touches no bin.
// - Nothing on this way asks the system for memory: nodes come from a stock,
//   the links of bins and lists are in the nodes. The cost of a hit depends
//   neither on the number of live blocks nor on that of cached ones.
// - A free block that is a whole segment is idle: it is also in the list of
//   idle segments, newest first, from whose end segments go back to the runtime
//   (emptyCache, out of memory, garbage collection, and the trimming that
//   MemoryPool does).
//
// Whoever allocates on or frees to an arena holds its lock and no other. No
// call of the runtime is made under it but queries of events and streams.
//
// Note [Cross-stream use]
// ~~~~~~~~~~~~~~~~~~~~~~~
// recordStream notes in the node which other streams use a block. When it is
// freed, each of these is asked whether it is idle: then nothing that was
// enqueued there can still use the block, and it is free at once. A stream that
// is busy gets a barrier, and the block is Held until the barriers' events are
// complete. (Where a stream cannot be asked, it gets a barrier first, and is
// idle if that is complete on return.) Held blocks are not merged with and not
// reused; for the statistics they are active but not allocated.
//
// Allocations poll: for each stream that holds blocks of this arena, the oldest
// event is queried, and the blocks whose events are complete become free. A
// stream is in order, so that a barrier that is not complete tells the same of
// all later ones. If nothing is held, all this costs one comparison.
//
// The runtime is asked outside of the lock. Meanwhile the block is Retiring,
// and every other operation on it is an error. If asking fails, the block is
// Allocated again and the error goes to the caller, who may free it once more.
// A DataPtr's deleter cannot do that; it gives the block to `abandon`, and such
// a block becomes free when all its streams are found idle or have been waited
// for.

/// The memory of one stream of one device.
///
/// Backend offers (all may throw c10::Error):
///   using Event                               copyable
///   void* allocate(int device, size_t size)   nullptr: out of memory
///   void deallocate(int device, void* ptr)
///   bool idle(const StreamTag&)               all that was enqueued is done
///   std::optional<Event> fence(const StreamTag&, bool ask)
///                                             an event after all that was
///                                             enqueued; with `ask`, none if
///                                             it is done
///   bool complete(const Event&)
///   void wait(const Event&)
///   size_t totalMemory(int device)
///   size_t freeMemory(int device)             0: unknown
template <class Backend>
class Arena final : public ArenaBase {
 public:
  struct Segment {
    void* ptr = nullptr;
    size_t size = 0;
    Pool pool = Pool::Small;
  };

  struct Freed {
    size_t size;
    bool oversize;
  };

  Arena(
      Backend& backend,
      BlockTable& table,
      StatLedger& ledger,
      const std::atomic<uint32_t>& epoch,
      StreamTag stream)
      : ArenaBase(ledger),
        stream_(stream),
        backend_(backend),
        table_(table),
        epoch_(epoch),
        nodes_(*this),
        held_(backend) {}

  const StreamTag& stream() const noexcept {
    return stream_;
  }

  /// A block of `size` bytes from the cache, or nullptr. `size` is a multiple
  /// of the granularity. A `thrifty` allocation does not cut a small piece out
  /// of an idle large segment, see Note [Bounded cache].
  Block* allocate(Pool pool, size_t size, size_t max_split_size, bool thrifty) {
    if (C10_UNLIKELY(held_.any())) {
      releaseCompleted();
    }
    std::lock_guard<SpinLock> guard(lock);
    Block* block = free_.bestFit(pool, size);
    if (C10_UNLIKELY(block == nullptr)) {
      return nullptr;
    }
    const bool oversize = block->size >= max_split_size;
    // Blocks of that size serve only requests of about their size, whole.
    if (C10_UNLIKELY(oversize) &&
        (size < max_split_size || block->size >= size + kOversizeSlack)) {
      return nullptr;
    }
    if (C10_UNLIKELY(thrifty) && pool == Pool::Large && !block->is_split() &&
        block->size - size > block->size / 4) {
      return nullptr;
    }
    take(block, size, oversize);
    return block;
  }

  /// Makes a fresh segment part of the arena and returns a block of `size`
  /// bytes at its start; an oversize one is not split.
  Block* adopt(const Segment& segment, size_t size, bool oversize) {
    std::lock_guard<SpinLock> guard(lock);
    Block* block = insertSegment(segment);
    try {
      take(block, size, oversize);
    } catch (...) {
      eraseSegment(block);
      throw;
    }
    return block;
  }

  /// Puts a segment into the cache.
  void restore(const Segment& segment) {
    std::lock_guard<SpinLock> guard(lock);
    insertSegment(segment);
  }

  /// Notes that `stream` uses the block that starts at `ptr`.
  void recordStream(Block* block, const void* ptr, StreamTag stream) {
    std::lock_guard<SpinLock> guard(lock);
    checkAllocated(block, ptr);
    if (stream == stream_) {
      return;
    }
    auto& uses = nodes_.extraOf(block).uses;
    if (std::find(uses.begin(), uses.end(), stream) == uses.end()) {
      uses.push_back(stream);
    }
    block->has_uses = true;
  }

  /// Throws if no allocated block starts at `ptr`.
  void requireAllocated(const Block* block, const void* ptr) {
    std::lock_guard<SpinLock> guard(lock);
    checkAllocated(block, ptr);
  }

  /// Frees the block that starts at `ptr`. An error of the runtime leaves it
  /// allocated.
  Freed free(Block* block, const void* ptr) {
    {
      std::lock_guard<SpinLock> guard(lock);
      checkAllocated(block, ptr);
      const Freed freed{block->size, block->oversize};
      if (C10_LIKELY(!block->has_uses)) {
        const Pool pool = block->pool;
        chargeFree(pool, static_cast<int64_t>(freed.size), release(block));
        return freed;
      }
      block->state = BlockState::Retiring;
    }
    return retire(block);
  }

  /// Frees a block for which `free` has failed, as soon as its streams allow.
  Freed abandon(Block* block, const void* ptr) {
    std::lock_guard<SpinLock> guard(lock);
    checkAllocated(block, ptr);
    const Freed freed{block->size, block->oversize};
    held_.abandon(block);
    chargeHold(block->pool, static_cast<int64_t>(freed.size));
    return freed;
  }

  /// Waits until the blocks that are held now are no longer used, and frees
  /// them.
  void drain() {
    if (!held_.any()) {
      return;
    }
    fenceAbandoned();
    const auto events = [&] {
      std::lock_guard<SpinLock> guard(lock);
      return held_.events();
    }();
    for (const auto& event : events) {
      backend_.wait(event);
    }
    releaseCompleted();
  }

  /// Takes the segment out of the arena that has been idle longest. Its size is
  /// 0 when none is idle.
  Segment popIdle() {
    std::lock_guard<SpinLock> guard(lock);
    Block* block = free_.oldestIdle();
    return block == nullptr ? Segment{} : eraseSegment(block);
  }

  /// The same for the smallest idle segment of at least `size` bytes, or the
  /// largest of at least `floor` bytes.
  Segment popIdle(size_t size, size_t floor) {
    std::lock_guard<SpinLock> guard(lock);
    Block* block = free_.idleOf(size, floor);
    return block == nullptr ? Segment{} : eraseSegment(block);
  }

  /// Whether a segment is idle, and the epoch since when the oldest one is.
  bool hasIdle(uint32_t* since = nullptr) {
    if (!free_.mayHaveIdle()) {
      return false;
    }
    std::lock_guard<SpinLock> guard(lock);
    const Block* block = free_.oldestIdle();
    if (block != nullptr && since != nullptr) {
      *since = block->extra->stamp;
    }
    return block != nullptr;
  }

  bool hasHeld() const noexcept {
    return held_.any();
  }

  /// Calls visit(first block) for each segment, under the lock.
  template <class Visitor>
  void forEachSegment(Visitor visit) {
    std::lock_guard<SpinLock> guard(lock);
    for (const Block* block : segments_) {
      visit(block);
    }
  }

  /// Calls visit(block) for each free block, under the lock.
  template <class Visitor>
  void forEachFree(Visitor visit) {
    std::lock_guard<SpinLock> guard(lock);
    free_.forEach(visit);
  }

 private:
  using FenceList = typename HeldBlocks<Backend>::FenceList;

  C10_ALWAYS_INLINE void checkAllocated(const Block* block, const void* ptr)
      const {
    TORCH_CHECK(
        block->ptr == ptr && block->state == BlockState::Allocated,
        "invalid XPU pointer: ",
        ptr,
        " is not the start of an allocated block of the XPU caching allocator"
        " (freed twice, or not allocated by it?)");
  }

  // ---- segments; with the lock ----

  Block* insertSegment(const Segment& segment) {
    segments_.reserve(segments_.size() + 1);
    nodes_.reserve();
    nodes_.extraOf(nodes_.peek());
    Block* block = newNode(segment.pool, static_cast<char*>(segment.ptr));
    block->ptr = static_cast<char*>(segment.ptr);
    block->size = segment.size;
    block->prev = nullptr;
    block->next = nullptr;
    block->state = BlockState::Free;
    block->pool = segment.pool;
    block->extra->stamp = epoch_.load(std::memory_order_relaxed);
    block->extra->segment_index = static_cast<uint32_t>(segments_.size());
    segments_.push_back(block);
    free_.add(block);
    return block;
  }

  Segment eraseSegment(Block* block) noexcept {
    const Segment segment{block->ptr, block->size, block->pool};
    free_.remove(block);
    const uint32_t index = block->extra->segment_index;
    segments_.back()->extra->segment_index = index;
    segments_[index] = segments_.back();
    segments_.pop_back();
    nodes_.put(block);
    return segment;
  }

  // ---- blocks; with the lock ----

  // A node for a block that starts at ptr. Throws std::bad_alloc and then has
  // changed nothing.
  C10_ALWAYS_INLINE Block* newNode(Pool pool, char* ptr) {
    nodes_.reserve();
    if (pool == Pool::Small) {
      table_.setSmall(ptr, nodes_.peek());
    }
    return nodes_.take();
  }

  // Makes a free block an allocated one of `size` bytes, or of all that it has
  // if it is oversize. Throws std::bad_alloc and then has changed nothing.
  C10_ALWAYS_INLINE void take(Block* block, size_t size, bool oversize) {
    if (block->pool == Pool::Large) {
      table_.setLarge(block->ptr, block);
    }
    Amount splits;
    if (block->is_split()) {
      splits = {-1, -static_cast<int64_t>(block->size)};
    }
    if (block->size != size && !oversize) {
      Block* rest = newNode(block->pool, block->ptr + size);
      free_.remove(block);
      rest->ptr = block->ptr + size;
      rest->size = block->size - size;
      rest->prev = block;
      rest->next = block->next;
      if (rest->next != nullptr) {
        rest->next->prev = rest;
      }
      rest->state = BlockState::Free;
      rest->pool = block->pool;
      block->next = rest;
      block->size = size;
      free_.add(rest);
      splits.count += 1;
      splits.bytes += static_cast<int64_t>(rest->size);
    } else {
      free_.remove(block);
    }
    block->state = BlockState::Allocated;
    block->oversize = oversize;
    chargeAllocate(block->pool, static_cast<int64_t>(block->size), splits);
  }

  // Makes a block free and merges it. Returns how the free blocks in split
  // segments changed.
  C10_ALWAYS_INLINE Amount release(Block* block) noexcept {
    Amount splits;
    const auto absorb = [&](Block* left, Block* right, Block* free) {
      splits.count -= 1;
      splits.bytes -= static_cast<int64_t>(free->size);
      free_.remove(free);
      left->size += right->size;
      left->next = right->next;
      if (left->next != nullptr) {
        left->next->prev = left;
      }
      nodes_.put(right);
    };
    if (block->next != nullptr && block->next->state == BlockState::Free) {
      absorb(block, block->next, block->next);
    }
    if (block->prev != nullptr && block->prev->state == BlockState::Free) {
      Block* prev = block->prev;
      absorb(prev, block, prev);
      block = prev;
    }
    block->state = BlockState::Free;
    if (block->is_split()) {
      splits.count += 1;
      splits.bytes += static_cast<int64_t>(block->size);
    } else {
      block->extra->stamp = epoch_.load(std::memory_order_relaxed);
    }
    free_.add(block);
    return splits;
  }

  // ---- cross-stream use; without the lock ----

  // Frees a block that other streams have used.
  Freed retire(Block* block) {
    const Freed freed{block->size, block->oversize};
    FenceList fences;
    std::exception_ptr error;
    try {
      fences = held_.fence(*block);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard<SpinLock> guard(lock);
    if (!error) {
      try {
        held_.reserve(fences);
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error) {
      block->state = BlockState::Allocated;
      std::rethrow_exception(error);
    }
    const auto size = static_cast<int64_t>(freed.size);
    const Pool pool = block->pool;
    if (fences.empty()) {
      clearUses(block);
      chargeFree(pool, size, release(block));
    } else {
      held_.hold(block, std::move(fences));
      chargeHold(pool, size);
    }
    return freed;
  }

  // Frees the held blocks that no stream uses any more.
  void releaseCompleted() {
    FenceList completed; // destroyed after the lock is released
    std::lock_guard<SpinLock> guard(lock);
    held_.poll(completed, [this](Block* block) { unhold(block); });
  }

  static void clearUses(Block* block) noexcept {
    block->extra->uses.clear();
    block->has_uses = false;
  }

  // With the lock.
  void unhold(Block* block) noexcept {
    clearUses(block);
    const Pool pool = block->pool;
    const auto size = static_cast<int64_t>(block->size);
    chargeUnhold(pool, size, release(block));
  }

  // Gives the abandoned blocks the fences that they lack.
  void fenceAbandoned() {
    std::unique_lock<SpinLock> guard(lock);
    std::vector<Block*> blocks = held_.takeAbandoned();
    while (!blocks.empty()) {
      Block* block = blocks.back();
      FenceList fences;
      guard.unlock();
      try {
        fences = held_.fence(*block);
        guard.lock();
        held_.reserve(fences);
      } catch (...) {
        if (!guard.owns_lock()) {
          guard.lock();
        }
        held_.putBackAbandoned(blocks);
        throw;
      }
      blocks.pop_back();
      held_.forget();
      if (fences.empty()) {
        unhold(block);
      } else {
        held_.hold(block, std::move(fences));
      }
    }
  }

  const StreamTag stream_;
  Backend& backend_;
  BlockTable& table_;
  // Counts the device's requests to the runtime: the clock of block ages.
  const std::atomic<uint32_t>& epoch_;

  // All of the following is guarded by the lock.
  NodePool nodes_;
  FreeBlocks free_;
  HeldBlocks<Backend> held_;
  std::vector<Block*> segments_; // the first block of each
};

} // namespace c10::xpu::impl
