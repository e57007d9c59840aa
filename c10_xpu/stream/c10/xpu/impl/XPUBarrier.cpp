#include <c10/xpu/impl/XPUBarrier.h>

#include <c10/util/env.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <mutex>

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

// SYCL takes the errors of all queues from its list before it calls their
// handlers. Another thread must not return in between. A handler of an external
// queue may come back here.
static auto& delivering = *new std::recursive_mutex;

void deliverErrors(sycl::queue& queue) {
  std::lock_guard<std::recursive_mutex> lock(delivering);
  C10_XPU_CHECK(queue.throw_asynchronous());
}

void deliverErrors(sycl::event& event) {
  std::lock_guard<std::recursive_mutex> lock(delivering);
  C10_XPU_CHECK(event.wait_and_throw());
}

void waitIfBlocking(const XPUStream& stream, const sycl::event& submitted) {
  static const bool blocking =
      c10::utils::check_env("TORCH_XPU_LAUNCH_BLOCKING") == true;
  if (C10_UNLIKELY(blocking) && !isHeldByHost(submitted)) {
    sycl::event event = submitted; // wait_and_throw is not const
    C10_XPU_CHECK(event.wait());
    deliverErrors(event);
    raiseErrorsOf(stream.device_index(), stream.id());
  }
}

} // namespace c10::xpu::impl
