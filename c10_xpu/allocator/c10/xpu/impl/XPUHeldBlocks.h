#pragma once

#include <c10/xpu/impl/XPUBlock.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace c10::xpu::impl {

/// The blocks of an arena that were freed but are held back, see
/// Note [Cross-stream use]. Guarded by the arena's lock, but for `fence`.
template <class Backend>
class HeldBlocks final {
 public:
  using Event = typename Backend::Event;

  /// An event that a held block waits for. (An event is made by recording only:
  /// to construct a sycl::event by default costs nearly as much as a barrier.)
  struct Fence {
    Fence(Event event, StreamTag stream)
        : event(std::move(event)), stream(stream) {}
    Event event;
    StreamTag stream;
    Block* block = nullptr;
    std::unique_ptr<Fence> next;
  };

  /// Fences in the order of time.
  class FenceList {
   public:
    FenceList() = default;
    FenceList(FenceList&& other) noexcept
        : first_(std::move(other.first_)),
          last_(std::exchange(other.last_, nullptr)) {}
    FenceList& operator=(FenceList&& other) noexcept {
      std::swap(first_, other.first_);
      std::swap(last_, other.last_);
      return *this;
    }
    // Not by the fences' destructors: they would recurse through a long list.
    ~FenceList() {
      while (!empty()) {
        pop();
      }
    }

    bool empty() const noexcept {
      return first_ == nullptr;
    }
    Fence* first() const noexcept {
      return first_.get();
    }
    void push(std::unique_ptr<Fence> fence) noexcept {
      Fence* added = fence.get();
      (last_ == nullptr ? first_ : last_->next) = std::move(fence);
      last_ = added;
    }
    std::unique_ptr<Fence> pop() noexcept {
      std::unique_ptr<Fence> fence = std::move(first_);
      first_ = std::move(fence->next);
      if (first_ == nullptr) {
        last_ = nullptr;
      }
      return fence;
    }

   private:
    std::unique_ptr<Fence> first_;
    Fence* last_ = nullptr;
  };

  explicit HeldBlocks(Backend& backend) : backend_(backend) {}

  /// False if no block is held. May be called without the lock; what it says
  /// may then be over already.
  bool any() const noexcept {
    return count_.load(std::memory_order_relaxed) != 0;
  }

  /// Barriers on those streams that use the block and are busy. Called
  /// without the lock: nobody else touches the extra of a block that is
  /// neither allocated nor free.
  ///
  /// A stream that holds a block back is taken to be busy without asking it.
  FenceList fence(const Block& block) {
    const bool ask = !any();
    FenceList fences;
    for (const StreamTag& stream : block.extra->uses) {
      if (auto event = backend_.fence(stream, ask)) {
        fences.push(std::make_unique<Fence>(std::move(*event), stream));
      }
    }
    return fences;
  }

  /// Makes sure that `hold` with these fences cannot fail.
  void reserve(const FenceList& fences) {
    for (const Fence* f = fences.first(); f != nullptr; f = f->next.get()) {
      if (queueOf(f->stream) == nullptr) {
        queues_.emplace_back(f->stream);
      }
    }
  }

  /// Holds a block back until the fences, of which there are some, are passed.
  void hold(Block* block, FenceList fences) noexcept {
    block->state = BlockState::Held;
    block->extra->pending = 0;
    add(1);
    while (!fences.empty()) {
      std::unique_ptr<Fence> fence = fences.pop();
      fence->block = block;
      ++block->extra->pending;
      queueOf(fence->stream)->fences.push(std::move(fence));
    }
  }

  /// Holds a block back until its streams are found idle.
  void abandon(Block* block) {
    abandoned_.push_back(block);
    block->state = BlockState::Held;
    add(1);
  }

  /// Takes out the abandoned blocks; they still count as held.
  std::vector<Block*> takeAbandoned() noexcept {
    return std::exchange(abandoned_, {});
  }
  void putBackAbandoned(const std::vector<Block*>& blocks) {
    abandoned_.insert(abandoned_.end(), blocks.begin(), blocks.end());
  }
  /// A block that was taken out is no longer counted.
  void forget() noexcept {
    add(-1);
  }

  /// The events that have not been seen complete.
  std::vector<Event> events() const {
    std::vector<Event> events;
    for (const Queue& queue : queues_) {
      for (const Fence* f = queue.fences.first(); f != nullptr;
           f = f->next.get()) {
        events.push_back(f->event);
      }
    }
    return events;
  }

  /// Calls release(block) for the held blocks that no stream uses any more.
  /// `completed` gets their fences, so that they are destroyed without the
  /// lock.
  template <class Release>
  void poll(FenceList& completed, Release release) {
    for (Queue& queue : queues_) {
      FenceList& fences = queue.fences;
      while (!fences.empty() && backend_.complete(fences.first()->event)) {
        std::unique_ptr<Fence> fence = fences.pop();
        Block* block = fence->block;
        completed.push(std::move(fence));
        if (--block->extra->pending == 0) {
          add(-1);
          release(block);
        }
      }
    }
    for (size_t i = 0; i < abandoned_.size();) {
      Block* block = abandoned_[i];
      if (allIdle(*block)) {
        abandoned_[i] = abandoned_.back();
        abandoned_.pop_back();
        add(-1);
        release(block);
      } else {
        ++i;
      }
    }
  }

 private:
  struct Queue {
    explicit Queue(StreamTag stream) : stream(stream) {}
    StreamTag stream;
    FenceList fences;
  };

  Queue* queueOf(const StreamTag& stream) noexcept {
    for (Queue& queue : queues_) {
      if (queue.stream == stream) {
        return &queue;
      }
    }
    return nullptr;
  }

  bool allIdle(const Block& block) noexcept {
    try {
      return std::all_of(
          block.extra->uses.begin(),
          block.extra->uses.end(),
          [this](const StreamTag& s) { return backend_.idle(s); });
    } catch (...) {
      return false; // it was reported when the block was abandoned
    }
  }

  // Only changed under the lock, so that load and store do.
  void add(int by) noexcept {
    count_.store(
        count_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  Backend& backend_;
  std::atomic<int> count_{0};
  std::vector<Queue> queues_; // one for each stream that ever held a block
  std::vector<Block*> abandoned_;
};

} // namespace c10::xpu::impl
