#pragma once

#include <c10/macros/Macros.h>
#include <c10/xpu/impl/XPUArenaBooks.h>
#include <c10/xpu/impl/XPUHeldBlocks.h>
#include <c10/xpu/impl/XPUSpinLock.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

namespace c10::xpu::impl {

// Note [Cross-stream use]
// ~~~~~~~~~~~~~~~~~~~~~~~
// recordStream notes in the node which other streams use a block. When it is
// freed, work that was enqueued there may still use it: it is Held until an
// event (a fence) that was recorded on each of these streams after the free is
// complete. Held blocks are not merged with and not reused; for the statistics
// they are active but not allocated.
//
// To record an event takes thirty times as long as to allocate and free. So a
// block that was freed waits until there are eight, or 16 MiB of them, and one
// fence on each stream serves all that have the same streams: it is later than
// each of them needs, which is safe, and not by much. A stream that is found to
// be idle then needs none, and the blocks are free at once. (Where a stream
// cannot be asked, it gets a barrier first, and is idle if that is complete on
// return.) Blocks that an external queue uses do not wait: its owner may
// destroy it.
//
// Allocations look after held blocks: those that wait get their fences, and the
// blocks whose events are complete become free. The event of the oldest batch
// is asked; a stream is in order, so that where it is not complete no later one
// of the same streams is. This too is not done each time, but
//
//   - when the cache has nothing that fits, before more memory is asked for,
//   - when this process has seen a stream or an event complete since, for then
//     a program may expect to get its memory back (see
//     Note [What the host has seen complete]),
//   - when eight blocks wait for a fence, see above,
//   - else by the sixteenth allocation.
//
// If nothing is held, all this costs one comparison.
//
// The fences are made outside of the lock. Where that fails, blocks go on to
// wait: who frees is not told, since the block is freed; the allocation that
// tries again, or emptyCache, raises what it gets.

/// The memory of one stream of one device.
///
/// Backend offers (all may throw c10::Error):
///   using Event                               copyable
///   void* allocate(int device, size_t size)   nullptr: out of memory
///   void deallocate(int device, void* ptr)
///   bool lasting(const StreamTag&)            it is there to the end of the
///                                             process
///   uint64_t progress()                       changes when the program sees
///                                             work complete
///   std::optional<Event> fence(const StreamTag&, bool ask)
///                                             an event after all that was
///                                             enqueued; with `ask`, none if
///                                             it is done
///   bool complete(const Event&)
///   void wait(const Event&)
///   size_t totalMemory(int device)
///   size_t freeMemory(int device)             0: unknown
template <class Backend>
class Arena final : public ArenaBooks {
 public:
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
      : ArenaBooks(table, ledger, epoch),
        stream_(stream),
        backend_(backend),
        held_(backend) {}

  const StreamTag& stream() const noexcept {
    return stream_;
  }

  /// A block of `size` bytes from the cache, or nullptr. `size` is a multiple
  /// of the granularity. A `thrifty` allocation does not cut a small piece out
  /// of an idle large segment, see Note [Bounded cache].
  Block* allocate(Pool pool, size_t size, size_t max_split_size, bool thrifty) {
    const bool held = held_.any();
    if (C10_UNLIKELY(held) && isTimeForHeld()) {
      lookAfterHeld();
    }
    Block* block = fromCache(pool, size, max_split_size, thrifty);
    if (C10_UNLIKELY(block == nullptr && held)) {
      lookAfterHeld();
      block = fromCache(pool, size, max_split_size, thrifty);
    }
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

  /// Frees the block that starts at `ptr`.
  Freed free(Block* block, const void* ptr) {
    Freed freed{};
    {
      std::lock_guard<SpinLock> guard(lock);
      checkAllocated(block, ptr);
      freed = {block->size, block->oversize};
      const auto size = static_cast<int64_t>(freed.size);
      const Pool pool = block->pool;
      if (C10_LIKELY(!block->has_uses)) {
        chargeFree(pool, size, release(block));
        return freed;
      }
      const bool fence_now = held_.add(block);
      chargeHold(pool, size);
      if (!fence_now) {
        return freed;
      }
    }
    try {
      lookAfterHeld();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
      // They still wait: see Note [Cross-stream use]
    }
    return freed;
  }

  /// Waits until the blocks that are held now are no longer used, and frees
  /// them.
  void drain() {
    if (!held_.any()) {
      return;
    }
    fenceWaiting();
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
  using BatchList = typename HeldBlocks<Backend>::BatchList;

  // ---- allocating ----

  C10_ALWAYS_INLINE Block* fromCache(
      Pool pool,
      size_t size,
      size_t max_split_size,
      bool thrifty) {
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

  // ---- cross-stream use; without the lock ----

  bool isTimeForHeld() noexcept {
    const uint64_t progress = backend_.progress();
    if (progress != seen_progress_.load(std::memory_order_relaxed)) {
      seen_progress_.store(progress, std::memory_order_relaxed);
      return true;
    }
    // Threads that come at once may count as one.
    const uint32_t turn = turn_.load(std::memory_order_relaxed) + 1;
    turn_.store(turn, std::memory_order_relaxed);
    return turn >= kTurns;
  }

  C10_NOINLINE void lookAfterHeld() {
    fenceWaiting();
    if (held_.anyFenced()) {
      releaseCompleted();
    }
  }

  // Frees the held blocks that no stream uses any more.
  void releaseCompleted() {
    BatchList completed; // destroyed after the lock is released
    std::lock_guard<SpinLock> guard(lock);
    held_.poll(completed, [this](Block* block) { unhold(block); });
  }

  // Gives the blocks that wait for it their fences, or frees them where their
  // streams are idle.
  C10_NOINLINE void fenceWaiting() {
    turn_.store(0, std::memory_order_relaxed);
    Block* waiting = [this] {
      std::lock_guard<SpinLock> guard(lock);
      return held_.takeWaiting();
    }();
    while (waiting != nullptr) {
      try {
        // Nobody else touches the extra of a block that is held.
        auto events = held_.fence(waiting->extra->uses);
        std::lock_guard<SpinLock> guard(lock);
        if (!events.empty()) {
          held_.hold(waiting, std::move(events));
          continue;
        }
        Block* unused = held_.takeAlike(waiting);
        while (unused != nullptr) {
          Block* block = std::exchange(unused, unused->bin_next);
          held_.forget();
          unhold(block);
        }
      } catch (...) {
        std::lock_guard<SpinLock> guard(lock);
        held_.putBack(waiting);
        throw;
      }
    }
  }

  // With the lock.
  void unhold(Block* block) noexcept {
    block->extra->uses.clear();
    block->has_uses = false;
    const Pool pool = block->pool;
    const auto size = static_cast<int64_t>(block->size);
    chargeUnhold(pool, size, release(block));
  }

  static constexpr uint32_t kTurns = 16;

  const StreamTag stream_;
  Backend& backend_;
  HeldBlocks<Backend> held_; // guarded by the lock
  std::atomic<uint32_t> turn_{0};
  std::atomic<uint64_t> seen_progress_{0};
};

} // namespace c10::xpu::impl
