#pragma once

#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace c10::xpu::impl {

/// Stands in for the SYCL runtime under the core of the caching allocator.
/// Memory is nothing but addresses. Streams hold work that is finished when the
/// test says so, or when somebody waits for it.
class FakeBackend {
 public:
  struct Event {
    StreamTag stream{};
    uint64_t sequence = 0;
  };

  enum class Fault { None, Allocate, Deallocate, Idle, Record, Complete, Wait };

  size_t total_memory = size_t{64} << 30;
  /// What the device can really give, per device.
  size_t capacity = size_t{64} << 30;

  void* allocate(int device, size_t size) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Allocate);
    if (used_[device] + size > capacity) {
      return nullptr;
    }
    // First fit, so that addresses are used again and segments touch each
    // other: the worst case for the pool's books.
    uintptr_t address = kBase;
    for (const auto& segment : segments_) {
      if (segment.first - address >= size) {
        break;
      }
      address = segment.first + segment.second.second;
    }
    segments_.emplace(address, std::make_pair(device, size));
    used_[device] += size;
    return reinterpret_cast<void*>(address);
  }

  void deallocate(int device, void* ptr) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Deallocate);
    const auto it = segments_.find(reinterpret_cast<uintptr_t>(ptr));
    TORCH_INTERNAL_ASSERT(it != segments_.end() && it->second.first == device);
    used_[device] -= it->second.second;
    segments_.erase(it);
  }

  bool lasting(const StreamTag& stream) const {
    return stream.id != kExternalStream;
  }

  uint64_t progress() const {
    return progress_;
  }

  std::optional<Event> fence(const StreamTag& stream, bool ask) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Idle);
    Work& work = work_[key(stream)];
    if (ask && work.enqueued == work.finished) {
      return std::nullopt;
    }
    fault(Fault::Record);
    ++barriers_;
    return Event{stream, ++work.enqueued};
  }

  bool complete(const Event& event) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Complete);
    return work_[key(event.stream)].finished >= event.sequence;
  }

  void wait(const Event& event) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Wait);
    Work& work = work_[key(event.stream)];
    work.finished = std::max(work.finished, event.sequence);
  }

  size_t totalMemory(int /*device*/) const {
    return total_memory;
  }
  size_t freeMemory(int /*device*/) const {
    return 0;
  }

  // ---- for tests ----

  /// A stream that may be gone after the free of what it uses.
  static constexpr int64_t kExternalStream = 99;

  /// The program has seen work complete.
  void notice() {
    ++progress_;
  }

  void enqueue(StreamTag stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    ++work_[key(stream)].enqueued;
  }
  /// Finishes the oldest `count` pieces of work.
  void finish(StreamTag stream, uint64_t count) {
    std::lock_guard<std::mutex> guard(mutex_);
    Work& work = work_[key(stream)];
    work.finished = std::min(work.enqueued, work.finished + count);
  }
  /// The call number `after` (from 0) of that kind fails, and no other.
  void inject(Fault kind, int after = 0) {
    std::lock_guard<std::mutex> guard(mutex_);
    fault_ = kind;
    fault_after_ = after;
  }
  /// Whether a fault was still to come.
  bool clearFault() {
    std::lock_guard<std::mutex> guard(mutex_);
    return std::exchange(fault_, Fault::None) != Fault::None;
  }
  /// How much was enqueued on the stream, and how much of that is finished.
  std::pair<uint64_t, uint64_t> work(StreamTag stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    const Work& work = work_[key(stream)];
    return {work.enqueued, work.finished};
  }
  std::map<uintptr_t, std::pair<int, size_t>> segments() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return segments_;
  }
  uint64_t barriers() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return barriers_;
  }

 private:
  struct Work {
    uint64_t enqueued = 0;
    uint64_t finished = 0;
  };
  static constexpr uintptr_t kBase = uintptr_t{1} << 40;

  static std::pair<int, int64_t> key(const StreamTag& stream) {
    return {stream.device, stream.id};
  }

  void fault(Fault kind) {
    if (fault_ == kind && fault_after_-- == 0) {
      fault_ = Fault::None;
      TORCH_CHECK(false, "injected fault");
    }
  }

  mutable std::mutex mutex_;
  std::map<uintptr_t, std::pair<int, size_t>> segments_;
  std::map<int, size_t> used_;
  std::map<std::pair<int, int64_t>, Work> work_;
  Fault fault_ = Fault::None;
  int fault_after_ = 0;
  uint64_t barriers_ = 0;
  std::atomic<uint64_t> progress_{0};
};

} // namespace c10::xpu::impl
