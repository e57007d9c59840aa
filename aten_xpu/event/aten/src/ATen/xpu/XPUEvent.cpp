#include <ATen/xpu/XPUEvent.h>

#include <ATen/xpu/detail/EventTiming.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <array>
#include <atomic>
#include <utility>

namespace at {
namespace xpu {

using c10::xpu::XPUStream;
using c10::xpu::impl::isComplete;

namespace detail {

struct EventState {
  explicit EventState(const XPUStream& stream, sycl::event e)
      : device_index(stream.device_index()),
        stream_id(stream.id()),
        awaited(std::move(e)) {}

  const c10::DeviceIndex device_index;
  c10::StreamId stream_id;
  // What was seen to be complete stays so until the next record, and is
  // cheaper not to be asked again.
  std::atomic<bool> complete{false};
  // What is complete last, and what other streams wait for. Of an event with
  // timing this is what has the time, so that the time of whatever follows is
  // not before this one's. See Note [Timing of events]
  sycl::event awaited;
  // Of an event with timing: complete when the work before the record is.
  c10::optional<sycl::event> work;

  void setEvent(sycl::event e) {
    awaited = std::move(e);
    complete.store(false, std::memory_order_release);
  }

  sycl::event& event() {
    return work ? *work : awaited;
  }
};

} // namespace detail

namespace {

bool seenComplete(const detail::EventState& state) {
  return state.complete.load(std::memory_order_acquire);
}

void setComplete(detail::EventState& state) {
  state.complete.store(true, std::memory_order_release);
}

const c10::impl::PyInterpreter* tracer() {
  return c10::impl::GPUTrace::get_trace();
}

uintptr_t traceName(const void* object) {
  return reinterpret_cast<uintptr_t>(object);
}

/// Nanoseconds of the device's clock.
int64_t timeOf(sycl::event& event) {
  using End = sycl::info::event_profiling::command_end;
  C10_XPU_CHECK(event.wait());
  return static_cast<int64_t>(C10_XPU_CHECK(event.get_profiling_info<End>()));
}

} // namespace

XPUEvent::XPUEvent(bool enable_timing) noexcept
    : enable_timing_(enable_timing) {}

XPUEvent::XPUEvent(XPUEvent&& other) noexcept = default;

XPUEvent& XPUEvent::operator=(XPUEvent&& other) noexcept {
  // By swapping, the former event of this one ends with the other.
  std::swap(enable_timing_, other.enable_timing_);
  std::swap(state_, other.state_);
  return *this;
}

XPUEvent::~XPUEvent() {
  if (C10_UNLIKELY(state_ && tracer())) {
    try {
      (*tracer())->trace_gpu_event_deletion(traceName(state_.get()));
    } catch (...) { // NOLINT(bugprone-empty-catch): a destructor cannot raise
    }
  }
}

c10::optional<c10::Device> XPUEvent::device() const {
  if (!state_) {
    return c10::nullopt;
  }
  return c10::Device(c10::kXPU, state_->device_index);
}

c10::DeviceIndex XPUEvent::device_index() const noexcept {
  return state_ ? state_->device_index : static_cast<c10::DeviceIndex>(-1);
}

sycl::event& XPUEvent::event() const {
  TORCH_CHECK(
      state_,
      "This XPU event has no SYCL event: it gets one when it is recorded. "
      "Call record first");
  return state_->event();
}

bool XPUEvent::query() const {
  if (!state_ || seenComplete(*state_)) {
    return true;
  }
  if (!isComplete(state_->event())) {
    return false;
  }
  if (!state_->work || isComplete(state_->awaited)) {
    setComplete(*state_);
  }
  return true;
}

void XPUEvent::record() {
  record(c10::xpu::getCurrentXPUStream());
}

void XPUEvent::record(const XPUStream& stream) {
  TORCH_CHECK(
      !state_ || state_->device_index == stream.device_index(),
      "This XPU event was first recorded on device xpu:",
      static_cast<int>(device_index()),
      " and cannot be recorded on device xpu:",
      static_cast<int>(stream.device_index()),
      ", the device of the stream: use another event there");
  const bool first = !state_;
  const auto set = [&](sycl::event event) {
    if (first) {
      state_ = std::make_unique<detail::EventState>(stream, std::move(event));
    } else {
      state_->setEvent(std::move(event));
      state_->stream_id = stream.id();
    }
  };
  if (enable_timing_) {
    auto timed = detail::submitTimedEvent(stream);
    set(std::move(timed.time));
    state_->work = std::move(timed.event);
  } else {
    sycl::queue& queue = stream.queue();
    set(C10_XPU_CHECK(queue.ext_oneapi_submit_barrier()));
  }
  if (C10_UNLIKELY(tracer())) {
    if (first) {
      (*tracer())->trace_gpu_event_creation(traceName(state_.get()));
    }
    (*tracer())->trace_gpu_event_record(
        traceName(state_.get()), traceName(&stream.queue()));
  }
}

void XPUEvent::recordOnce(const XPUStream& stream) {
  if (!state_) {
    record(stream);
  }
}

void XPUEvent::block(const XPUStream& stream) const {
  if (!state_) {
    return;
  }
  sycl::queue& queue = stream.queue();
  // Nothing waits for what is known to be complete. It is not worth asking:
  // that would be a twentieth of the barrier where it is not.
  if (!seenComplete(*state_)) {
    c10::xpu::impl::submitBarrierAfter(queue, state_->awaited);
  }
  if (C10_UNLIKELY(tracer())) {
    (*tracer())->trace_gpu_event_wait(
        traceName(state_.get()), traceName(&queue));
  }
}

void XPUEvent::synchronize() const {
  if (!state_) {
    return;
  }
  if (C10_UNLIKELY(tracer())) {
    (*tracer())->trace_gpu_event_synchronization(traceName(state_.get()));
  }
  C10_XPU_CHECK(state_->event().wait_and_throw());
  if (state_->work) {
    C10_XPU_CHECK(state_->awaited.wait());
  }
  setComplete(*state_);
  c10::xpu::impl::raiseAsyncErrors(
      state_->device_index, state_->stream_id);
}

double XPUEvent::elapsed_time(const XPUEvent& other) const {
  const auto check = [](bool good, const char* which, const char* what) {
    TORCH_CHECK(good, "elapsed_time: the ", which, " event ", what);
  };
  using Named = std::pair<const XPUEvent*, const char*>;
  const std::array<Named, 2> both = {
      Named{this, "first"}, Named{&other, "second"}};
  for (const auto& each : both) {
    check(
        each.first->isCreated(),
        each.second,
        "has not been recorded: record both before you take the time");
    check(
        each.first->enable_timing_,
        each.second,
        "was made without timing: make both with enable_timing=true");
  }
  TORCH_CHECK(
      device_index() == other.device_index(),
      "elapsed_time: the first event was recorded on device xpu:",
      static_cast<int>(device_index()),
      ", the second on device xpu:",
      static_cast<int>(other.device_index()),
      ": the clocks of two devices cannot be compared");
  for (const auto& each : both) {
    check(
        each.first->query(),
        each.second,
        "is not complete: synchronize it, its stream or the device first");
  }
  constexpr double kMillisecondsPerNanosecond = 1e-6;
  const int64_t nanoseconds =
      timeOf(other.state_->awaited) - timeOf(state_->awaited);
  return static_cast<double>(nanoseconds) * kMillisecondsPerNanosecond;
}

} // namespace xpu
} // namespace at
