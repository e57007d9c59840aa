#pragma once

#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What XPU's operators do and when, for a profiler. Work that other code
// submits to a queue is not seen.

namespace at::xpu::detail {

struct WorkRecord {
  std::string name;
  c10::xpu::XPUStream stream;
  size_t nbytes; // copied; 0 for what is not a copy
  uint64_t correlation; // of the thread that began it
  int64_t begin = 0; // nanoseconds since the epoch
  int64_t end = 0;
};

/// Starts to record what begins from now on. One at a time.
C10_EXPORT void startRecordingWork();

/// Waits for what was recorded and returns it. It waits on no stream if nothing
/// was.
C10_EXPORT std::vector<WorkRecord> stopRecordingWork();

/// What this thread's work belongs to, from now on. Returns what it was.
C10_EXPORT uint64_t exchangeWorkCorrelation(uint64_t correlation);

/// Records the work of a scope: its name, and the time that it takes.
class C10_EXPORT RecordWork {
 public:
  /// Who does the work. The time of the host's is the scope's; that of a stream
  /// is from when it gets to the scope's work until the work is done.
  enum class By { Host, Stream };

  RecordWork(
      By by,
      const std::string& name,
      c10::xpu::XPUStream stream,
      size_t nbytes = 0) {
    if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) {
      begin(by, name, stream, nbytes);
    }
  }
  ~RecordWork() {
    if (C10_UNLIKELY(work_.has_value())) {
      end(*work_);
    }
  }
  RecordWork(const RecordWork&) = delete;
  RecordWork& operator=(const RecordWork&) = delete;

  struct Work {
    WorkRecord record;
    // Of a stream's work; else neither is recorded.
    c10::xpu::XPUEvent begin{/*enable_timing=*/true};
    c10::xpu::XPUEvent end{/*enable_timing=*/true};
  };

 private:
  friend void startRecordingWork();
  friend std::vector<WorkRecord> stopRecordingWork();
  static std::atomic<bool> recording;

  void begin(
      By by,
      const std::string& name,
      c10::xpu::XPUStream stream,
      size_t nbytes);
  static void end(Work& work) noexcept;

  std::optional<Work> work_;
};

/// c10::xpu::impl::launch, recorded as work of the stream.
inline sycl::event launch(
    c10::xpu::XPUStream stream,
    const char* name,
    size_t nbytes,
    c10::function_ref<sycl::event(sycl::queue&)> submit) {
  const RecordWork record(RecordWork::By::Stream, name, stream, nbytes);
  return c10::xpu::impl::launch(stream, submit);
}

} // namespace at::xpu::detail
