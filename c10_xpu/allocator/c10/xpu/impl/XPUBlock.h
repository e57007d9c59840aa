#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

// The blocks of the XPU caching allocator, found by size or by address.

namespace c10::xpu::impl {

constexpr size_t kMinBlockSize = 512; // all sizes and addresses are multiples
constexpr size_t kSmallSize = size_t{1} << 20; // the largest of the small pool
constexpr size_t kSmallBuffer = size_t{2} << 20; // its segments
constexpr size_t kRoundLarge = size_t{2} << 20; // granularity of other segments
/// How much larger than the request an oversize block may be, and a segment.
constexpr size_t kLargeBuffer = size_t{20} << 20;
constexpr size_t kMaxGrowth = size_t{128} << 20;

inline size_t roundUp(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}

struct StreamBlocks;
struct StreamUses;

enum class BlockState : uint8_t {
  Unused, // describes no memory
  Free, // cached
  Allocated, // held by client code
  PendingFree, // freed by client code, but still used by a stream
};

/// A contiguous part of a segment. Blocks are recycled by their StreamBlocks
/// but never destroyed, so that a stale pointer to one can be followed. One
/// takes one cache line: to free one among very many costs little but misses.
struct alignas(64) Block {
  char* ptr = nullptr;
  size_t size = 0; // bytes
  // The neighbours in the segment, whose first block never changes.
  Block* prev = nullptr;
  Block* next = nullptr;
  // Fixed for life, and has the lock that guards everything else here.
  StreamBlocks* owner = nullptr;
  union {
    struct {
      Block* prev;
      Block* next;
    } free_list; // of a free block; an unused one has only `next`
    struct {
      size_t requested_size; // bytes, before rounding
      StreamUses* uses; // by other streams, or null
    } client; // of an allocated or pending block
  };
  uint32_t freed_at = 0; // of a free block that is a whole segment
  BlockState state = BlockState::Unused;
  bool is_small = false;

  Block() : free_list{nullptr, nullptr} {}

  bool isAllocated(const void* at) const {
    return ptr == at && state == BlockState::Allocated;
  }
  bool isSplit() const {
    return prev != nullptr || next != nullptr;
  }
  bool isFreeSegment() const {
    return state == BlockState::Free && !isSplit();
  }
};

/// The free blocks of one pool of one stream, in bins of equal width with a
/// bitmap of those that are not empty. The last one has all that is larger.
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
    Block* const block = smallestIn(bin, size);
    const size_t next = block == nullptr ? nextNotEmpty(bin) : 0;
    return next == 0 ? block : smallestIn(next, size);
  }

 private:
  static constexpr size_t kNumBins = 4096; // 64 words of bits, one summary

  static uint64_t bit(size_t index) {
    return uint64_t{1} << (index % 64);
  }
  static uint64_t after(uint64_t bits, size_t index) {
    return bits & ~(bit(index) | (bit(index) - 1));
  }

  size_t binOf(size_t size) const {
    return std::min(size >> bin_shift_, kNumBins - 1);
  }

  Block* smallestIn(size_t bin, size_t size) const {
    Block* best = nullptr;
    for (Block* block = bins_[bin]; block != nullptr;
         block = block->free_list.next) {
      if (block->size == size) {
        return block;
      }
      if (block->size > size && (best == nullptr || block->size < best->size)) {
        best = block;
      }
    }
    return best;
  }

  // The first bin after `bin` that is not empty, or 0.
  size_t nextNotEmpty(size_t bin) const {
    size_t word = bin / 64;
    uint64_t bits = after(words_[word], bin);
    const uint64_t later = after(summary_, word);
    if (bits == 0 && later != 0) {
      word = __builtin_ctzll(later);
      bits = words_[word];
    }
    return bits == 0 ? 0 : word * 64 + __builtin_ctzll(bits);
  }

  const int bin_shift_;
  uint64_t summary_ = 0; // words that are not 0
  std::array<uint64_t, kNumBins / 64> words_{};
  std::array<Block*, kNumBins> bins_{};
};

/// From the address of an allocated block to the block, for all devices, read
/// without a lock: an entry for each 512 bytes of address space, in two levels.
/// Entries stay when a block is freed, so what `find` returns is a hint, to be
/// checked under the lock of the block's owner.
class BlockTable {
 public:
  ~BlockTable() {
    for (const auto& leaf : leaves_) {
      std::free(leaf); // NOLINT(cppcoreguidelines-no-malloc)
    }
  }

  Block* find(const void* ptr) const {
    const auto [number, index] = placeOf(ptr);
    const Entry* const leaf = leaves_[number].load(std::memory_order_acquire);
    return leaf ? leaf[index].load(std::memory_order_acquire) : nullptr;
  }

  /// `block` is about to be allocated. May throw std::bad_alloc.
  void insert(Block* block) {
    const auto [number, index] = placeOf(block->ptr);
    Entry* leaf = leaves_[number].load(std::memory_order_acquire);
    if (leaf == nullptr) {
      // NOLINTBEGIN(cppcoreguidelines-no-malloc): calloc touches no page
      auto* made = static_cast<Entry*>(std::calloc(kLeafSize, sizeof(Entry)));
      if (made == nullptr) {
        throw std::bad_alloc();
      }
      const bool is_first = leaves_[number].compare_exchange_strong(leaf, made);
      is_first ? void(leaf = made) : std::free(made);
      // NOLINTEND(cppcoreguidelines-no-malloc)
    }
    Entry& entry = leaf[index];
    if (entry.load(std::memory_order_relaxed) != block) {
      entry.store(block, std::memory_order_release);
    }
  }

 private:
  using Entry = std::atomic<Block*>;
  static constexpr size_t kLeafSize = size_t{1} << 23; // 4 GiB of addresses
  static constexpr size_t kNumLeaves = size_t{1} << 18; // higher bits are alike

  // The numbers of a leaf and of an entry in it.
  static std::pair<size_t, size_t> placeOf(const void* ptr) {
    const auto unit = reinterpret_cast<uintptr_t>(ptr) / kMinBlockSize;
    return {unit / kLeafSize % kNumLeaves, unit % kLeafSize};
  }

  std::vector<std::atomic<Entry*>> leaves_{kNumLeaves};
};

} // namespace c10::xpu::impl
