#include <c10/xpu/XPUMemoryHistory.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace c10::xpu::XPUCachingAllocator {

namespace {

struct History {
  std::mutex mutex;
  bool enabled = false;
  CreateContextFn recorder = nullptr;
  size_t max_entries = 0;
  RecordContext when = RecordContext::NEVER;
  std::vector<std::deque<TraceEntry>> by_device;
  std::unordered_map<int64_t, std::shared_ptr<GatheredContext>> in_use;
};

// Never destroyed: memory is freed while the process ends.
History& history() {
  static auto* instance = new History;
  return *instance;
}

// Events of segments come with the allocator's locks held, and the end of a
// free has no caller of its own.
bool hasContext(TraceEvent::Action action, RecordContext when) {
  switch (action) {
    case TraceEvent::ALLOC:
    case TraceEvent::OOM:
      return when >= RecordContext::STATE;
    case TraceEvent::FREE_REQUESTED:
      return when >= RecordContext::ALL;
    default:
      return false;
  }
}

void record(const TraceEvent& event) {
  using namespace std::chrono;
  History& all = history();
  CreateContextFn recorder = nullptr;
  RecordContext when = RecordContext::NEVER;
  {
    const std::lock_guard<std::mutex> guard(all.mutex);
    recorder = all.recorder;
    when = all.when;
  }
  // Without the lock: it runs code of others.
  auto context = recorder != nullptr && hasContext(event.action, when)
      ? recorder()
      : nullptr;

  const std::lock_guard<std::mutex> guard(all.mutex);
  if (!all.enabled) {
    return;
  }
  if (event.action == TraceEvent::ALLOC && context) {
    all.in_use[event.addr] = context;
  } else if (event.action == TraceEvent::FREE_COMPLETED) {
    all.in_use.erase(event.addr);
  }
  if (all.max_entries == 0) {
    return;
  }
  if (when < RecordContext::ALLOC) {
    context = nullptr;
  }
  const auto device = static_cast<size_t>(event.device);
  if (all.by_device.size() <= device) {
    all.by_device.resize(device + 1);
  }
  auto& entries = all.by_device[device];
  if (entries.size() == all.max_entries) {
    entries.pop_front();
  }
  const auto now = system_clock::now().time_since_epoch();
  entries.push_back(
      {event, duration_cast<microseconds>(now).count(), std::move(context)});
}

} // namespace

void recordHistory(
    bool enabled,
    CreateContextFn context_recorder,
    size_t max_entries,
    RecordContext when) {
  History& all = history();
  {
    const std::lock_guard<std::mutex> guard(all.mutex);
    all.enabled = enabled;
    if (enabled) {
      all.recorder = context_recorder;
      all.max_entries = max_entries;
      all.when = when;
      all.by_device.clear();
      all.in_use.clear();
    }
  }
  setTrace(enabled ? &record : nullptr);
}

bool isHistoryEnabled() {
  const std::lock_guard<std::mutex> guard(history().mutex);
  return history().enabled;
}

std::vector<std::vector<TraceEntry>> traces() {
  const std::lock_guard<std::mutex> guard(history().mutex);
  std::vector<std::vector<TraceEntry>> result;
  for (const auto& entries : history().by_device) {
    result.emplace_back(entries.begin(), entries.end());
  }
  return result;
}

std::shared_ptr<GatheredContext> contextOf(int64_t addr) {
  const std::lock_guard<std::mutex> guard(history().mutex);
  const auto found = history().in_use.find(addr);
  return found == history().in_use.end() ? nullptr : found->second;
}

} // namespace c10::xpu::XPUCachingAllocator
