#pragma once

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

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
/// Each device keeps its last `max_entries` events of actions not `skipped`.
C10_XPU_API void recordHistory(
    bool enabled,
    CreateContextFn context_recorder,
    size_t max_entries,
    RecordContext when,
    bool clear = true,
    const std::vector<TraceEvent::Action>& skipped = {});
C10_XPU_API bool isHistoryEnabled();
/// Calls `tracker` as a TraceFn is called, recording or not, until the end.
C10_XPU_API void attachTracker(std::function<void(const TraceEvent&)> tracker);
/// The recorded events by device, oldest first.
C10_XPU_API std::vector<std::deque<TraceEntry>> traces();
/// Where the block in use at an address was allocated, or null.
C10_XPU_API std::shared_ptr<GatheredContext> contextOf(int64_t addr);

/// Returns memory of the device for use on the queue, or null. In bytes.
using AllocFn = void*(size_t size, int device, sycl::queue* queue);
/// Frees them; the queue may still have work that uses them.
using FreeFn = void(void* ptr, size_t size, int device, sycl::queue* queue);

/// An allocator of the user's: calls the two functions, from any thread.
/// Nothing is cached: recordStream and emptyCache do nothing.
class PluggableAllocator final : public XPUAllocator {
 public:
  PluggableAllocator(std::function<AllocFn> alloc, std::function<FreeFn> free)
      : alloc_(std::move(alloc)), free_(std::move(free)) {}

  void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) override {
    check_device_index(stream.device_index()); // raises in a forked child
    if (nbytes == 0) {
      return nullptr;
    }
    void* const ptr = alloc_(nbytes, stream.device_index(), &stream.queue());
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        ptr,
        c10::str("The pluggable XPU allocator has no memory for ", nbytes),
        c10::str(" bytes on ", stream.device()));
    const std::lock_guard<std::mutex> guard(mutex_);
    blocks_.emplace(ptr, std::make_pair(nbytes, stream));
    return ptr;
  }

  void raw_delete(void* ptr) override {
    if (ptr == nullptr || is_in_bad_fork()) {
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const auto block = blocks_.extract(ptr);
    lock.unlock();
    TORCH_CHECK(
        block,
        c10::str("invalid XPU pointer: ", ptr, " was not allocated"),
        " by the pluggable XPU allocator");
    const auto [size, stream] = block.mapped();
    free_(ptr, size, stream.device_index(), &stream.queue());
  }

  void recordStream(const DataPtr& /*ptr*/, XPUStream /*stream*/) override {}
  void emptyCache(MempoolId_t /*mempool_id*/) override {}

 private:
  const std::function<AllocFn> alloc_;
  const std::function<FreeFn> free_;
  std::mutex mutex_;
  std::unordered_map<void*, std::pair<size_t, XPUStream>> blocks_;
};

/// Makes an allocator the current one, until the process ends. Raises if the
/// devices were initialized with another, which would own memory.
inline void changeCurrentAllocator(
    const std::shared_ptr<XPUAllocator>& allocator) {
  TORCH_CHECK(allocator, "The XPU allocator cannot be null");
  set(allocator.get());
  // Its memory may be freed while the process ends.
  [[maybe_unused]] static auto& kept =
      *new std::shared_ptr<XPUAllocator>(allocator);
}

} // namespace c10::xpu::XPUCachingAllocator
