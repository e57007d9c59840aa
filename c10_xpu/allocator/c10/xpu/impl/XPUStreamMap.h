#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace c10::xpu::impl {

/// From stream id to that stream's T, for one device. Entries are made on the
/// first request and never removed. `find` takes no lock: it probes an array of
/// atomic pointers. An array that has been outgrown is kept, for a reader may
/// still be in it; a reader that misses there takes the lock and looks again.
template <class T>
class StreamMap final {
 public:
  T* find(int64_t id) const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);
    return table == nullptr ? nullptr : table->find(id);
  }

  /// `make()` returns a std::unique_ptr<T> whose `stream().id` is `id`. It is
  /// called under the map's lock.
  template <class Make>
  T& findOrMake(int64_t id, Make make) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (T* present = find(id)) {
      return *present;
    }
    entries_.reserve(entries_.size() + 1);
    if (tables_.empty() ||
        2 * entries_.size() >= tables_.back()->slots.size()) {
      auto table = std::make_unique<Table>(
          tables_.empty() ? kFirstSize : 2 * tables_.back()->slots.size());
      for (const auto& entry : entries_) {
        table->insert(entry.get());
      }
      tables_.push_back(std::move(table));
      table_.store(tables_.back().get(), std::memory_order_release);
    }
    entries_.push_back(make());
    tables_.back()->insert(entries_.back().get());
    return *entries_.back();
  }

  /// All entries that there are now.
  std::vector<T*> all() const {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<T*> result;
    result.reserve(entries_.size());
    for (const auto& entry : entries_) {
      result.push_back(entry.get());
    }
    return result;
  }

  /// Calls visit(entry) for all entries, under the map's lock.
  template <class Visitor>
  void forEach(Visitor visit) const {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto& entry : entries_) {
      visit(*entry);
    }
  }

 private:
  static constexpr size_t kFirstSize = 16;

  struct Table {
    explicit Table(size_t size) : slots(size) {}

    // The multiplier is 2^64 divided by the golden ratio. At most half of the
    // slots are in use, so that a probe ends.
    static size_t hash(int64_t id) {
      return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> 32;
    }

    T* find(int64_t id) const noexcept {
      const size_t mask = slots.size() - 1;
      for (size_t i = hash(id) & mask;; i = (i + 1) & mask) {
        T* entry = slots[i].load(std::memory_order_acquire);
        if (entry == nullptr || entry->stream().id == id) {
          return entry;
        }
      }
    }

    void insert(T* entry) noexcept {
      const size_t mask = slots.size() - 1;
      size_t i = hash(entry->stream().id) & mask;
      while (slots[i].load(std::memory_order_relaxed) != nullptr) {
        i = (i + 1) & mask;
      }
      slots[i].store(entry, std::memory_order_release);
    }

    std::vector<std::atomic<T*>> slots;
  };

  mutable std::mutex mutex_;
  std::atomic<const Table*> table_{nullptr};
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<T>> entries_;
};

} // namespace c10::xpu::impl
