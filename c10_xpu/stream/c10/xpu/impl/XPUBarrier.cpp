#include <c10/xpu/impl/XPUBarrier.h>

#include <c10/xpu/XPUException.h>

#include <sycl/handler.hpp>

namespace c10::xpu::impl {

bool isComplete(const sycl::event& event) {
  using Status = sycl::info::event::command_execution_status;
  return C10_XPU_CHECK(event.get_info<Status>()) ==
      sycl::info::event_command_status::complete;
}

bool isHeldByHost(const sycl::event& event) {
  sycl::event copy = event; // get_wait_list is not const
  return !C10_XPU_CHECK(copy.get_wait_list()).empty();
}

// See Note [Waiting for an event without blocking the host]
sycl::event submitBarrierAfter(sycl::queue& queue, const sycl::event& event) {
  if (C10_LIKELY(!isHeldByHost(event))) {
    return C10_XPU_CHECK(queue.ext_oneapi_submit_barrier({event}));
  }
  return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
    handler.depends_on(event);
    handler.ext_oneapi_barrier();
  }));
}

// See Note [Asking whether a queue is idle]
bool canAskEmpty(const sycl::queue& queue) {
  // All queues are on the one context, and so of one backend.
  static const bool can = queue.get_backend() != sycl::backend::opencl;
  return can;
}

bool isIdle(sycl::queue& queue, optional<sycl::event>& marker) {
  if (canAskEmpty(queue)) {
    return C10_XPU_CHECK(queue.ext_oneapi_empty());
  }
  if (marker && !isComplete(*marker)) {
    return false;
  }
  marker = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  if (!isComplete(*marker)) {
    return false;
  }
  marker.reset();
  return true;
}

void waitFor(sycl::queue& queue, bool one_of_many) {
  optional<sycl::event> marker;
  const bool ask = one_of_many && !canAskEmpty(queue);
  if (!ask || !isIdle(queue, marker)) {
    C10_XPU_CHECK(queue.wait());
  }
  C10_XPU_CHECK(queue.throw_asynchronous());
}

} // namespace c10::xpu::impl
