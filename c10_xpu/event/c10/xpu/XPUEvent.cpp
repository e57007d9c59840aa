#include <c10/xpu/XPUEvent.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <sycl/ext/oneapi/experimental/profiling_tag.hpp>
#include <sycl/properties/queue_properties.hpp>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace c10::xpu {

// Note [Timing of events]
// ~~~~~~~~~~~~~~~~~~~~~~~
// In SYCL a command has a time if its queue was made with enable_profiling,
// which makes every command of the queue slower. Streams are made without it,
// and a timed record takes its time in one of two ways:
//
//   tag         Where the device has ext_oneapi_queue_profiling_tag, or where
//               an external queue has profiling: submit_profiling_tag gives an
//               event that has a time.
//   companion   Elsewhere, on the CPU device for one: the stream gets a second
//               in-order queue that has profiling. A record submits a barrier
//               to the stream, as if untimed, and then one to the companion
//               that waits for the first. The end of that one is the time. The
//               delay is alike for all events and cancels from a difference.
//
// An event is complete when the stream's own barrier is. What waits for it, a
// stream in block() or a thread in synchronize(), waits for its time as well:
// the companion's barrier comes a little later, and an event that follows this
// one on another stream must not have the earlier time. elapsed_time waits for
// it too, so that a time can be taken after a synchronization of the stream or
// the device.
//
// Each timed stream has a companion of its own. With one per device an event on
// an idle stream would wait for those of busy streams, and hang where their
// work depends on it. An out-of-order queue does not help: a barrier holds up
// the barriers after it there, too.

namespace {

struct Companions {
  std::mutex mutex;
  // Nothing for a stream that needs none. References stay valid when others are
  // added. An external stream is known by the address of its queue; where
  // another queue follows at that address, it gets the same companion.
  std::unordered_map<XPUStream, optional<sycl::queue>> queues;
};

optional<sycl::queue> makeCompanion(const XPUStream& stream) {
  const auto& device = get_raw_device(stream.device_index());
  const bool has_time =
      stream.queue().has_property<sycl::property::queue::enable_profiling>() ||
      C10_XPU_CHECK(device.has(sycl::aspect::ext_oneapi_queue_profiling_tag));
  if (has_time) {
    return nullopt;
  }
  const sycl::property_list properties{
      sycl::property::queue::in_order(),
      sycl::property::queue::enable_profiling()};
  return C10_XPU_CHECK(
      sycl::queue(get_device_context(), device, asyncHandler, properties));
}

/// The companion of a stream, or null where a tag has a time.
sycl::queue* companionOf(const XPUStream& stream) {
  // Never destroyed, like the streams' own queues.
  static auto* companions = new Companions;
  std::lock_guard<std::mutex> lock(companions->mutex);
  auto found = companions->queues.find(stream);
  if (found == companions->queues.end()) {
    found = companions->queues.emplace(stream, makeCompanion(stream)).first;
  }
  return found->second ? &*found->second : nullptr;
}

/// Nanoseconds of the device's clock.
int64_t timeOf(sycl::event event) {
  using End = sycl::info::event_profiling::command_end;
  C10_XPU_CHECK(event.wait());
  return static_cast<int64_t>(C10_XPU_CHECK(event.get_profiling_info<End>()));
}

/// Calls a trace hook, if there is an interpreter, with what it is about.
template <typename Hook, typename... Names>
void trace(Hook hook, Names... names) {
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    ((*interp).operator->()->*hook)(names...);
  }
}

uintptr_t nameOf(const sycl::queue& queue) {
  return reinterpret_cast<uintptr_t>(&queue);
}

uintptr_t newName() {
  static std::atomic<uintptr_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

using Hooks = c10::impl::PyInterpreterVTable;

} // namespace

XPUEvent::~XPUEvent() {
  if (!isCreated()) {
    return;
  }
  try {
    trace(&Hooks::trace_gpu_event_deletion, name_);
    if (C10_UNLIKELY(is_in_bad_fork())) {
      // SYCL cannot be called there, also not to give its events back.
      new Recorded(std::move(*recorded_));
    }
  } catch (...) { // NOLINT(bugprone-empty-catch): a destructor cannot raise
  }
}

