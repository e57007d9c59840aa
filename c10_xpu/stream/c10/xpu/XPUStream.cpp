#include <c10/xpu/XPUStream.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <algorithm>
#include <array>
#include <exception>
#include <ostream>

namespace c10::xpu {
namespace {

using impl::deviceOrCurrent;
using impl::StreamKind;

// Per thread and device. Trivially destructible, so that it can be used to the
// very end of a thread.
thread_local std::array<StreamId, C10_COMPILE_TIME_MAX_XPUS> thread_streams{};

StreamId& threadStream(DeviceIndex device) {
  return thread_streams[static_cast<size_t>(device)];
}

XPUStream makeStream(DeviceIndex device, StreamId id) {
  return XPUStream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device), id));
}

XPUStream nextFromPool(DeviceIndex device, int priority) {
  device = deviceOrCurrent(device);
  return makeStream(device, impl::nextPoolStream(device, priority));
}

} // namespace

namespace impl {

StreamId exchangeThreadStream(DeviceIndex device, StreamId id) noexcept {
  return std::exchange(threadStream(device), id);
}

} // namespace impl

sycl::queue& XPUStream::queue() const {
  return impl::useQueue(device_index(), id());
}

bool XPUStream::query() const {
  return impl::isIdle(device_index(), id());
}

void XPUStream::synchronize() const {
  sycl::queue* queue = impl::findUsedQueue(device_index(), id());
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_stream_synchronization(
        reinterpret_cast<uintptr_t>(queue));
  }
  warn_or_error_on_sync();
  if (queue) {
    impl::waitFor(*queue, /*one_of_many=*/false);
  }
  impl::raiseAsyncErrors(device_index(), id());
  if (C10_UNLIKELY(impl::isExternalStream(id()))) {
    impl::raiseAsyncErrors(impl::kUnknownDevice);
  }
}

int XPUStream::priority() const {
  const auto parts = impl::decodeStreamId(id());
  if (!parts || parts->kind == StreamKind::External) {
    namespace ext = sycl::ext::oneapi::property::queue;
    const auto& external = queue(); // raises for an id that is no stream's
    return external.has_property<ext::priority_high>() ? impl::kHighestPriority
        : external.has_property<ext::priority_low>()   ? impl::kLowestPriority
                                                       : 0;
  }
  return parts->priority;
}

XPUStream XPUStream::unpack3(
    StreamId stream_id,
    DeviceIndex device_index,
    DeviceType device_type) {
  TORCH_CHECK(
      device_type == kXPU,
      c10::str("An XPUStream was given the device type ", device_type),
      ": it must be xpu");
  check_device_index(device_index);
  const auto parts = impl::decodeStreamId(stream_id);
  TORCH_CHECK(
      parts.has_value(),
      c10::str("There is no XPU stream with the id ", stream_id),
      ". Give what XPUStream::pack3 gave");
  TORCH_CHECK(
      parts->kind != StreamKind::External ||
          impl::isExternalQueue(device_index, stream_id),
      c10::str("The stream id ", stream_id, " names an external queue, but on"),
      c10::str(" device xpu:", int(device_index), " there is none at this "),
      "address: it was not given to getStreamFromExternal, or is destroyed");
  return makeStream(device_index, stream_id);
}

XPUStream getStreamFromPool(const bool isHighPriority, DeviceIndex device) {
  return nextFromPool(device, isHighPriority ? impl::kHighestPriority : 0);
}

XPUStream getStreamFromPool(const int priority, DeviceIndex device) {
  TORCH_CHECK(
      priority <= impl::kLowestPriority,
      c10::str("The stream priority ", priority, " is out of range: it must "),
      "be from -1 (high) to 1 (low)");
  return nextFromPool(device, std::max(priority, impl::kHighestPriority));
}

XPUStream getStreamFromExternal(sycl::queue* queue, DeviceIndex device) {
  TORCH_CHECK(queue, "getStreamFromExternal was given a null queue");
  device = deviceOrCurrent(device);
  TORCH_CHECK(
      C10_XPU_CHECK(queue->is_in_order()),
      "The external queue is out of order, but a stream runs its work in the "
      "order of submission: make the queue with the property "
      "sycl::property::queue::in_order");
  TORCH_CHECK(
      C10_XPU_CHECK(queue->get_context()) == get_device_context(),
      "The external queue is on a context of its own, where neither the memory "
      "nor the events of other streams can be used: make the queue on "
      "c10::xpu::get_device_context()");
  const auto theirs = C10_XPU_CHECK(queue->get_device());
  TORCH_CHECK(
      theirs == get_raw_device(device),
      "The external queue is on the device ",
      C10_XPU_CHECK(theirs.get_info<sycl::info::device::name>()),
      c10::str(", which is not xpu:", int(device), ": make the queue on "),
      c10::str("c10::xpu::get_raw_device(", int(device), "), or give the "),
      "ordinal of its device");
  impl::addExternalQueue(device, *queue);
  return makeStream(
      device, static_cast<StreamId>(reinterpret_cast<intptr_t>(queue)));
}

XPUStream getDefaultXPUStream(DeviceIndex device) {
  return makeStream(deviceOrCurrent(device), 0);
}

XPUStream getCurrentXPUStream(DeviceIndex device) {
  device = deviceOrCurrent(device);
  return makeStream(device, threadStream(device));
}

void setCurrentXPUStream(XPUStream stream) {
  check_device_index(stream.device_index());
  threadStream(stream.device_index()) = stream.id();
}

void syncStreamsOnDevice(DeviceIndex device) {
  device = deviceOrCurrent(device);
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_device_synchronization();
  }
  warn_or_error_on_sync();
  // An error of one queue must not keep the others from being waited for.
  std::exception_ptr error;
  impl::forEachUsedQueue(device, [&error](sycl::queue& queue) {
    try {
      impl::waitFor(queue, /*one_of_many=*/true);
    } catch (...) {
      error = error ? error : std::current_exception();
    }
  });
  if (C10_UNLIKELY(error != nullptr)) {
    std::rethrow_exception(error);
  }
  impl::raiseAsyncErrors(device);
}

std::ostream& operator<<(std::ostream& stream, const XPUStream& s) {
  return stream << s.unwrap();
}

} // namespace c10::xpu
