#include <c10/xpu/XPUEvent.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/impl/XPUTrace.h>

#include <sycl/ext/oneapi/experimental/profiling_tag.hpp>
#include <sycl/handler.hpp>
#include <sycl/properties/queue_properties.hpp>

#include <unordered_map>
#include <utility>

namespace c10::xpu {

// Note [Timing of events]
// ~~~~~~~~~~~~~~~~~~~~~~~
// In SYCL a command has a time if its queue was made with enable_profiling,
// which makes every command of the queue slower. Streams are made without it,
// and a timed record takes its time in one of two ways:
//
//   tag         Where the device has ext_oneapi_queue_profiling_tag, or an
//               external queue has profiling: submit_profiling_tag gives an
//               event that has a time.
//   companion   Elsewhere, on the CPU device for one: a barrier is submitted to
//               the stream, as if untimed, and one that waits for it to a
//               second in-order queue, which has profiling. Its end is the
//               time; the delay cancels out in a difference.
//
// On an NVIDIA device the driver tells the time between two events, since
// SYCL's time stamps get coarser as the process runs: see
// impl::nativeElapsedTime.
//
// An event is complete when the stream's own barrier is. What waits for it, in
// block(), synchronize() or elapsed_time(), waits for the companion's barrier
// as well: an event that follows this one must not have the earlier time.
//
// Each timed stream has a companion of its own. With one per device an event on
// an idle stream would wait for those of busy streams, and hang where their
// work depends on it; out-of-order queues order barriers, too.

namespace {

/// The companion of a stream, or null where a tag has a time.
sycl::queue* companionOf(const XPUStream& stream, const sycl::queue& queue) {
  if (queue.has_property<sycl::property::queue::enable_profiling>()) {
    return nullptr;
  }
  struct Companions {
    std::mutex mutex;
    // Nothing where the device has tags. References stay valid when others are
    // added. A queue at a former external one's address gets its companion.
    std::unordered_map<XPUStream, optional<sycl::queue>> queues;
  };
  // Never destroyed, like the streams' own queues.
  static auto* companions = new Companions;
  std::lock_guard<std::mutex> lock(companions->mutex);
  auto found = companions->queues.find(stream);
  if (found == companions->queues.end()) {
    const auto& device = get_raw_device(stream.device_index());
    constexpr auto kTag = sycl::aspect::ext_oneapi_queue_profiling_tag;
    const sycl::property_list properties{
        sycl::property::queue::in_order(),
        sycl::property::queue::enable_profiling()};
    optional<sycl::queue> made;
    if (!C10_XPU_CHECK(device.has(kTag))) {
      made = C10_XPU_CHECK(
          sycl::queue(get_device_context(), device, asyncHandler, properties));
    }
    found = companions->queues.emplace(stream, std::move(made)).first;
  }
  return found->second ? &*found->second : nullptr;
}

/// Nanoseconds of the device's clock.
int64_t timeOf(sycl::event event) {
  using End = sycl::info::event_profiling::command_end;
  C10_XPU_CHECK(event.wait());
  return static_cast<int64_t>(C10_XPU_CHECK(event.get_profiling_info<End>()));
}

uintptr_t nameOf(const XPUStream& stream) {
  return reinterpret_cast<uintptr_t>(&impl::queueOf(stream));
}

sycl::event submitBarrier(XPUStream stream) {
  return impl::launch(
      stream,
      [](sycl::queue& queue) {
        return C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
      },
      impl::Submitted::Marker);
}

// Note [Waiting for an event without blocking the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_submit_barrier({event}) needs the backend's handle of the
// event. An event that depends on a host task has none before the host task is
// done, and the call then waits for the host task: forever, if only the calling
// thread can let it finish. A barrier in a command group that depends on the
// event does not wait, but takes twice as long to submit.

/// Lets what is submitted to an in-order queue from now on wait for the event,
/// and returns the event of the barrier that does so. `held` is the result of
/// isHeldByHost(event); with it the call itself never waits.
sycl::event submitBarrierAfter(
    sycl::queue& queue,
    const sycl::event& event,
    bool held) {
  if (C10_LIKELY(!held)) {
    return C10_XPU_CHECK(queue.ext_oneapi_submit_barrier({event}));
  }
  return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
    handler.depends_on(event);
    handler.ext_oneapi_barrier();
  }));
}

std::atomic<uintptr_t> gLastName{0};
using Hooks = impl::TraceHooks;
using impl::trace;

} // namespace

XPUEvent::~XPUEvent() {
  try {
    if (isCreated()) {
      trace(&Hooks::trace_gpu_event_deletion, name_);
    }
    if (C10_UNLIKELY(recorded_ && is_in_bad_fork())) {
      new Recorded(std::move(*recorded_)); // SYCL cannot be called there
    }
  } catch (...) { // NOLINT(bugprone-empty-catch): a destructor cannot raise
  }
}

XPUEvent::XPUEvent(XPUEvent&& other) noexcept : XPUEvent(other.enable_timing_) {
  *this = std::move(other);
}

XPUEvent& XPUEvent::operator=(XPUEvent&& other) noexcept {
  // By swapping, the former event of this one ends with the other.
  std::swap(enable_timing_, other.enable_timing_);
  complete_ = other.complete_.exchange(complete_);
  device_index_ = other.device_index_.exchange(device_index_);
  std::swap(recorded_, other.recorded_);
  std::swap(name_, other.name_);
  return *this;
}

