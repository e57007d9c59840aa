#include <c10/xpu/impl/XPUBarrier.h>

#include <c10/xpu/XPUException.h>

#include <sycl/handler.hpp>

namespace c10 {
namespace xpu {
namespace impl {

// See Note [Waiting for an event without blocking the host]
sycl::event AwaitedEvent::submitBarrierTo(sycl::queue& queue) {
  if (C10_UNLIKELY(!has_handle_.load(std::memory_order_relaxed)) &&
      C10_XPU_CHECK(get().get_wait_list()).empty()) {
    has_handle_.store(true, std::memory_order_relaxed);
  }
  if (C10_LIKELY(has_handle_.load(std::memory_order_relaxed))) {
    return C10_XPU_CHECK(queue.ext_oneapi_submit_barrier(events_));
  }
  const auto barrier = [this](sycl::handler& handler) {
    handler.depends_on(get());
    handler.ext_oneapi_barrier();
  };
  return C10_XPU_CHECK(queue.submit(barrier));
}

std::atomic<uint64_t> seen_complete{0};

bool isComplete(const sycl::event& event) {
  using Status = sycl::info::event::command_execution_status;
  return C10_XPU_CHECK(event.get_info<Status>()) ==
      sycl::info::event_command_status::complete;
}

} // namespace impl
} // namespace xpu
} // namespace c10
