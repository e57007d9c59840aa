#pragma once

#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace c10::xpu::test {

inline XPUStream fakeStream(StreamId id, DeviceIndex device = 0) {
  return XPUStream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device), id));
}

/// Stands in for the SYCL runtime under the core of the caching allocator.
/// Memory is nothing but addresses. Streams hold work that names the memory it
/// uses; it is done when the test says so, or when somebody waits for it. To
/// give memory back that pending work uses raises, and is kept in `misuse`.
class FakeBackend final : public impl::MemoryBackend {
 public:
  enum class Fault { None, Allocate, Deallocate, Fence, Complete, Wait };

  explicit FakeBackend(const impl::AllocatorConfig& options = {}) {
    config = options;
  }

  /// Bytes that each device can really give.
  size_t capacity = size_t{64} << 30;

  void* allocate(DeviceIndex device, size_t size) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Allocate);
    if (used_[device] + size > capacity) {
      return nullptr;
    }
    // First fit, so that addresses are used again and segments touch.
    uintptr_t address = uintptr_t{1} << 40;
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

  void deallocate(DeviceIndex device, void* ptr) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Deallocate);
    const auto segment = segments_.find(reinterpret_cast<uintptr_t>(ptr));
    check(
        segment != segments_.end() && segment->second.first == device,
        "memory is given back that is not allocated");
    const uintptr_t end = segment->first + segment->second.second;
    for (auto& stream : streams_) {
      for (const Work& work : stream.second.pending) {
        check(
            work.memory < segment->first || work.memory >= end,
            "memory is given back with work pending");
      }
    }
    used_[device] -= segment->second.second;
    segments_.erase(segment);
  }

  impl::Fence fence(const impl::StreamUse& use) override {
    const std::lock_guard<std::mutex> guard(mutex_);
    fault(Fault::Fence);
    FakeStream& fake = streams_[key(use.stream)];
    if (fake.pending.empty()) {
      return nullptr;
    }
    ++num_fences_;
    fake.pending.push_back({++fake.enqueued, 0, false});
    return [this, &fake, number = fake.enqueued](bool wait) {
      return passed(fake, number, wait);
    };
  }

  void makeQueue(XPUStream) override {}
  optional<sycl::queue> externalQueue(XPUStream) override {
    return nullopt;
  }
  std::string outOfMemory(impl::DeviceAllocator&, size_t) override {
    return "out of memory";
  }

  // ---- for tests ----

  std::string misuse;

  /// Enqueues work that uses the memory at `ptr`. A host task is not done
  /// before the test finishes it, and neither is what comes after it.
  void enqueue(
      XPUStream stream,
      const void* ptr = nullptr,
      bool host_task = false) {
    const std::lock_guard<std::mutex> guard(mutex_);
    FakeStream& fake = streams_[key(stream)];
    fake.pending.push_back(
        {++fake.enqueued, reinterpret_cast<uintptr_t>(ptr), host_task});
  }
  /// Finishes the oldest `count` pieces of work.
  void finish(XPUStream stream, uint64_t count = ~uint64_t{0}) {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& pending = streams_[key(stream)].pending;
    const auto n = std::min<uint64_t>(count, pending.size());
    pending.erase(pending.begin(), pending.begin() + static_cast<int64_t>(n));
  }
  /// The number of the last piece of work, and of the last that is done.
  std::pair<uint64_t, uint64_t> progress(XPUStream stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const FakeStream& fake = streams_[key(stream)];
    return {fake.enqueued, fake.finished()};
  }
  bool heldByHost(XPUStream stream) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const FakeStream& fake = streams_[key(stream)];
    return fake.heldByHost(fake.enqueued);
  }
  /// The call number `after` (from 0) of that kind fails, and no other.
  void inject(Fault kind, int after = 0) {
    const std::lock_guard<std::mutex> guard(mutex_);
    fault_ = kind;
    fault_after_ = after;
  }
  /// Whether a fault was still to come.
  bool clearFault() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return std::exchange(fault_, Fault::None) != Fault::None;
  }
  /// Device and size by address.
  std::map<uintptr_t, std::pair<DeviceIndex, size_t>> segments() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return segments_;
  }
  size_t available(DeviceIndex device) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return capacity - used_[device];
  }
  uint64_t numFences() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return num_fences_;
  }

 private:
  struct Work {
    uint64_t number;
    uintptr_t memory;
    bool host_task;
  };
  struct FakeStream {
    uint64_t enqueued = 0;
    std::deque<Work> pending;

    uint64_t finished() const {
      return pending.empty() ? enqueued : pending.front().number - 1;
    }
    bool heldByHost(uint64_t number) const {
      return std::any_of(pending.begin(), pending.end(), [&](const Work& w) {
        return w.host_task && w.number <= number;
      });
    }
  };
  bool passed(FakeStream& fake, uint64_t number, bool wait) {
    const std::lock_guard<std::mutex> guard(mutex_);
    fault(wait ? Fault::Wait : Fault::Complete);
    if (wait && !fake.heldByHost(number)) {
      while (fake.finished() < number) {
        fake.pending.pop_front();
      }
    }
    return fake.finished() >= number;
  }
  static std::pair<DeviceIndex, StreamId> key(XPUStream stream) {
    return {stream.device_index(), stream.id()};
  }
  void fault(Fault kind) {
    if (fault_ == kind && fault_after_-- == 0) {
      fault_ = Fault::None;
      TORCH_CHECK(false, "injected fault");
    }
  }
  void check(bool ok, const char* what) {
    if (!ok) {
      misuse = what;
      TORCH_CHECK(false, what);
    }
  }

  mutable std::mutex mutex_;
  std::map<uintptr_t, std::pair<DeviceIndex, size_t>> segments_;
  std::map<DeviceIndex, size_t> used_;
  std::map<std::pair<DeviceIndex, StreamId>, FakeStream> streams_;
  Fault fault_ = Fault::None;
  int fault_after_ = 0;
  uint64_t num_fences_ = 0;
};

} // namespace c10::xpu::test
