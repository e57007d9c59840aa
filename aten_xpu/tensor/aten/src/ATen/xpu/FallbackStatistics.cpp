#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/FallbackOperator.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace at::xpu {

namespace {

struct Counters {
  std::mutex mutex;
  std::map<std::string, detail::FallbackCounter> by_name;
};

Counters& counters() {
  static auto* const all = new Counters(); // threads may outlive statics
  return *all;
}

} // namespace

detail::FallbackCounter& detail::fallbackCounter(const std::string& name) {
  auto& all = counters();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.by_name[name];
}

std::vector<FallbackCount> fallbackStatistics() {
  auto& all = counters();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<FallbackCount> counts;
  for (const auto& entry : all.by_name) {
    const auto& counter = entry.second;
    if (const uint64_t calls = counter.calls.load(std::memory_order_relaxed)) {
      counts.push_back(
          {entry.first,
           calls,
           counter.bytes_copied.load(std::memory_order_relaxed)});
    }
  }
  return counts;
}

void resetFallbackStatistics() {
  auto& all = counters();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& entry : all.by_name) {
    entry.second.calls.store(0, std::memory_order_relaxed);
    entry.second.bytes_copied.store(0, std::memory_order_relaxed);
  }
}

} // namespace at::xpu
