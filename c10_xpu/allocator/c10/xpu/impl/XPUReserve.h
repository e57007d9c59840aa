#pragma once

#include <c10/xpu/XPUAllocatorStats.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>

namespace c10::xpu::impl {

/// What a device has from the runtime: its segments, how many bytes they may be
/// at most, and their statistics. Thread safe; no other lock is taken under its
/// own.
class Reserve final {
 public:
  using Stat = XPUCachingAllocator::Stat;
  using StatArray = XPUCachingAllocator::StatArray;
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  /// Segments and blocks of `max_split_size` and more are oversize.
  explicit Reserve(size_t max_split_size) : max_split_size_(max_split_size) {}

  void setLimit(size_t limit) noexcept {
    limit_ = limit;
  }
  size_t limit() const noexcept {
    return limit_;
  }

  /// Whether the limit allows for that many bytes more. Until `gave` or
  /// `refused` they count as if they were there.
  bool ask(size_t size) {
    std::lock_guard<std::mutex> guard(mutex_);
    const size_t reserved = reserved_bytes_[0].current + asked_for_;
    const size_t limit = limit_;
    if (reserved > limit || size > limit - reserved) {
      return false;
    }
    asked_for_ += size;
    return true;
  }

  /// The runtime gave what was asked for. May throw std::bad_alloc and then has
  /// changed nothing.
  void gave(const void* ptr, size_t size, Pool pool) {
    std::lock_guard<std::mutex> guard(mutex_);
    owned_.emplace(reinterpret_cast<uintptr_t>(ptr), size);
    asked_for_ -= size;
    count(pool, 1, size);
  }

  void refused(size_t size) {
    std::lock_guard<std::mutex> guard(mutex_);
    asked_for_ -= size;
  }

  /// A segment is about to go back to the runtime.
  void remove(const void* ptr, size_t size, Pool pool) {
    std::lock_guard<std::mutex> guard(mutex_);
    owned_.erase(reinterpret_cast<uintptr_t>(ptr));
    count(pool, -1, size);
  }

  /// It did not.
  void putBack(const void* ptr, size_t size, Pool pool) {
    std::lock_guard<std::mutex> guard(mutex_);
    owned_.emplace(reinterpret_cast<uintptr_t>(ptr), size);
    count(pool, 1, size);
  }

  /// An oversize block was allocated (1) or freed (-1).
  void countOversizeBlock(int64_t by) {
    std::lock_guard<std::mutex> guard(mutex_);
    update(oversize_allocations_, by);
  }
  void countRetry() {
    std::lock_guard<std::mutex> guard(mutex_);
    ++num_alloc_retries_;
  }
  void countOutOfMemory() {
    std::lock_guard<std::mutex> guard(mutex_);
    ++num_ooms_;
  }

  size_t bytes() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return static_cast<size_t>(reserved_bytes_[0].current);
  }

  /// Whether the address lies in a segment.
  bool owns(const void* ptr) const {
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    std::lock_guard<std::mutex> guard(mutex_);
    const auto above = owned_.upper_bound(address);
    if (above == owned_.begin()) {
      return false;
    }
    const auto it = std::prev(above);
    return address - it->first < it->second;
  }

  void read(XPUCachingAllocator::DeviceStats& stats) const {
    std::lock_guard<std::mutex> guard(mutex_);
    stats.segment = segments_;
    stats.reserved_bytes = reserved_bytes_;
    stats.oversize_allocations = oversize_allocations_;
    stats.oversize_segments = oversize_segments_;
    stats.num_alloc_retries = num_alloc_retries_;
    stats.num_ooms = num_ooms_;
    stats.max_split_size = static_cast<int64_t>(max_split_size_);
  }

  void resetPeak() {
    std::lock_guard<std::mutex> guard(mutex_);
    forEachStat([](Stat& stat) { stat.peak = stat.current; });
  }

  void resetAccumulated() {
    std::lock_guard<std::mutex> guard(mutex_);
    forEachStat([](Stat& stat) { stat.allocated = stat.freed = 0; });
    num_alloc_retries_ = 0;
    num_ooms_ = 0;
  }

 private:
  static void update(Stat& stat, int64_t by) {
    stat.current += by;
    stat.peak = std::max(stat.peak, stat.current);
    (by > 0 ? stat.allocated : stat.freed) += by > 0 ? by : -by;
  }

  void count(Pool pool, int64_t segments, size_t size) {
    for (const size_t kind : {size_t{0}, static_cast<size_t>(pool) + 1}) {
      update(segments_[kind], segments);
      update(reserved_bytes_[kind], segments * static_cast<int64_t>(size));
    }
    if (size >= max_split_size_) {
      update(oversize_segments_, segments);
    }
  }

  template <class F>
  void forEachStat(F f) {
    std::for_each(segments_.begin(), segments_.end(), f);
    std::for_each(reserved_bytes_.begin(), reserved_bytes_.end(), f);
    f(oversize_allocations_);
    f(oversize_segments_);
  }

  const size_t max_split_size_;
  std::atomic<size_t> limit_{kNoLimit};

  mutable std::mutex mutex_;
  std::map<uintptr_t, size_t> owned_;
  size_t asked_for_ = 0;
  StatArray segments_{};
  StatArray reserved_bytes_{};
  Stat oversize_allocations_;
  Stat oversize_segments_;
  int64_t num_alloc_retries_ = 0;
  int64_t num_ooms_ = 0;
};

} // namespace c10::xpu::impl