XPUEvent::XPUEvent(XPUEvent&& other) noexcept
    : XPUEvent(other.enable_timing_) {
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
  if (complete_.load(std::memory_order_acquire)) {
    return true;
  }
  check_device_index(device_index()); // raises in a forked child
  std::lock_guard<std::mutex> lock(mutex_);
  if (!impl::isComplete(recorded_->work)) {
    return false;
  }
  if (!recorded_->companion || impl::isComplete(*recorded_->companion)) {
    complete_.store(true, std::memory_order_release);
  }
  return true;
}

XPUEvent::Recorded XPUEvent::submitTimed(const XPUStream& stream) {
  sycl::queue& queue = stream.queue();
  sycl::queue* companion = companionOf(stream);
  if (!companion) {
    namespace ext = sycl::ext::oneapi::experimental;
    auto tag = C10_XPU_CHECK(ext::submit_profiling_tag(queue));
    return {stream.id(), std::move(tag), nullopt};
  }
  auto work = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  auto time = impl::submitBarrierAfter(*companion, work);
  return {stream.id(), std::move(work), std::move(time)};
}

void XPUEvent::checkDevice(const XPUStream& stream) const {
  TORCH_CHECK(
      !isCreated() || device_index() == stream.device_index(),
      "This XPU event was first recorded on device xpu:",
      static_cast<int>(device_index()),
      " and cannot be recorded on device xpu:",
      static_cast<int>(stream.device_index()),
      ", the device of the stream: use another event there");
}

XPUEvent::Recorded XPUEvent::copy() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return *recorded_;
}

void XPUEvent::record() {
  record(getCurrentXPUStream());
}

void XPUEvent::record(const XPUStream& stream) {
  checkDevice(stream);
  sycl::queue& queue = stream.queue();
  Recorded made = enable_timing_
      ? submitTimed(stream)
      : Recorded{
            stream.id(),
            C10_XPU_CHECK(queue.ext_oneapi_submit_barrier()),
            nullopt};
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    checkDevice(stream); // another thread may have been first
    first = name_ == 0;
    name_ = first ? newName() : name_;
    if (first) {
      recorded_ = std::move(made);
    } else {
      recorded_->stream = made.stream;
      std::swap(recorded_->work, made.work); // the former one ends unlocked
      std::swap(recorded_->companion, made.companion);
    }
    complete_.store(false, std::memory_order_relaxed);
    device_index_.store(stream.device_index(), std::memory_order_release);
  }
  if (C10_UNLIKELY(first)) {
    trace(&Hooks::trace_gpu_event_creation, name_);
  }
  trace(&Hooks::trace_gpu_event_record, name_, nameOf(queue));
}

void XPUEvent::recordOnce(const XPUStream& stream) {
  if (!isCreated()) {
    record(stream);
  }
}

void XPUEvent::block(const XPUStream& stream) const {
  if (!isCreated()) {
    return;
  }
  sycl::queue& queue = stream.queue();
  // Nothing waits for what is known to be complete. It is not worth asking:
  // that would be a twentieth of the barrier where it is not.
  if (!complete_.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(mutex_);
    impl::submitBarrierAfter(queue, recorded_->last());
  }
  trace(&Hooks::trace_gpu_event_wait, name_, nameOf(queue));
}

void XPUEvent::synchronize() const {
  if (!isCreated()) {
    return;
  }
  check_device_index(device_index()); // raises in a forked child
  trace(&Hooks::trace_gpu_event_synchronization, name_);
  warn_or_error_on_sync();
  Recorded waited = copy();
  C10_XPU_CHECK(waited.work.wait_and_throw());
  if (waited.companion) {
    C10_XPU_CHECK(waited.companion->wait());
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (recorded_->work == waited.work) { // not recorded meanwhile
      complete_.store(true, std::memory_order_release);
    }
  }
  impl::raiseAsyncErrors(device_index(), waited.stream);
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
      "elapsed_time: the first event was recorded on device xpu:",
      static_cast<int>(device_index()),
      ", the second on device xpu:",
      static_cast<int>(other.device_index()),
      ": the clocks of two devices cannot be compared");
  check(
      [](const XPUEvent& event) { return event.query(); },
      "is not complete: synchronize it, its stream or the device first");
  constexpr double kMillisecondsPerNanosecond = 1e-6;
  const int64_t nanoseconds =
      timeOf(other.copy().last()) - timeOf(copy().last());
  return static_cast<double>(nanoseconds) * kMillisecondsPerNanosecond;
}

} // namespace c10::xpu
