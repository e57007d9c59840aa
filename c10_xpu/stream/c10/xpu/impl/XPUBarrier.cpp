#include <c10/xpu/impl/XPUBarrier.h>

#include <c10/xpu/XPUException.h>

#include <sycl/handler.hpp>

namespace c10 {
namespace xpu {
namespace impl {

sycl::event submitBarrierAfter(sycl::queue& queue, sycl::event& event) {
  // See Note [Waiting for an event without blocking the host]
  if (C10_LIKELY(C10_XPU_CHECK(event.get_wait_list()).empty())) {
    return C10_XPU_CHECK(queue.ext_oneapi_submit_barrier({event}));
  }
  const auto barrier = [&event](sycl::handler& handler) {
    handler.depends_on(event);
    handler.ext_oneapi_barrier();
  };
  return C10_XPU_CHECK(queue.submit(barrier));
}

bool isComplete(const sycl::event& event) {
  using Status = sycl::info::event::command_execution_status;
  return C10_XPU_CHECK(event.get_info<Status>()) ==
      sycl::info::event_command_status::complete;
}

} // namespace impl
} // namespace xpu
} // namespace c10
