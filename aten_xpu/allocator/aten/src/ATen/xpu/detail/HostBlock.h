#pragma once

#include <c10/util/Optional.h>
#include <c10/util/SmallVector.h>
#include <c10/xpu/XPUStream.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

// A block of pinned memory; part of HostBlockPool.h.

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

} // namespace detail
} // namespace xpu
} // namespace at
