#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemoryTools.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The history of memory as PyTorch's c10/xpu/XPUCachingAllocator.h declares it:
// what XPUMemoryTools.h has, in the types that PyTorch has for all devices.

namespace c10::xpu::XPUCachingAllocator {

namespace stock = c10::CachingDeviceAllocator;

struct AllocatorConfigInfo {
  bool expandable_segments;
  std::string last_allocator_settings;
};

struct SnapshotInfo {
  std::vector<stock::SegmentInfo> segments;
  std::vector<std::vector<stock::TraceEntry>> device_traces;
  AllocatorConfigInfo config_metadata;
};

C10_XPU_API void recordHistory(
    bool enabled,
    stock::CreateContextFn context_recorder,
    size_t max_entries,
    stock::RecordContext when,
    bool clear,
    const std::vector<std::string>& skipped);
C10_XPU_API void attachAllocatorTraceTracker(
    stock::AllocatorTraceTracker tracker);
/// Differs from the runtime's own in the reference alone, so that it is not in
/// a header of ours.
C10_XPU_API SnapshotInfo snapshot(MempoolId_t mempool_id);

namespace {

constexpr std::pair<TraceEvent::Action, stock::TraceEntry::Action> kActions[] =
    {{TraceEvent::ALLOC, stock::TraceEntry::ALLOC},
     {TraceEvent::FREE_REQUESTED, stock::TraceEntry::FREE_REQUESTED},
     {TraceEvent::FREE_COMPLETED, stock::TraceEntry::FREE_COMPLETED},
     {TraceEvent::SEGMENT_ALLOC, stock::TraceEntry::SEGMENT_ALLOC},
     {TraceEvent::SEGMENT_FREE, stock::TraceEntry::SEGMENT_FREE},
     {TraceEvent::OOM, stock::TraceEntry::OOM},
     {TraceEvent::SNAPSHOT, stock::TraceEntry::SNAPSHOT}};

/// What the recorder of code outside gathered.
struct Context final : GatheredContext {
  explicit Context(std::shared_ptr<c10::GatheredContext> from)
      : outer(std::move(from)) {}
  std::shared_ptr<c10::GatheredContext> outer;
};

std::atomic<stock::CreateContextFn> recorder{nullptr};

std::shared_ptr<GatheredContext> gather() {
  auto outer = recorder.load()();
  return outer ? std::make_shared<Context>(std::move(outer)) : nullptr;
}

/// Null for what Python gathered, which only Python can read.
std::shared_ptr<c10::GatheredContext> outerOf(
    const std::shared_ptr<GatheredContext>& context) {
  const auto* found = dynamic_cast<const Context*>(context.get());
  return found ? found->outer : nullptr;
}

void* queueOf(int64_t device, int64_t stream) {
  return stream == kExternalStreams
      ? nullptr
      : impl::findUsedQueue(static_cast<DeviceIndex>(device), stream);
}

stock::TraceEntry entryOf(
    const TraceEvent& event,
    std::shared_ptr<c10::GatheredContext> context = nullptr) {
  auto action = stock::TraceEntry::SNAPSHOT;
  for (const auto& [ours, theirs] : kActions) {
    action = ours == event.action ? theirs : action;
  }
  return {
      action,
      static_cast<DeviceIndex>(event.device),
      static_cast<size_t>(event.addr),
      static_cast<size_t>(event.size),
      queueOf(event.device, event.stream),
      event.pool,
      c10::getApproximateTime(),
      std::move(context)};
}

stock::SegmentInfo segmentOf(const SegmentInfo& from) {
  stock::SegmentInfo to;
  to.device = static_cast<DeviceIndex>(from.device);
  to.address = static_cast<size_t>(from.address);
  to.total_size = static_cast<size_t>(from.total_size);
  to.requested_size = static_cast<size_t>(from.requested_size);
  to.allocated_size = static_cast<size_t>(from.allocated_size);
  to.active_size = static_cast<size_t>(from.active_size);
  to.stream = queueOf(from.device, from.stream);
  to.is_large = from.is_large;
  to.owner_private_pool_id = from.owner_private_pool_id;
  int64_t address = from.address;
  for (const auto& block : from.blocks) {
    auto& info = to.blocks.emplace_back();
    info.size = static_cast<size_t>(block.size);
    info.requested_size = static_cast<size_t>(block.requested_size);
    info.allocated = block.allocated;
    info.active = block.active;
    if (block.active) {
      info.context_when_allocated = outerOf(contextOf(address));
    }
    address += block.size;
  }
  return to;
}

} // namespace

void recordHistory(
    bool enabled,
    stock::CreateContextFn context_recorder,
    size_t max_entries,
    stock::RecordContext when,
    bool clear,
    const std::vector<std::string>& skipped) {
  std::vector<TraceEvent::Action> actions;
  for (const auto& name : skipped) {
    const auto action = stock::parseTraceEntryAction(name);
    for (const auto& [ours, theirs] : kActions) { // others never happen
      if (theirs == action) {
        actions.push_back(ours);
      }
    }
  }
  if (context_recorder) {
    recorder = context_recorder;
  }
  recordHistory(
      enabled,
      context_recorder ? &gather : nullptr,
      max_entries,
      static_cast<RecordContext>(when),
      clear,
      actions);
}

void attachAllocatorTraceTracker(stock::AllocatorTraceTracker tracker) {
  attachTracker([tracker = std::move(tracker)](const TraceEvent& event) {
    tracker(entryOf(event));
  });
}

SnapshotInfo snapshot(MempoolId_t mempool_id) {
  using Own = std::vector<SegmentInfo>(const MempoolId_t&);
  SnapshotInfo result;
  for (const auto& segment : static_cast<Own*>(&snapshot)(mempool_id)) {
    result.segments.push_back(segmentOf(segment));
  }
  for (const auto& entries : traces()) {
    auto& trace = result.device_traces.emplace_back();
    for (const auto& entry : entries) {
      trace.push_back(entryOf(entry, outerOf(entry.context)));
      trace.back().time_.t_ = entry.time_us; // as PyTorch's snapshot has it
    }
  }
  result.device_traces.resize(device_count());
  const char* settings = std::getenv("PYTORCH_XPU_ALLOC_CONF");
  result.config_metadata.expandable_segments = false;
  result.config_metadata.last_allocator_settings =
      settings ? settings : c10::CachingAllocator::getAllocatorSettings();
  return result;
}

} // namespace c10::xpu::XPUCachingAllocator
