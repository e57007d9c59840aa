#pragma once

#include <c10/macros/Macros.h>
#include <c10/xpu/impl/XPUBlock.h>
#include <c10/xpu/impl/XPUBlockBins.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace c10::xpu::impl {

/// The free blocks of an arena. Guarded by the arena's lock.
///
/// The block of each pool that became free last is kept at hand, so that a
/// program that allocates and frees in turns touches no bin; all others are in
/// their bins, see Note [Size classes]. Blocks in bins that are a whole segment
/// are idle: they are also in a list, newest first, from whose end segments go
/// back to the runtime.
class FreeBlocks final {
 public:
  /// The block that fits best, or nullptr. It stays where it is.
  C10_ALWAYS_INLINE Block* bestFit(Pool pool, size_t size) const noexcept {
    Block* recent = recentOf(pool).load(std::memory_order_relaxed);
    if (recent != nullptr && recent->size == size) {
      return recent;
    }
    Block* binned =
        pool == Pool::Small ? small_.bestFit(size) : large_.bestFit(size);
    return recent != nullptr && recent->size > size &&
            (binned == nullptr || recent->size <= binned->size)
        ? recent
        : binned;
  }

  C10_ALWAYS_INLINE void add(Block* block) noexcept {
    std::atomic<Block*>& recent = recentOf(block->pool);
    if (Block* last = recent.load(std::memory_order_relaxed)) {
      toBin(last);
    }
    recent.store(block, std::memory_order_relaxed);
  }

  C10_ALWAYS_INLINE void remove(Block* block) noexcept {
    std::atomic<Block*>& recent = recentOf(block->pool);
    if (recent.load(std::memory_order_relaxed) == block) {
      recent.store(nullptr, std::memory_order_relaxed);
      return;
    }
    block->pool == Pool::Small ? small_.remove(block) : large_.remove(block);
    if (!block->is_split()) {
      Block* prev = block->extra->idle_prev;
      Block* next = block->extra->idle_next;
      (prev == nullptr ? idle_first_ : prev->extra->idle_next) = next;
      (next == nullptr ? idle_last_ : next->extra->idle_prev) = prev;
      addIdle(-1);
    }
  }

  /// The block that has been idle longest, or nullptr.
  Block* oldestIdle() noexcept {
    recentToBins();
    return idle_last_;
  }

  /// The smallest idle block of at least `size` bytes; if there is none, the
  /// largest one of at least `floor` bytes; else nullptr.
  Block* idleOf(size_t size, size_t floor) noexcept {
    recentToBins();
    Block* fitting = nullptr;
    Block* largest = nullptr;
    for (Block* b = idle_first_; b != nullptr; b = b->extra->idle_next) {
      if (b->size >= size && (fitting == nullptr || b->size < fitting->size)) {
        fitting = b;
      }
      if (b->size >= floor && (largest == nullptr || b->size > largest->size)) {
        largest = b;
      }
    }
    return fitting != nullptr ? fitting : largest;
  }

  /// False if no block is idle. May be called without the lock; what it says
  /// may then be over already.
  bool mayHaveIdle() const noexcept {
    return idle_count_.load(std::memory_order_relaxed) != 0 ||
        recent_[0].load(std::memory_order_relaxed) != nullptr ||
        recent_[1].load(std::memory_order_relaxed) != nullptr;
  }

  /// Calls visit(block) for all blocks.
  template <class Visitor>
  void forEach(Visitor visit) {
    recentToBins();
    small_.forEach(visit);
    large_.forEach(visit);
  }

 private:
  void toBin(Block* block) noexcept {
    block->pool == Pool::Small ? small_.insert(block) : large_.insert(block);
    if (!block->is_split()) {
      block->extra->idle_prev = nullptr;
      block->extra->idle_next = idle_first_;
      (idle_first_ == nullptr ? idle_last_ : idle_first_->extra->idle_prev) =
          block;
      idle_first_ = block;
      addIdle(1);
    }
  }

  void recentToBins() noexcept {
    for (std::atomic<Block*>& recent : recent_) {
      if (Block* block = recent.load(std::memory_order_relaxed)) {
        recent.store(nullptr, std::memory_order_relaxed);
        toBin(block);
      }
    }
  }

  std::atomic<Block*>& recentOf(Pool pool) noexcept {
    return recent_[static_cast<size_t>(pool)];
  }
  const std::atomic<Block*>& recentOf(Pool pool) const noexcept {
    return recent_[static_cast<size_t>(pool)];
  }

  // Only changed under the lock, so that load and store do.
  void addIdle(int by) noexcept {
    idle_count_.store(
        idle_count_.load(std::memory_order_relaxed) + by,
        std::memory_order_relaxed);
  }

  std::array<std::atomic<Block*>, kNumPools> recent_{};
  std::atomic<int> idle_count_{0};
  Block* idle_first_ = nullptr;
  Block* idle_last_ = nullptr;
  BlockBins<SmallBinMap> small_;
  BlockBins<LargeBinMap> large_;
};

} // namespace c10::xpu::impl
