#pragma once

#include <ATen/xpu/CachingHostAllocator.h>
#include <c10/macros/Macros.h>
#include <c10/util/Optional.h>
#include <c10/util/SmallVector.h>
#include <c10/xpu/XPUStream.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>
#include <vector>

// The pool behind CachingHostAllocator.h; not for use elsewhere.
// See Note [Reuse of pinned host blocks] in HostBlockPool.cpp.

namespace at {
namespace xpu {
namespace detail {

// That a stream works with a block.
struct HostBlockUse {
  c10::xpu::XPUStream stream;
  // A barrier after that work; none while submitting it has not succeeded.
  c10::optional<sycl::event> event;
  // Grows with every barrier of the pool.
  uint64_t sequence = 0;
};

struct HostBlock {
  // Constant from the system allocation to the system free.
  void* ptr = nullptr;
  size_t size = 0;
  uint32_t bin = 0;

  // The next block of the list that this one is in.
  HostBlock* next = nullptr;

  // Guards the members below.
  std::mutex mutex;
  bool in_use = false;
  // At most one entry per stream.
  c10::SmallVector<HostBlockUse, 2> uses;
};

// A singly linked first-in first-out list through HostBlock::next.
class HostBlockList {
 public:
  bool empty() const {
    return head_ == nullptr;
  }

  void pushBack(HostBlock* block) noexcept {
    block->next = nullptr;
    (head_ ? tail_->next : head_) = block;
    tail_ = block;
  }

  void pushFront(HostBlock* block) noexcept {
    block->next = head_;
    if (!head_) {
      tail_ = block;
    }
    head_ = block;
  }

  HostBlock* popFront() noexcept {
    HostBlock* block = head_;
    if (block) {
      head_ = block->next;
      block->next = nullptr;
    }
    return block;
  }

  // Appends `other` and leaves it empty.
  void append(HostBlockList& other) noexcept {
    if (other.empty()) {
      return;
    }
    (head_ ? tail_->next : head_) = other.head_;
    tail_ = other.tail_;
    other.head_ = nullptr;
  }

 private:
  HostBlock* head_ = nullptr;
  // Meaningful only while head_ is not null.
  HostBlock* tail_ = nullptr;
};

class HostBlockPool {
 public:
  // `size` must not be 0.
  HostBlock* allocate(size_t size);
  void free(HostBlock* block) noexcept;
  bool record(void* ptr, void* ctx, c10::xpu::XPUStream stream);
  void emptyCache();
  HostAllocatorStats stats() const;

  // Four sizes per power of two, 512 B to 4 EiB.
  static constexpr uint32_t kNumBins = 213;
  static constexpr size_t kMaxSize = size_t(1) << 62;
  static uint32_t binOf(size_t size);
  static size_t sizeOfBin(uint32_t bin);

 private:
  // Sharded by size so that threads which allocate different sizes do not meet.
  struct alignas(64) Bin {
    // Held for a few instructions at a time; never during a call of SYCL.
    mutable std::mutex mutex;
    HostBlockList ready;
    HostBlockList waiting;
    // The lengths of the lists, changed under `mutex` and read without. A
    // block that reclaim() looks at counts as waiting.
    std::atomic<size_t> num_ready{0};
    std::atomic<size_t> num_waiting{0};

    // Held by the one thread that looks at the events of waiting blocks.
    // Taken before `mutex`.
    std::mutex reclaim_mutex;
  };

  enum class Reclaim { FirstReady, AllReady };

  HostBlock* takeReady(uint32_t bin);
  HostBlock* takeCached(uint32_t bin);
  HostBlock* reclaim(uint32_t bin, Reclaim how);
  HostBlock* allocateFromSystem(uint32_t bin, size_t size);
  HostBlock* tryAllocateFromSystem(uint32_t bin);
  void releaseToSystem(HostBlock* block);
  void pushReady(HostBlock* block) noexcept;
  void pushWaiting(HostBlock* block) noexcept;
  HostBlock* find(void* ptr, void* ctx) const;
  [[noreturn]] void raiseOutOfMemory(size_t size) const;

  std::array<Bin, kNumBins> bins_;

  // Which blocks there are. Changed by system allocations and frees only.
  mutable std::shared_mutex registry_mutex_;
  std::map<uintptr_t, HostBlock*> by_address_;
  // A HostBlock is never destroyed, only reused for another allocation, so that
  // a stale context is memory that can be looked at.
  std::deque<HostBlock> storage_;
  std::vector<HostBlock*> spare_;
  std::unordered_set<const void*> contexts_;
  size_t reserved_bytes_ = 0;
  uint64_t num_host_alloc_ = 0;
  uint64_t num_host_free_ = 0;
};

} // namespace detail
} // namespace xpu
} // namespace at