sycl::event& XPUEvent::event() const {
  TORCH_CHECK(
      isCreated(),
      "This XPU event has no SYCL event: it gets one when it is recorded. "
      "Call record first");
  return recorded_->work;
}

bool XPUEvent::query() const {
  if (!complete_.load(std::memory_order_acquire)) {
    check_device_index(device_index()); // raises in a forked child
    Recorded asked = copy();
    if (!impl::isComplete(asked.work)) {
      return false;
    }
    impl::deliverErrors(asked.work);
    if (impl::isComplete(asked.last())) {
      setComplete(asked.work);
    }
  }
  raiseErrors();
  return true;
}

void XPUEvent::setComplete(const sycl::event& work) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (recorded_->work == work) { // not recorded meanwhile
    complete_.store(true, std::memory_order_release);
  }
}

void XPUEvent::raiseErrors() const {
  if (isCreated()) {
    std::unique_lock<std::mutex> lock(mutex_);
    const StreamId stream = recorded_->stream;
    lock.unlock();
    impl::raiseErrorsOf(device_index(), stream);
  }
}

XPUEvent::Recorded XPUEvent::submitTimed(XPUStream stream) {
  sycl::queue* companion = companionOf(stream, impl::queueOf(stream));
  if (!companion) {
    namespace ext = sycl::ext::oneapi::experimental;
    return {
        impl::launch(
            stream,
            [](sycl::queue& queue) {
              return C10_XPU_CHECK(ext::submit_profiling_tag(queue));
            },
            impl::Submitted::Marker),
        nullopt};
  }
  auto work = submitBarrier(stream);
  auto time = submitBarrierAfter(*companion, work, impl::isHeldByHost(work));
  impl::waitIfBlocking(stream, time);
  return {std::move(work), std::move(time)};
}

C10_ALWAYS_INLINE void XPUEvent::checkDevice(XPUStream stream) const {
  TORCH_CHECK(
      !isCreated() || device_index() == stream.device_index(),
      "This XPU event was first recorded on device ",
      *device(),
      " and cannot be recorded on device ",
      stream.device(),
      ", the device of the stream: use another event there");
}

XPUEvent::Recorded XPUEvent::copy() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return *recorded_;
}

void XPUEvent::record(XPUStream stream) {
  checkDevice(stream);
  Recorded made = enable_timing_ ? submitTimed(stream)
                                 : Recorded{submitBarrier(stream), nullopt};
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    checkDevice(stream); // another thread may have been first
    first = !recorded_;
    if (first) {
      name_ = ++gLastName;
      recorded_ = std::move(made);
    } else {
      std::swap(recorded_->work, made.work); // the former one ends unlocked
      std::swap(recorded_->companion, made.companion);
    }
    recorded_->stream = stream.id();
    recorded_->at_device = false;
    complete_.store(false, std::memory_order_relaxed);
    device_index_.store(stream.device_index(), std::memory_order_release);
  }
  if (C10_UNLIKELY(first)) {
    trace(&Hooks::trace_gpu_event_creation, name_);
  }
  trace(&Hooks::trace_gpu_event_record, name_, nameOf(stream));
}

void XPUEvent::block(XPUStream stream) const {
  if (!isCreated()) {
    return;
  }
  // Nothing waits for what is known to be complete.
  if (!complete_.load(std::memory_order_acquire)) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool& at_device = recorded_->at_device;
    at_device = at_device || !impl::isHeldByHost(recorded_->last());
    const bool held = !at_device;
    const sycl::event event = recorded_->last();
    lock.unlock();
    impl::launch(
        stream,
        [&](sycl::queue& queue) {
          return submitBarrierAfter(queue, event, held);
        },
        impl::Submitted::WaitForEvent);
  }
  trace(&Hooks::trace_gpu_event_wait, name_, nameOf(stream));
}

void XPUEvent::synchronize() const {
  if (!isCreated()) {
    return;
  }
  check_device_index(device_index()); // raises in a forked child
  trace(&Hooks::trace_gpu_event_synchronization, name_);
  warn_or_error_on_sync();
  Recorded waited = copy();
  C10_XPU_CHECK(waited.work.wait());
  C10_XPU_CHECK(waited.last().wait());
  impl::deliverErrors(waited.work);
  setComplete(waited.work);
  raiseErrors();
}

double XPUEvent::elapsed_time(const XPUEvent& other) const {
  const auto check = [&](bool (*good)(const XPUEvent&), const char* what) {
    TORCH_CHECK(good(*this), "elapsed_time: the first event ", what);
    TORCH_CHECK(good(other), "elapsed_time: the second event ", what);
  };
  check(
      [](const XPUEvent& event) { return event.isCreated(); },
      "has not been recorded: record both before you take the time");
  check(
      [](const XPUEvent& event) { return event.enable_timing_; },
      "was made without timing: make both with enable_timing=true");
  TORCH_CHECK(
      device_index() == other.device_index(),
      "elapsed_time: the first event was recorded on device ",
      *device(),
      ", the second on device ",
      *other.device(),
      ": the clocks of two devices cannot be compared");
  check(
      [](const XPUEvent& event) { return event.query(); },
      "is not complete: synchronize it, its stream or the device first");
  const sycl::event from = copy().last();
  const sycl::event to = other.copy().last();
  if (const auto milliseconds = impl::nativeElapsedTime(from, to)) {
    return *milliseconds;
  }
  return static_cast<double>(timeOf(to) - timeOf(from)) * 1e-6;
}

} // namespace c10::xpu
