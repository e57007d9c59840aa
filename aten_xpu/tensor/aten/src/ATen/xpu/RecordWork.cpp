#include <ATen/xpu/detail/RecordWork.h>

#include <c10/util/Exception.h>

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

namespace at::xpu::detail {

namespace {

using c10::xpu::XPUEvent;
using c10::xpu::XPUStream;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Recorded {
  std::mutex mutex;
  std::vector<RecordWork::Work> works;
};

Recorded& recorded() {
  static auto* const all = new Recorded(); // threads may outlive statics
  return *all;
}

thread_local uint64_t work_correlation = 0;

/// Tells when events were complete: a device counts its time from a start of
/// its own.
class DeviceClock {
 public:
  explicit DeviceClock(XPUStream stream)
      : at_reference_(record(reference_, stream)) {}

  int64_t timeOf(const XPUEvent& event) const {
    return at_reference_ +
        static_cast<int64_t>(reference_.elapsed_time(event) * 1e6);
  }

 private:
  static int64_t record(XPUEvent& event, XPUStream stream) {
    event.record(stream);
    event.synchronize();
    return now();
  }

  XPUEvent reference_{/*enable_timing=*/true};
  int64_t at_reference_;
};

} // namespace

std::atomic<bool> RecordWork::recording{false};

void startRecordingWork() {
  TORCH_CHECK(
      !RecordWork::recording, "The work of XPU is being recorded already");
  std::lock_guard<std::mutex> lock(recorded().mutex);
  recorded().works.clear(); // of scopes that ended after the last recording
  RecordWork::recording = true;
}

std::vector<WorkRecord> stopRecordingWork() {
  RecordWork::recording = false;
  std::vector<RecordWork::Work> works;
  {
    std::lock_guard<std::mutex> lock(recorded().mutex);
    works.swap(recorded().works);
  }
  std::vector<WorkRecord> records;
  records.reserve(works.size());
  std::map<DeviceIndex, DeviceClock> clocks;
  for (auto& work : works) {
    if (work.end.isCreated()) {
      work.end.synchronize();
      const auto stream = work.record.stream;
      const auto& clock =
          clocks.try_emplace(stream.device_index(), stream).first->second;
      work.record.begin = clock.timeOf(work.begin);
      work.record.end = clock.timeOf(work.end);
    }
    records.push_back(std::move(work.record));
  }
  return records;
}

uint64_t exchangeWorkCorrelation(uint64_t correlation) {
  return std::exchange(work_correlation, correlation);
}

void RecordWork::begin(
    By by,
    const std::string& name,
    XPUStream stream,
    size_t nbytes) {
  auto& work = work_.emplace(Work{{name, stream, nbytes, work_correlation}});
  if (by == By::Stream) {
    work.begin.record(stream);
  } else {
    work.record.begin = now();
  }
}

void RecordWork::end(Work& work) noexcept {
  try {
    if (work.begin.isCreated()) {
      work.end.record(work.record.stream);
    } else {
      work.record.end = now();
    }
    std::lock_guard<std::mutex> lock(recorded().mutex);
    recorded().works.push_back(std::move(work));
  } catch (const std::exception& error) {
    TORCH_WARN("The profiler lost ", work.record.name, ": ", error.what());
  }
}

} // namespace at::xpu::detail
