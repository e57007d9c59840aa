#pragma once

#include <c10/xpu/XPUMacros.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

namespace c10 {
namespace xpu {
namespace impl {

// Note [Waiting for an event without blocking the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_submit_barrier({event}) needs the backend's handle of the
// event. An event that depends on a host task has none before the host task is
// done, and then the call waits for the host task: the thread that submits
// stands still, and for ever if it is the one that lets the host task go on.
//
// A barrier in a command group that depends on the event does not wait: such a
// barrier stays in SYCL's own graph until the event has its handle. But it
// takes 2.2 us instead of 1.1 us. Which one is needed shows in the event's wait
// list: it is empty unless something keeps the event in SYCL's graph. That
// costs 20 ns to ask.

/// Lets what is submitted to an in-order queue from now on wait for an event,
/// and returns the event of the barrier that does so. Never waits itself.
/// Errors of SYCL raise.
C10_XPU_API sycl::event submitBarrierAfter(
    sycl::queue& queue,
    sycl::event& event);

/// Whether the command of an event is complete. Errors of SYCL raise.
C10_XPU_API bool isComplete(const sycl::event& event);

} // namespace impl
} // namespace xpu
} // namespace c10
