#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>

// The blocks of the XPU caching allocator, and how one is found: by its size
// among the free ones, by its address among the allocated ones.

namespace c10::xpu::impl {

/// All block sizes and addresses are multiples of this.
constexpr size_t kMinBlockSize = 512;
/// The largest "small" allocation.
constexpr size_t kSmallSize = size_t{1} << 20;
/// Small allocations are packed in segments of this size.
constexpr size_t kSmallBuffer = size_t{2} << 20;
/// How much larger than the request an oversize block may be.
constexpr size_t kLargeBuffer = size_t{20} << 20;
/// Segments of the large pool are multiples of this.
constexpr size_t kRoundLarge = size_t{2} << 20;
/// The most by which they are larger than the request.
constexpr size_t kMaxGrowth = size_t{128} << 20;

struct StreamBlocks;

enum class BlockState : uint8_t {
  Unused, // describes no memory
  Free, // cached
  Allocated, // held by client code
  PendingFree, // freed by client code, but still used by a stream
};

/// A contiguous part of a segment. Blocks are recycled by their StreamBlocks
/// but never destroyed, so that a stale pointer to one can be followed. One
/// block takes one cache line: to free one among very many costs little more
/// than the misses for it and its neighbours.
struct alignas(64) Block {
  char* ptr = nullptr;
  size_t size = 0; // bytes
  // The neighbours in the segment. The first block of a segment stays its
  // first block as long as the segment exists.
  Block* prev = nullptr;
  Block* next = nullptr;
  // Fixed for life, and has the lock that guards everything else here.
  StreamBlocks* owner = nullptr;
  union {
    struct {
      Block* prev;
      Block* next;
    } free_list; // of a free block; an unused one has only `next`
    size_t requested_size; // of an allocated block: bytes, before rounding
  };
  uint32_t freed_at = 0; // of a free block that is a whole segment
  uint16_t num_uses = 0; // by other streams, of an allocated or pending block
  BlockState state = BlockState::Unused;
  bool is_small = false;

  Block() : free_list{nullptr, nullptr} {}

  bool isSplit() const {
    return prev != nullptr || next != nullptr;
  }
};

/// The lock of a StreamBlocks. It is held for some ten nanoseconds, never
/// across a call of the SYCL runtime, and hardly ever by two threads at once; a
/// std::mutex would cost a third of an allocation.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      while (locked_.load(std::memory_order_relaxed)) {
        std::this_thread::yield();
      }
    }
  }
  void unlock() {
    locked_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> locked_{false};
};

/// The free blocks of one pool of one stream, in bins of equal width with a
/// bitmap of those that are not empty. The bins of the small pool hold one
/// size each. The last bin holds everything beyond the others.
class FreeBlocks {
 public:
  /// Bins are 2^bin_shift bytes wide.
  explicit FreeBlocks(int bin_shift) : bin_shift_(bin_shift) {}

  void insert(Block* block) {
    const size_t bin = binOf(block->size);
    Block* const first = bins_[bin];
    block->free_list = {nullptr, first};
    if (first != nullptr) {
      first->free_list.prev = block;
    }
    bins_[bin] = block;
    words_[bin / 64] |= bit(bin);
    summary_ |= bit(bin / 64);
  }

  void erase(Block* block) {
    const auto [prev, next] = block->free_list;
    if (next != nullptr) {
      next->free_list.prev = prev;
    }
    if (prev != nullptr) {
      prev->free_list.next = next;
      return;
    }
    const size_t bin = binOf(block->size);
    bins_[bin] = next;
    if (next == nullptr) {
      words_[bin / 64] &= ~bit(bin);
      if (words_[bin / 64] == 0) {
        summary_ &= ~bit(bin / 64);
      }
    }
  }

  /// The smallest block of at least `size` bytes, or null.
  Block* find(size_t size) const {
    const size_t bin = binOf(size);
    if (Block* block = smallestIn(bin, size)) {
      return block;
    }
    const size_t next = nextNotEmpty(bin + 1);
    return next == kNumBins ? nullptr : smallestIn(next, next << bin_shift_);
  }

 private:
  static constexpr size_t kNumBins = 4096; // 64 words of bits, one summary

