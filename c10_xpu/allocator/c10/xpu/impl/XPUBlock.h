#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <vector>

namespace c10::xpu::impl {

/// All block sizes and addresses are multiples of this.
constexpr size_t kBlockGranularity = 512;
/// The largest request that is served from the small pool.
constexpr size_t kSmallSize = size_t{1} << 20;
/// The size of a segment of the small pool.
constexpr size_t kSmallSegment = size_t{2} << 20;
/// Segments of the large pool are rounded up to the page of the devices.
constexpr size_t kLargeSegmentRound = size_t{64} << 10;
/// How much larger than the request an oversize block may be, which is never
/// split.
constexpr size_t kOversizeSlack = size_t{20} << 20;
/// No request of this size or more can succeed; smaller ones have a bin.
constexpr size_t kMaxBlockSize = size_t{1} << 47;

enum class Pool : uint8_t { Small = 0, Large = 1 };
constexpr size_t kNumPools = 2;

/// A stream as the allocator's core knows it.
struct StreamTag {
  int64_t id;
  int32_t device;

  bool operator==(const StreamTag& other) const {
    return id == other.id && device == other.device;
  }
};

struct ArenaBase;
struct Block;

enum class BlockState : uint8_t {
  Dead, // a node that describes no memory
  Free, // cached
  Allocated, // held by client code
  Held, // freed, but streams that used it have not finished
};

/// What few blocks need: first blocks of a segment, and those that other
/// streams use.
struct BlockExtra {
  // Free blocks that are a whole segment: links of the arena's list of idle
  // segments, newest first, and the device's epoch when they became idle.
  Block* idle_prev = nullptr;
  Block* idle_next = nullptr;
  uint32_t stamp = 0;
  // First blocks of a segment: position in the arena's list of segments.
  uint32_t segment_index = 0;
  // Streams other than the arena's that use the block. Cleared but never
  // shrunk, so that a reused node needs no memory here.
  std::vector<StreamTag> uses;
};

/// A node of the allocator's books: one contiguous range of a segment. Nodes
/// come from their arena's NodePool, are never given back to the system and
/// never change arena, so that a stale pointer to one can always be followed
/// and found out, see Note [Life of a cached block]. Guarded by the arena's
/// lock. A node is one cache line: with very many blocks, to free one costs the
/// cache misses for its neighbours' nodes more than anything else.
struct alignas(64) Block {
  char* ptr;
  size_t size;
  // Neighbours within the segment. The node at the segment's start lives as
  // long as the segment.
  Block* prev;
  Block* next;
  // Free blocks: links of the bin. Dead nodes: bin_next links the pool. Held
  // blocks: it links those that are held for the same reason.
  Block* bin_prev;
  Block* bin_next;
  // nullptr for most; it stays with the node.
  BlockExtra* extra;
  uint16_t bin;
  BlockState state;
  Pool pool;
  bool oversize;
  bool has_uses; // extra->uses is not empty

  bool is_split() const {
    return prev != nullptr || next != nullptr;
  }

  inline ArenaBase& arena() const;
};
static_assert(sizeof(Block) == 64, "a node is one cache line");

/// A stock of dead nodes, and what goes with nodes. Guarded by the arena's
/// lock.
class NodePool final {
 public:
  explicit NodePool(ArenaBase& arena) : arena_(arena) {}
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;
  ~NodePool() {
    for (void* memory : memory_) {
      std::free(memory); // NOLINT(cppcoreguidelines-no-malloc): see obtain
    }
  }

  /// Makes sure that the next `take` cannot fail. May throw std::bad_alloc.
  void reserve() {
    if (free_ == nullptr) {
      grow();
    }
  }

  /// The node that `take` will return; after `reserve`.
  Block* peek() const noexcept {
    return free_;
  }

  Block* take() noexcept {
    Block* block = free_;
    free_ = block->bin_next;
    return block;
  }

  void put(Block* block) noexcept {
    block->state = BlockState::Dead;
    block->ptr = nullptr;
    block->bin_next = free_;
    free_ = block;
  }

  /// The node's extra, made if need be. May throw std::bad_alloc.
  BlockExtra& extraOf(Block* block) {
    if (block->extra == nullptr) {
      extras_.emplace_back();
      block->extra = &extras_.back();
    }
    return *block->extra;
  }

 private:
  friend struct Block;

  // At an address that is a multiple of its size, so that a node leads to its
  // chunk, and that to the arena.
  static constexpr size_t kChunkSize = size_t{16} << 10;
  struct Chunk {
    ArenaBase* arena;
    alignas(
        alignof(Block)) std::array<Block, kChunkSize / sizeof(Block) - 1> nodes;
  };
  static_assert(sizeof(Chunk) == kChunkSize);

  // Chunks come one by one at first. An arena with very many blocks cuts them
  // out of huge pages: its nodes are touched at random, and with small pages
  // most of the time would go into looking up where these are.
  static constexpr size_t kSingleChunks = 32;
  static constexpr size_t kHugePage = size_t{2} << 20;

  void* obtain(size_t size) {
    memory_.reserve(memory_.size() + 1);
    void* memory = std::aligned_alloc(size, size);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    memory_.push_back(memory);
    return memory;
  }

  void* newChunk() {
    if (memory_.size() < kSingleChunks) {
      return obtain(kChunkSize);
    }
    if (huge_left_ == 0) {
      huge_ = static_cast<char*>(obtain(kHugePage));
      huge_left_ = kHugePage;
#ifdef MADV_HUGEPAGE
      madvise(huge_, kHugePage, MADV_HUGEPAGE); // it does without as well
#endif
    }
    huge_left_ -= kChunkSize;
    return huge_ + huge_left_;
  }

  void grow() {
    auto* chunk = new (newChunk()) Chunk{&arena_, {}};
    // In order of address: neighbours in a segment tend to be neighbours here.
    for (size_t i = chunk->nodes.size(); i > 0; --i) {
      put(&chunk->nodes[i - 1]);
    }
  }

  ArenaBase& arena_;
  Block* free_ = nullptr;
  std::vector<void*> memory_; // of all chunks
  char* huge_ = nullptr;
  size_t huge_left_ = 0; // what is not cut yet
  std::deque<BlockExtra> extras_; // which do not move
};

inline ArenaBase& Block::arena() const {
  const auto address = reinterpret_cast<uintptr_t>(this);
  return *reinterpret_cast<const NodePool::Chunk*>(
              address / NodePool::kChunkSize * NodePool::kChunkSize)
              ->arena;
}

} // namespace c10::xpu::impl
