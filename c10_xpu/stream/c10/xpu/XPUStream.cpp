#include <c10/xpu/XPUStream.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUAsyncErrors.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <ostream>

namespace c10 {
namespace xpu {
namespace {

using impl::StreamKind;

/// The key under which threads keep what thread_streams points to, for it to
/// be freed when they end. Unlike a thread_local with a destructor it works to
/// the very end: destructors of other thread_locals run before, and whoever
/// sets a stream even later makes this one run again.
pthread_key_t threadStreamsKey() {
  static const pthread_key_t made = [] {
    pthread_key_t key = 0;
    const int error = pthread_key_create(&key, [](void* ids) {
      impl::thread_streams = nullptr;
      delete[] static_cast<StreamId*>(ids);
    });
    TORCH_CHECK(error == 0, "pthread_key_create failed: ", error);
    return key;
  }();
  return made;
}

XPUStream nextFromPool(DeviceIndex device, int priority) {
  device = impl::device_or_current(device);
  const int index = impl::nextPoolIndex(device, priority);
  return impl::make_stream(device, impl::poolStreamId(priority, index));
}

} // namespace

namespace impl {

__thread StreamId* thread_streams = nullptr;

StreamId* make_thread_streams() {
  // NOLINTNEXTLINE(*-avoid-c-arrays): one for each device
  auto ids = std::make_unique<StreamId[]>(
      static_cast<size_t>(device_count_ensure_non_zero()));
  const int error = pthread_setspecific(threadStreamsKey(), ids.get());
  TORCH_CHECK(error == 0, "pthread_setspecific failed: ", error);
  thread_streams = ids.release();
  return thread_streams;
}

} // namespace impl

sycl::queue& XPUStream::queue() const {
  return impl::useQueue(device_index(), id());
}

bool XPUStream::query() const {
  const bool idle = impl::isIdle(device_index(), id());
  if (idle) {
    impl::countComplete();
  }
  return idle;
}

void XPUStream::synchronize() const {
  sycl::queue* queue = impl::findUsedQueue(device_index(), id());
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_stream_synchronization(
        reinterpret_cast<uintptr_t>(queue));
  }
  if (queue) {
    C10_XPU_CHECK(queue->wait());
    C10_XPU_CHECK(queue->throw_asynchronous());
  }
  impl::countComplete();
  impl::raiseAsyncErrors(device_index());
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
      "An XPUStream was given the device type ",
      device_type,
      ": it must be ",
      kXPU);
  check_device_index(device_index);
  const auto parts = impl::decodeStreamId(stream_id);
  TORCH_CHECK(
      parts.has_value(),
      "There is no XPU stream with the id ",
      stream_id,
      ". Give what XPUStream::pack3 gave");
  TORCH_CHECK(
      parts->kind != StreamKind::External ||
          impl::isExternalQueue(device_index, stream_id),
      "The stream id ",
      stream_id,
      " names an external queue, but on device xpu:",
      static_cast<int>(device_index),
      " there is none at this address: it was not given to "
      "getStreamFromExternal, or it has been destroyed");
  return impl::make_stream(device_index, stream_id);
}

XPUStream getStreamFromPool(const bool isHighPriority, DeviceIndex device) {
  return nextFromPool(device, isHighPriority ? impl::kHighestPriority : 0);
}

XPUStream getStreamFromPool(const int priority, DeviceIndex device) {
  TORCH_CHECK(
      priority <= impl::kLowestPriority,
      "The stream priority ",
      priority,
      " is out of range: it must be from ",
      impl::kHighestPriority,
      " (high) to ",
      impl::kLowestPriority,
      " (low)");
  return nextFromPool(device, std::max(priority, impl::kHighestPriority));
}

XPUStream getStreamFromExternal(sycl::queue* queue, DeviceIndex device) {
  TORCH_CHECK(queue, "getStreamFromExternal was given a null queue");
  device = impl::device_or_current(device);
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
      ", which is not xpu:",
      static_cast<int>(device),
      ": make the queue on c10::xpu::get_raw_device(",
      static_cast<int>(device),
      "), or give the ordinal of its device");
  impl::addExternalQueue(device, *queue);
  return impl::make_stream(
      device, static_cast<StreamId>(reinterpret_cast<intptr_t>(queue)));
}

void syncStreamsOnDevice(DeviceIndex device) {
  device = impl::device_or_current(device);
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_device_synchronization();
  }
  // An error of one queue must not keep the others from being waited for.
  std::exception_ptr error;
  const auto wait = [&error](sycl::queue& queue) {
    try {
      // See Note [Asking whether a stream is idle]
      const bool idle = impl::canAskEmpty(queue)
          ? C10_XPU_CHECK(queue.ext_oneapi_empty())
          : impl::isComplete(C10_XPU_CHECK(queue.ext_oneapi_submit_barrier()));
      if (!idle) {
        C10_XPU_CHECK(queue.wait());
      }
      C10_XPU_CHECK(queue.throw_asynchronous());
    } catch (...) {
      if (!error) {
        error = std::current_exception();
      }
    }
  };
  impl::forEachUsedQueue(device, wait);
  for (auto& queue : impl::externalQueues(device)) {
    wait(queue);
  }
  impl::countComplete();
  if (C10_UNLIKELY(error != nullptr)) {
    std::rethrow_exception(error);
  }
  impl::raiseAsyncErrors(device);
}

std::ostream& operator<<(std::ostream& stream, const XPUStream& s) {
  return stream << s.unwrap();
}

} // namespace xpu
} // namespace c10
