#pragma once

#include <c10/util/SmallVector.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace c10::xpu::impl {

/// The blocks of an arena that were freed but are held back, see
/// Note [Cross-stream use]. A block first waits for a fence, then it is in a
/// batch that has one. Guarded by the arena's lock, but for `any`, `anyFenced`
/// and `fence`.
/// Blocks are linked by their bin_next.
template <class Backend>
class HeldBlocks final {
 public:
  using Event = typename Backend::Event;
  using Events = c10::SmallVector<Event, 2>;
  using Uses = std::vector<StreamTag>;

  /// Blocks that the same streams use, and what they wait for.
  struct Batch {
    Block* blocks = nullptr;
    Events events; // one for each stream that was busy
    size_t passed = 0; // events that are complete
    std::unique_ptr<Batch> next;
  };

  /// Batches in the order of time.
  class BatchList {
   public:
    BatchList() = default;
    BatchList(BatchList&& other) noexcept
        : first_(std::move(other.first_)),
          last_(std::exchange(other.last_, nullptr)) {}
    BatchList& operator=(BatchList&& other) noexcept {
      std::swap(first_, other.first_);
      std::swap(last_, other.last_);
      return *this;
    }
    // Not by the batches' destructors: they would recurse through a long list.
    ~BatchList() {
      while (!empty()) {
        pop();
      }
    }

    bool empty() const noexcept {
      return first_ == nullptr;
    }
    Batch* first() const noexcept {
      return first_.get();
    }
    void push(std::unique_ptr<Batch> batch) noexcept {
      Batch* added = batch.get();
      (last_ == nullptr ? first_ : last_->next) = std::move(batch);
      last_ = added;
    }
    std::unique_ptr<Batch> pop() noexcept {
      std::unique_ptr<Batch> batch = std::move(first_);
      first_ = std::move(batch->next);
      if (first_ == nullptr) {
        last_ = nullptr;
      }
      return batch;
    }

   private:
    std::unique_ptr<Batch> first_;
    Batch* last_ = nullptr;
  };

  explicit HeldBlocks(Backend& backend) : backend_(backend) {}

  /// False if no block is held. What it says may be over already.
  bool any() const noexcept {
    return count_.load(std::memory_order_relaxed) != 0;
  }

  /// The same for blocks that have a fence.
  bool anyFenced() const noexcept {
    return batches_.load(std::memory_order_relaxed) != 0;
  }

  /// Lets a block wait for a fence. Whether there should be one now.
  bool add(Block* block) noexcept {
    block->state = BlockState::Held;
    block->bin_next = waiting_;
    waiting_ = block;
    ++waiting_blocks_;
    waiting_bytes_ += block->size;
    count(1);
    const Uses& uses = block->extra->uses;
    return waiting_blocks_ >= kMostWaiting ||
        waiting_bytes_ >= kMostWaitingBytes ||
        !std::all_of(uses.begin(), uses.end(), [this](const StreamTag& s) {
             return backend_.lasting(s);
           });
  }

  /// Takes out the blocks that wait for a fence; they still count as held.
  Block* takeWaiting() noexcept {
    waiting_blocks_ = 0;
    waiting_bytes_ = 0;
    return std::exchange(waiting_, nullptr);
  }

  void putBack(Block* waiting) noexcept {
    while (waiting != nullptr) {
      Block* block = std::exchange(waiting, waiting->bin_next);
      count(-1);
      add(block);
    }
  }

  /// Events after all that is enqueued on those of the streams that are busy.
  /// Called without the lock. While batches are pending, streams are taken to
  /// be busy without being asked.
  Events fence(const Uses& uses) {
    const bool ask = !anyFenced();
    Events events;
    for (const StreamTag& stream : uses) {
      if (auto event = backend_.fence(stream, ask)) {
        events.push_back(std::move(*event));
      }
    }
    return events;
  }

  /// Takes the blocks out of a list that the streams of its first one use, and
  /// no other.
  static Block* takeAlike(Block*& list) noexcept {
    const Uses& uses = list->extra->uses;
    Block* alike = nullptr;
    Block* rest = nullptr;
    while (list != nullptr) {
      Block* block = std::exchange(list, list->bin_next);
      Block*& place = block->extra->uses == uses ? alike : rest;
      block->bin_next = std::exchange(place, block);
    }
    list = rest;
    return alike;
  }

  /// Holds takeAlike(list) back until the events, of which there are some, are
  /// complete. May throw std::bad_alloc and then has changed nothing.
  void hold(Block*& list, Events events) {
    auto batch = std::make_unique<Batch>();
    batch->events = std::move(events);
    Line& line = lineOf(list->extra->uses);
    batch->blocks = takeAlike(list);
    line.batches.push(std::move(batch));
    countBatch(1);
  }

  /// A block that was taken out is no longer held.
  void forget() noexcept {
    count(-1);
  }

  /// The events that have not been seen complete.
  std::vector<Event> events() const {
    std::vector<Event> events;
    for (const Line& line : lines_) {
      for (const Batch* b = line.batches.first(); b != nullptr;
           b = b->next.get()) {
        events.insert(
            events.end(), b->events.begin() + b->passed, b->events.end());
      }
    }
    return events;
  }

  /// Calls release(block) for the held blocks that no stream uses any more.
  /// `completed` gets their batches, so that the events are destroyed without
  /// the lock.
  template <class Release>
  void poll(BatchList& completed, Release release) {
    for (Line& line : lines_) {
      while (!line.batches.empty() && isComplete(*line.batches.first())) {
        std::unique_ptr<Batch> batch = line.batches.pop();
        countBatch(-1);
        Block* list = std::exchange(batch->blocks, nullptr);
        completed.push(std::move(batch));
        while (list != nullptr) {
          Block* block = std::exchange(list, list->bin_next);
          count(-1);
          release(block);
        }
      }
    }
    if (lines_.size() > kKeptLines) {
      lines_.erase(
          std::remove_if(
              lines_.begin(),
              lines_.end(),
              [](const Line& line) { return line.batches.empty(); }),
          lines_.end());
    }
  }

 private:
  // One fence for so many blocks, or for so many bytes.
  static constexpr size_t kMostWaiting = 8;
  static constexpr size_t kMostWaitingBytes = size_t{16} << 20;
  static constexpr size_t kKeptLines = 16;

  /// The batches of the same streams: where one is not complete no later one
  /// is.
  struct Line {
    Uses uses;
    BatchList batches;
  };

  Line& lineOf(const Uses& uses) {
    for (Line& line : lines_) {
      if (line.uses == uses) {
        return line;
      }
    }
    lines_.push_back({uses, {}});
    return lines_.back();
  }

  bool isComplete(Batch& batch) {
    while (batch.passed < batch.events.size() &&
           backend_.complete(batch.events[batch.passed])) {
      ++batch.passed;
    }
    return batch.passed == batch.events.size();
  }

  // Only changed under the lock, so that load and store do.
  void count(int by) noexcept {
    count_.store(
        count_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void countBatch(int by) noexcept {
    batches_.store(
        batches_.load(std::memory_order_relaxed) + by,
        std::memory_order_relaxed);
  }

  Backend& backend_;
  std::atomic<int> count_{0};
  std::atomic<int> batches_{0};
  Block* waiting_ = nullptr;
  size_t waiting_blocks_ = 0;
  size_t waiting_bytes_ = 0;
  std::vector<Line> lines_;
};

} // namespace c10::xpu::impl