  static uint64_t bit(size_t index) {
    return uint64_t{1} << (index % 64);
  }

  size_t binOf(size_t size) const {
    const size_t bin = size >> bin_shift_;
    return bin < kNumBins ? bin : kNumBins - 1;
  }

  Block* smallestIn(size_t bin, size_t size) const {
    Block* best = nullptr;
    for (Block* block = bins_[bin]; block != nullptr;
         block = block->free_list.next) {
      if (block->size >= size &&
          (best == nullptr || block->size < best->size)) {
        best = block;
        if (block->size == size) {
          break;
        }
      }
    }
    return best;
  }

  size_t nextNotEmpty(size_t bin) const {
    if (bin >= kNumBins) {
      return kNumBins;
    }
    size_t word = bin / 64;
    uint64_t bits = words_[word] & (~uint64_t{0} << (bin % 64));
    if (bits == 0) {
      const uint64_t later =
          word == 63 ? 0 : summary_ & (~uint64_t{0} << (word + 1));
      if (later == 0) {
        return kNumBins;
      }
      word = static_cast<size_t>(__builtin_ctzll(later));
      bits = words_[word];
    }
    return word * 64 + static_cast<size_t>(__builtin_ctzll(bits));
  }

  const int bin_shift_;
  uint64_t summary_ = 0; // words that are not 0
  std::array<uint64_t, kNumBins / 64> words_{};
  std::array<Block*, kNumBins> bins_{};
};

/// From the address of an allocated block to the block, for all devices: a
/// table with an entry for each 512 bytes of address space, in two levels that
/// are mostly untouched zero pages. It is read without a lock.
///
/// Entries stay when a block is freed, so what `find` returns is a hint: the
/// caller compares address and state under the lock of the block's owner.
// NOLINTBEGIN(cppcoreguidelines-no-malloc): calloc leaves pages untouched.
class BlockTable {
 public:
  BlockTable() : root_(newLevel<std::atomic<Entry*>>(kRootBits)) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() {
    for (size_t i = 0; i < size_t{1} << kRootBits; ++i) {
      std::free(root_[i].load(std::memory_order_relaxed));
    }
    std::free(root_);
  }

  Block* find(const void* ptr) const {
    const Entry* const leaf =
        root_[rootIndex(ptr)].load(std::memory_order_acquire);
    return leaf == nullptr
        ? nullptr
        : leaf[leafIndex(ptr)].load(std::memory_order_acquire);
  }

  /// `block` is about to be allocated. May throw std::bad_alloc.
  void insert(Block* block) {
    std::atomic<Entry*>& slot = root_[rootIndex(block->ptr)];
    Entry* leaf = slot.load(std::memory_order_acquire);
    if (leaf == nullptr) {
      Entry* const fresh = newLevel<Entry>(kLeafBits);
      if (slot.compare_exchange_strong(
              leaf, fresh, std::memory_order_acq_rel)) {
        leaf = fresh;
      } else {
        std::free(fresh);
      }
    }
    Entry& entry = leaf[leafIndex(block->ptr)];
    if (entry.load(std::memory_order_relaxed) != block) {
      entry.store(block, std::memory_order_release);
    }
  }

 private:
  using Entry = std::atomic<Block*>;
  static constexpr int kEntryShift = 9;
  static constexpr int kLeafBits = 21; // 1 GiB of addresses
  static constexpr int kRootBits = 20; // higher bits are the same for all
  static_assert(size_t{1} << kEntryShift == kMinBlockSize);

  static size_t leafIndex(const void* ptr) {
    return (reinterpret_cast<uintptr_t>(ptr) >> kEntryShift) &
        ((size_t{1} << kLeafBits) - 1);
  }
  static size_t rootIndex(const void* ptr) {
    return (reinterpret_cast<uintptr_t>(ptr) >> (kEntryShift + kLeafBits)) &
        ((size_t{1} << kRootBits) - 1);
  }

  template <class T>
  static T* newLevel(int bits) {
    void* const memory = std::calloc(size_t{1} << bits, sizeof(T));
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    return static_cast<T*>(memory);
  }

  std::atomic<Entry*>* const root_;
};
// NOLINTEND(cppcoreguidelines-no-malloc)

} // namespace c10::xpu::impl
