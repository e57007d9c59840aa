// Kineto's headers use {fmt}, which PyTorch's libraries do not export.
#define FMT_HEADER_ONLY

#include <ATen/xpu/detail/RecordWork.h>

#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <kineto/libkineto.h>
#include <kineto/output_base.h>

#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The device's part of torch.profiler, as a plugin of Kineto.

namespace at::xpu::detail {

namespace {

using libkineto::ActivityType;

const std::string kRange; // Kineto knows the names of ranges

class Session final : public libkineto::IActivityProfilerSession {
 public:
  ~Session() final {
    if (status_ == libkineto::TraceStatus::RECORDING) {
      stopRecordingWork();
    }
  }

  void start() final {
    startRecordingWork();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() final {
    records_ = stopRecordingWork();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() final {
    return {};
  }

  void processTrace(libkineto::ActivityLogger& logger) final {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(
      libkineto::ActivityLogger& logger,
      libkineto::getLinkedActivityCallback linkedActivity,
      int64_t start,
      int64_t /*end*/) final {
    buffer_->span = libkineto::TraceSpan(start, 0, "XPU");
    std::set<int64_t> devices;
    std::set<std::pair<int64_t, int64_t>> streams;
    for (const auto& record : records_) {
      const auto device = record.stream.device_index();
      const auto stream = record.stream.id();
      if (devices.insert(device).second) {
        logger.handleDeviceInfo(deviceInfo(device), record.begin);
      }
      if (streams.emplace(device, stream).second) {
        logger.handleResourceInfo(
            {stream, stream, device, "stream " + std::to_string(stream)},
            record.begin);
      }
      const auto* linked = linkedActivity(int32_t(record.correlation));
      if (linked || !record.name.empty()) {
        logger.handleGenericActivity(activity(record, linked));
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() final {
    return nullptr; // processTrace gives them
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() final {
    return {};
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() final {
    return std::move(buffer_);
  }

  // Those of operators, which contain one another on a thread.
  void pushCorrelationId(uint64_t id) final {
    outer_.push_back(exchangeWorkCorrelation(id));
  }
  void popCorrelationId() final {
    if (!outer_.empty()) {
      exchangeWorkCorrelation(outer_.back());
      outer_.pop_back();
    }
  }

  // The ranges of torch.profiler.record_function, on the stream that is current
  // at their begin. They have also what others submit to it: SYCL does not tell
  // of that work itself, see docs/stock-torch.md.
  void pushUserCorrelationId(uint64_t id) final {
    if (c10::xpu::XPUCachingAllocator::initialized()) {
      const auto outer = exchangeWorkCorrelation(id);
      ranges_.emplace_back(
          RecordWork::By::Stream, kRange, c10::xpu::getCurrentXPUStream());
      exchangeWorkCorrelation(outer);
    }
  }
  void popUserCorrelationId() final {
    if (!ranges_.empty()) {
      ranges_.pop_back();
    }
  }

 private:
  static libkineto::DeviceInfo deviceInfo(int64_t device) {
    // Below the CPU's processes.
    const auto name = c10::str("xpu:", device);
    return {
        device,
        device + libkineto::kExceedMaxPid,
        name,
        c10::xpu::get_device_properties(c10::DeviceIndex(device)).name};
  }

  const libkineto::GenericTraceActivity& activity(
      const WorkRecord& record,
      const libkineto::ITraceActivity* linked) {
    const bool is_range = record.name.empty();
    buffer_->emplace_activity(
        buffer_->span,
        is_range            ? ActivityType::GPU_USER_ANNOTATION
            : record.nbytes ? ActivityType::GPU_MEMCPY
                            : ActivityType::CONCURRENT_KERNEL,
        is_range ? linked->name() : record.name);
    auto& activity = *buffer_->activities.back();
    activity.startTime = record.begin;
    activity.endTime = record.end;
    activity.device = record.stream.device_index();
    activity.resource = int32_t(record.stream.id());
    activity.id = int32_t(record.correlation);
    if (record.nbytes) {
      activity.addMetadata("bytes", record.nbytes);
    }
    activity.linked = linked;
    return activity;
  }

  std::vector<WorkRecord> records_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ =
      std::make_unique<libkineto::CpuTraceBuffer>();
  static thread_local std::vector<uint64_t> outer_;
  static thread_local std::list<RecordWork> ranges_;
};

thread_local std::vector<uint64_t> Session::outer_;
thread_local std::list<RecordWork> Session::ranges_;

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const final {
    static const std::string name = "xpu-stack";
    return name;
  }

  const std::set<ActivityType>& availableActivities() const final {
    static const std::set<ActivityType> types = {
        ActivityType::GPU_MEMCPY,
        ActivityType::GPU_USER_ANNOTATION,
        ActivityType::CONCURRENT_KERNEL};
    return types;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types,
      const libkineto::Config& /*config*/) final {
    return types.count(ActivityType::CONCURRENT_KERNEL)
        ? std::make_unique<Session>()
        : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*ts_ms*/,
      int64_t /*duration_ms*/,
      const std::set<ActivityType>& types,
      const libkineto::Config& config) final {
    return configure(types, config);
  }
};

const bool registered = [] {
  libkineto::api().registerProfilerFactory(
      [] { return std::make_unique<Profiler>(); });
  return true;
}();

} // namespace

} // namespace at::xpu::detail
