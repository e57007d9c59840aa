#include <c10/xpu/XPUMemoryTools.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace c10::xpu::XPUCachingAllocator {

namespace {

struct History {
  std::atomic<CreateContextFn> recorder{nullptr};
  std::atomic<RecordContext> when{RecordContext::NEVER};
  std::mutex mutex; // of what follows
  bool enabled = false;
  size_t max_entries = 0;
  std::set<TraceEvent::Action> skipped;
  std::vector<std::deque<TraceEntry>> by_device;
  std::unordered_map<int64_t, std::shared_ptr<GatheredContext>> in_use;
  std::vector<std::function<void(const TraceEvent&)>> trackers;
};

// Never destroyed: memory is freed while the process ends.
History& all = *new History;

void record(const TraceEvent& event) {
  using namespace std::chrono;
  // Without the lock, since it may wait for Python's. Other events than these
  // hold locks, or have no caller.
  const RecordContext when = all.when;
  const bool gathers = event.action == TraceEvent::FREE_REQUESTED
      ? when >= RecordContext::ALL
      : when >= RecordContext::STATE &&
          (event.action == TraceEvent::ALLOC ||
           event.action == TraceEvent::OOM);
  const CreateContextFn recorder = gathers ? all.recorder.load() : nullptr;
  auto context = recorder != nullptr ? recorder() : nullptr;
  const std::lock_guard<std::mutex> guard(all.mutex);
  for (const auto& tracker : all.trackers) {
    tracker(event);
  }
  if (event.action == TraceEvent::ALLOC && context) {
    all.in_use[event.addr] = context;
  } else if (event.action == TraceEvent::FREE_COMPLETED) {
    all.in_use.erase(event.addr);
  }
  if (!all.enabled || all.skipped.count(event.action) != 0) {
    return;
  }
  const auto device = static_cast<size_t>(event.device);
  all.by_device.resize(std::max(all.by_device.size(), device + 1));
  const auto now = system_clock::now().time_since_epoch();
  auto& entries = all.by_device[device];
  entries.push_back(
      {event,
       duration_cast<microseconds>(now).count(),
       when >= RecordContext::ALLOC ? std::move(context) : nullptr});
  while (entries.size() > all.max_entries) {
    entries.pop_front();
  }
}

} // namespace

void recordHistory(
    bool enabled,
    CreateContextFn context_recorder,
    size_t max_entries,
    RecordContext when,
    bool clear,
    const std::vector<TraceEvent::Action>& skipped) {
  const std::lock_guard<std::mutex> guard(all.mutex);
  const bool was_enabled = std::exchange(all.enabled, enabled);
  all.when = enabled ? when : RecordContext::NEVER;
  if (enabled) {
    all.recorder = context_recorder;
    all.max_entries = max_entries;
    all.skipped = {skipped.begin(), skipped.end()};
    if (clear) {
      all.by_device.clear();
    }
    if (clear || !was_enabled) { // else blocks may have changed unseen
      all.in_use.clear();
    }
  }
  setTrace(enabled || !all.trackers.empty() ? &record : nullptr);
}

bool isHistoryEnabled() {
  const std::lock_guard<std::mutex> guard(all.mutex);
  return all.enabled;
}

void attachTracker(std::function<void(const TraceEvent&)> tracker) {
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.trackers.push_back(std::move(tracker));
  setTrace(&record);
}

std::vector<std::deque<TraceEntry>> traces() {
  const std::lock_guard<std::mutex> guard(all.mutex);
  return all.by_device;
}

std::shared_ptr<GatheredContext> contextOf(int64_t addr) {
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.in_use.find(addr);
  return found == all.in_use.end() ? nullptr : found->second;
}

} // namespace c10::xpu::XPUCachingAllocator
