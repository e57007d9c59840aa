#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace c10::xpu::impl {

/// From the address of an allocated block to its node, for all devices: a radix
/// tree over the address. Three loads find an entry, whatever the number of
/// blocks, and no lock is taken.
///
///   56            39 38             20 19        9 8      0
///   +---------------+-----------------+-----------+--------+
///   |    18 bits    |     19 bits     |  11 bits  |   0    |
///   +---------------+-----------------+-----------+--------+
///    root            windows of 1 MiB  blocks of the small pool
///    (2 MiB)         (8 MiB, 512 GiB   (16 KiB, 1 MiB of addresses)
///                    of addresses)
///
/// An allocated block of the large pool is larger than 1 MiB, so that no two of
/// them start in one window: the window itself has room for one, with the place
/// at which it starts. Only the windows of small segments have a table of
/// blocks. The levels are untouched zero pages for the most part, so that all
/// of this takes about 1 % of the small segments' memory and next to nothing
/// for large ones.
///
/// (Addresses are taken modulo 2^57: those of some GPUs are sign-extended.)
///
/// Entries are not erased when a block is freed. So what `find` gives is a
/// hint: the caller has to compare address and state under the lock of the
/// node's arena, which it may do because nodes live for ever. But it is the
/// only node in question.
class BlockTable final {
 public:
  BlockTable() : root_(newLevel<std::atomic<Window*>>(kRootBits)) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  ~BlockTable() {
    for (size_t i = 0; i < size_t{1} << kRootBits; ++i) {
      Window* windows = root_[i].load(std::memory_order_relaxed);
      for (size_t j = 0; windows != nullptr && j < size_t{1} << kWindowBits;
           ++j) {
        freeLevel(windows[j].small.load(std::memory_order_relaxed));
      }
      freeLevel(windows);
    }
    freeLevel(root_);
  }

  Block* find(const void* ptr) const noexcept {
    const uintptr_t address = addressOf(ptr);
    const Window* windows =
        root_[rootIndex(address)].load(std::memory_order_acquire);
    if (windows == nullptr || address % kBlockGranularity != 0) {
      return nullptr;
    }
    const Window& window = windows[windowIndex(address)];
    const uint64_t large = window.large.load(std::memory_order_acquire);
    if (large != 0 && large >> kPointerBits == blockIndex(address)) {
      return reinterpret_cast<Block*>(large & kPointerMask);
    }
    const Entry* small = window.small.load(std::memory_order_acquire);
    return small == nullptr
        ? nullptr
        : small[blockIndex(address)].load(std::memory_order_acquire);
  }

  /// A block of the small pool starts at `ptr` from now on. May throw
  /// std::bad_alloc, and then has changed nothing; so may setLarge.
  void setSmall(const void* ptr, Block* block) {
    const uintptr_t address = addressOf(ptr);
    Entry* small = level(windowOf(address).small, kBlockBits);
    small[blockIndex(address)].store(block, std::memory_order_release);
  }

  /// The same for a block of the large pool, which is allocated.
  void setLarge(const void* ptr, Block* block) {
    const uintptr_t address = addressOf(ptr);
    const auto node = reinterpret_cast<uintptr_t>(block);
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY((node & ~kPointerMask) == 0);
    const uint64_t entry = blockIndex(address) << kPointerBits | node;
    std::atomic<uint64_t>& large = windowOf(address).large;
    if (large.load(std::memory_order_relaxed) != entry) {
      large.store(entry, std::memory_order_release);
    }
  }

  /// Erases the blocks of a large segment, whose addresses may become those of
  /// small blocks.
  void eraseLarge(const void* ptr, size_t size) noexcept {
    const uintptr_t begin = addressOf(ptr);
    const uintptr_t window = uintptr_t{1} << kWindowShift;
    for (uintptr_t at = begin / window * window; at < begin + size;
         at += window) {
      Window* windows = root_[rootIndex(at)].load(std::memory_order_acquire);
      if (windows == nullptr) {
        continue;
      }
      std::atomic<uint64_t>& large = windows[windowIndex(at)].large;
      const uint64_t entry = large.load(std::memory_order_relaxed);
      const uintptr_t start = at + (entry >> kPointerBits) * kBlockGranularity;
      // The first and the last window may have the entry of a neighbour.
      if (entry != 0 && start >= begin && start < begin + size) {
        large.store(0, std::memory_order_release);
      }
    }
  }

 private:
  using Entry = std::atomic<Block*>;
  struct Window {
    std::atomic<uint64_t> large; // place of the block's start, and its node
    std::atomic<Entry*> small;
  };
  static constexpr int kBlockShift = 9;
  static constexpr int kBlockBits = 11;
  static constexpr int kWindowShift = kBlockShift + kBlockBits;
  static constexpr int kWindowBits = 19;
  static constexpr int kRootShift = kWindowShift + kWindowBits;
  static constexpr int kRootBits = 18;
  static constexpr int kPointerBits = 48; // of a node's address
  static constexpr uint64_t kPointerMask = (uint64_t{1} << kPointerBits) - 1;
  static_assert(size_t{1} << kBlockShift == kBlockGranularity);
  static_assert(size_t{1} << kWindowShift <= kSmallSize);

  static uintptr_t addressOf(const void* ptr) {
    return reinterpret_cast<uintptr_t>(ptr) &
        ((uintptr_t{1} << (kRootShift + kRootBits)) - 1);
  }
  static size_t blockIndex(uintptr_t address) {
    return (address >> kBlockShift) & ((size_t{1} << kBlockBits) - 1);
  }
  static size_t windowIndex(uintptr_t address) {
    return (address >> kWindowShift) & ((size_t{1} << kWindowBits) - 1);
  }
  static size_t rootIndex(uintptr_t address) {
    return (address >> kRootShift) & ((size_t{1} << kRootBits) - 1);
  }

  Window& windowOf(uintptr_t address) {
    return level(root_[rootIndex(address)], kWindowBits)[windowIndex(address)];
  }

  // NOLINTBEGIN(cppcoreguidelines-no-malloc): calloc does not touch the pages
  // of a large request.
  template <class T>
  static T* newLevel(int bits) {
    void* memory = std::calloc(size_t{1} << bits, sizeof(T));
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    return static_cast<T*>(memory);
  }

  static void freeLevel(void* level) {
    std::free(level);
  }
  // NOLINTEND(cppcoreguidelines-no-malloc)

  template <class T>
  static T* level(std::atomic<T*>& slot, int bits) {
    T* present = slot.load(std::memory_order_acquire);
    if (C10_LIKELY(present != nullptr)) {
      return present;
    }
    T* fresh = newLevel<T>(bits);
    if (slot.compare_exchange_strong(
            present, fresh, std::memory_order_acq_rel)) {
      return fresh;
    }
    freeLevel(fresh);
    return present;
  }

  std::atomic<Window*>* const root_;
};

} // namespace c10::xpu::impl
