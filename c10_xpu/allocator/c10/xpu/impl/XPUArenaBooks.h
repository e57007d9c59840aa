#pragma once

#include <c10/macros/Macros.h>
#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUBlock.h>
#include <c10/xpu/impl/XPUBlockTable.h>
#include <c10/xpu/impl/XPUFreeBlocks.h>
#include <c10/xpu/impl/XPUStatLedger.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
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
//                          | free                   | no other stream uses it
//                          v                        |
//                        Held ----------------------+ all of them are past it
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

/// The segments of an arena, their blocks, and which of these are free. It
/// knows neither streams nor the runtime. All is guarded by the arena's lock.
class ArenaBooks : public ArenaBase {
 public:
  struct Segment {
    void* ptr = nullptr;
    size_t size = 0;
    Pool pool = Pool::Small;
  };

 protected:
  ArenaBooks(
      BlockTable& table,
      StatLedger& ledger,
      const std::atomic<uint32_t>& epoch)
      : ArenaBase(ledger), table_(table), epoch_(epoch), nodes_(*this) {}

  C10_ALWAYS_INLINE void checkAllocated(const Block* block, const void* ptr)
      const {
    TORCH_CHECK(
        block->ptr == ptr && block->state == BlockState::Allocated,
        "invalid XPU pointer: ",
        ptr,
        " is not the start of an allocated block of the XPU caching allocator"
        " (freed twice, or not allocated by it?)");
  }

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

  BlockTable& table_;
  // Counts the device's requests to the runtime: the clock of block ages.
  const std::atomic<uint32_t>& epoch_;
  NodePool nodes_;
  FreeBlocks free_;
  std::vector<Block*> segments_; // the first block of each
};

} // namespace c10::xpu::impl
