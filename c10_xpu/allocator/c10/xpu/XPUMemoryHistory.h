#pragma once

#include <c10/xpu/XPUCachingAllocator.h>

#include <functional>
#include <memory>
#include <vector>

/// Records what the caching allocator does, and from where, as
/// torch.xpu.memory._record_memory_history asks for it. While nothing is
/// recorded, the allocator pays one load for it.

namespace c10::xpu::XPUCachingAllocator {

/// When the place of the call is gathered.
enum class RecordContext {
  NEVER = 0,
  STATE = 1, // for the blocks in use
  ALLOC = 2, // also for the trace of allocations
  ALL = 3 // also for frees
};

/// Where an event came from, as the recorder sees it.
struct GatheredContext {
  virtual ~GatheredContext() = default;
};

/// Called by who allocates or frees, without locks; may return null.
using CreateContextFn = std::shared_ptr<GatheredContext> (*)();

struct TraceEntry : TraceEvent {
  int64_t time_us; // since the epoch
  std::shared_ptr<GatheredContext> context;
};

/// Starts or stops recording. Starting forgets what was recorded if `clear`.
/// Each device keeps its last `max_entries` events, of actions that are not in
/// `skipped`.
C10_XPU_API void recordHistory(
    bool enabled,
    CreateContextFn context_recorder,
    size_t max_entries,
    RecordContext when,
    bool clear = true,
    const std::vector<TraceEvent::Action>& skipped = {});
/// Calls `tracker` as a TraceFn is called, whether a history is recorded or
/// not, until the process ends.
C10_XPU_API void attachTracker(std::function<void(const TraceEvent&)> tracker);
/// The recorded events by device, oldest first.
C10_XPU_API std::vector<std::vector<TraceEntry>> traces();
/// Where the block in use at an address was allocated, or null.
C10_XPU_API std::shared_ptr<GatheredContext> contextOf(int64_t addr);

} // namespace c10::xpu::XPUCachingAllocator
