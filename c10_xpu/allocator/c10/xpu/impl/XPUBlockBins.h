#pragma once

#include <c10/xpu/impl/XPUBlock.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace c10::xpu::impl {

// Note [Size classes]
// ~~~~~~~~~~~~~~~~~~~
// The free blocks of a pool are kept in 4096 bins by size. Two levels of
// bitmaps tell which bins are not empty, so that the next bin at or above a
// given one is found with two "count trailing zeros", however many blocks are
// cached.
//
//   small pool   one bin for each multiple of 512 B up to the segment's 2 MiB:
//                the fit is always the best one.
//   large pool   one bin for each multiple of 512 B up to 64 KiB, from there on
//                128 bins for each power of two. A bin then holds blocks that
//                differ by less than 1/128, and the smallest of the first
//                kProbes of them that fit is taken: the fit is the best one
//                where a bin holds no more than that, else it is less than
//                1/64 larger than the best one.
//
// A list of free blocks is last in, first out: the memory that was used last is
// the likeliest to be in a cache.

inline int trailingZeros(uint64_t word) {
  return __builtin_ctzll(word);
}

inline int floorLog2(uint64_t value) {
  return 63 - __builtin_clzll(value);
}

struct SmallBinMap {
  static size_t bin(size_t size) {
    return size / kBlockGranularity - 1;
  }
};

struct LargeBinMap {
  static constexpr int kDivisionsLog2 = 7;

  static size_t bin(size_t size) {
    const size_t units = size / kBlockGranularity;
    constexpr size_t divisions = size_t{1} << kDivisionsLog2;
    if (units < divisions) {
      return units;
    }
    const int shift = floorLog2(units) - kDivisionsLog2;
    return shift * divisions + (units >> shift);
  }
};

template <class BinMap>
class BlockBins final {
 public:
  static constexpr size_t kBins = 4096;
  static constexpr int kProbes = 16;

  void insert(Block* block) noexcept {
    const size_t bin = BinMap::bin(block->size);
    block->bin = static_cast<uint16_t>(bin);
    block->bin_prev = nullptr;
    block->bin_next = heads_[bin];
    if (block->bin_next != nullptr) {
      block->bin_next->bin_prev = block;
    } else {
      words_[bin / 64] |= uint64_t{1} << (bin % 64);
      summary_ |= uint64_t{1} << (bin / 64);
    }
    heads_[bin] = block;
  }

  void remove(Block* block) noexcept {
    const size_t bin = block->bin;
    if (block->bin_next != nullptr) {
      block->bin_next->bin_prev = block->bin_prev;
    }
    if (block->bin_prev != nullptr) {
      block->bin_prev->bin_next = block->bin_next;
    } else {
      heads_[bin] = block->bin_next;
      if (heads_[bin] == nullptr) {
        words_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
        if (words_[bin / 64] == 0) {
          summary_ &= ~(uint64_t{1} << (bin / 64));
        }
      }
    }
  }

  /// The free block that fits `size` best, see Note [Size classes]; it stays
  /// in its bin. nullptr if none fits.
  Block* bestFit(size_t size) const noexcept {
    const size_t bin = BinMap::bin(size);
    Block* block = probe(heads_[bin], size);
    if (block == nullptr && bin + 1 < kBins) {
      block = probe(firstFrom(bin + 1), size);
    }
    return block;
  }

  /// Calls visit(block) for all free blocks.
  template <class Visitor>
  void forEach(Visitor visit) const {
    for (Block* head : heads_) {
      for (Block* block = head; block != nullptr; block = block->bin_next) {
        visit(block);
      }
    }
  }

 private:
  static Block* probe(Block* block, size_t size) noexcept {
    Block* best = nullptr;
    for (int i = 0; block != nullptr && i < kProbes; ++i) {
      if (block->size == size) {
        return block;
      }
      if (block->size > size && (best == nullptr || block->size < best->size)) {
        best = block;
      }
      block = block->bin_next;
    }
    return best;
  }

  Block* firstFrom(size_t bin) const noexcept {
    const size_t word = bin / 64;
    const uint64_t here = words_[word] & (~uint64_t{0} << (bin % 64));
    if (here != 0) {
      return heads_[word * 64 + trailingZeros(here)];
    }
    // Shifting by 64 is undefined, hence in two steps.
    const uint64_t above = summary_ & ((~uint64_t{0} << word) << 1);
    if (above == 0) {
      return nullptr;
    }
    const size_t next = trailingZeros(above);
    return heads_[next * 64 + trailingZeros(words_[next])];
  }

  uint64_t summary_ = 0;
  std::array<uint64_t, kBins / 64> words_{};
  std::array<Block*, kBins> heads_{};
};

} // namespace c10::xpu::impl
