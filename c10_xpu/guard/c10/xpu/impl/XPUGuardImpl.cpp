#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUGuardImpl.h>

#include <memory>
#include <utility>

namespace c10 {
namespace xpu {
namespace impl {

// Note [Events of the XPU guard]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// c10::Event keeps a `void*` that is null until the first record. For XPU it
// points to an sycl::event on the heap:
//
//   record   submits a barrier to the stream's in-order queue and assigns the
//            barrier's event to the heap object. The object keeps its address
//            for the life of the c10::Event (the trace hooks use it as the
//            name of the event); a second record replaces the value in it. A
//            stream that waits on the former record is not affected, since the
//            barrier which it waits for holds its own reference.
//   block    submits to the other queue a barrier that depends on the event,
//            see Note [Waiting for an event without blocking the host]. All
//            devices share one sycl::context, so this holds across devices.
//   query    asks for the execution status.
//   destroy  deletes the object; work that depends on the event goes on.
//
// An event belongs to the device of its first record. If submitting fails the
// object keeps its former value and a new one is not published, so a failed
// first record leaves the c10::Event as if it had not been called.
//
// Flags: PYTORCH_DEFAULT stands for an event without timing, BACKEND_DEFAULT
// for one that may have it. SYCL takes time stamps per queue, not per event,
// and c10::Event cannot read them, hence both record the same barrier: on a
// queue with profiling the time stamps are in it either way. The flags of other
// backends are refused. For timing there is at::xpu::XPUEvent.

static_assert(
    sizeof(XPUGuardImpl) == sizeof(c10::impl::DeviceGuardImplInterface),
    "XPUGuardImpl is copied into every guard and must not carry state");

// Runs while the library is loaded: the registrar stores a pointer and nothing
// else, the SYCL runtime is not touched.
C10_REGISTER_GUARD_IMPL(XPU, XPUGuardImpl);

namespace {

sycl::event* asEvent(void* event) {
  return static_cast<sycl::event*>(event);
}

uintptr_t traceName(const void* object) {
  return reinterpret_cast<uintptr_t>(object);
}

void checkFlag(EventFlag flag) {
  TORCH_CHECK(
      flag == EventFlag::PYTORCH_DEFAULT || flag == EventFlag::BACKEND_DEFAULT,
      "An XPU event was given the event flag ",
      static_cast<int>(flag),
      ". Allowed are EventFlag::PYTORCH_DEFAULT (",
      static_cast<int>(EventFlag::PYTORCH_DEFAULT),
      ") and EventFlag::BACKEND_DEFAULT (",
      static_cast<int>(EventFlag::BACKEND_DEFAULT),
      "); the flags of other backends have no meaning here.");
}

} // namespace

void XPUGuardImpl::throwWrongType(DeviceType t) {
  TORCH_CHECK(
      false,
      "An XPU guard was given a device or stream of type ",
      DeviceTypeName(t, /*lower_case=*/true),
      ", expected xpu. Use c10::DeviceGuard or c10::StreamGuard for code that "
      "serves several device types.");
}

void XPUGuardImpl::warnIgnored(
    const char* action,
    Device d,
    const std::exception& e) noexcept {
  // A warning can be turned into an exception by its handler.
  try {
    const auto* error = dynamic_cast<const c10::Error*>(&e);
    TORCH_WARN(
        "Could not ",
        action,
        " for ",
        d,
        ", it is unchanged: ",
        error ? error->what_without_backtrace() : e.what());
  } catch (...) { // NOLINT(bugprone-empty-catch): the caller cannot raise
  }
}

Stream XPUGuardImpl::getDefaultStream(Device d) const {
  checkType(d);
  return getDefaultXPUStream(d.index()).unwrap();
}

Stream XPUGuardImpl::getStreamFromGlobalPool(Device d, bool isHighPriority)
    const {
  checkType(d);
  return getStreamFromPool(isHighPriority, d.index()).unwrap();
}

DeviceIndex XPUGuardImpl::deviceCount() const noexcept {
  // Autograd asks this of every backend before it starts, also for work on the
  // CPU alone. That there is no device, or in a forked child none that can be
  // used, is no news there: nothing is said.
  try {
    return is_in_bad_fork() ? 0
                            : static_cast<DeviceIndex>(impl::device_count());
  } catch (const std::exception& e) {
    warnIgnored("count the devices", Device(kXPU), e);
    return 0;
  }
}

void XPUGuardImpl::destroyEvent(void* event, const DeviceIndex /*device_index*/)
    const noexcept {
  if (!event) {
    return;
  }
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_event_deletion(traceName(event));
  }
  delete asEvent(event);
}

void XPUGuardImpl::record(
    void** event,
    const Stream& stream,
    const DeviceIndex device_index,
    const EventFlag flag) const {
  TORCH_CHECK(
      device_index == -1 || device_index == stream.device_index(),
      "An event recorded on device xpu:",
      static_cast<int>(device_index),
      " cannot be recorded on ",
      stream,
      ": an event stays with the device of its first record. Use another event "
      "for this device.");
  const XPUStream xpu_stream(stream);
  sycl::queue& queue = xpu_stream.queue();

  std::unique_ptr<sycl::event> created;
  sycl::event* target = asEvent(*event);
  if (!target) {
    checkFlag(flag);
  }
  auto barrier = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  if (target) {
    *target = std::move(barrier);
  } else {
    created = std::make_unique<sycl::event>(std::move(barrier));
    target = created.get();
  }

  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    if (created) {
      (*interp)->trace_gpu_event_creation(traceName(target));
    }
    (*interp)->trace_gpu_event_record(traceName(target), traceName(&queue));
  }
  *event = created ? created.release() : target;
}

void XPUGuardImpl::block(void* event, const Stream& stream) const {
  if (!event) {
    return;
  }
  const XPUStream xpu_stream(stream);
  sycl::queue& queue = xpu_stream.queue();
  submitBarrierAfter(queue, *asEvent(event));

  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_event_wait(traceName(event), traceName(&queue));
  }
}

bool XPUGuardImpl::queryEvent(void* event) const {
  return !event || isComplete(*asEvent(event));
}

bool XPUGuardImpl::queryStream(const Stream& stream) const {
  return XPUStream(stream).query();
}

void XPUGuardImpl::synchronizeStream(const Stream& stream) const {
  XPUStream(stream).synchronize();
}

void XPUGuardImpl::recordDataPtrOnStream(
    const c10::DataPtr& data_ptr,
    const Stream& stream) const {
  XPUCachingAllocator::recordStream(data_ptr, XPUStream(stream));
}

} // namespace impl
} // namespace xpu
} // namespace c10
