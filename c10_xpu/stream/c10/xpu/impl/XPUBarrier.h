#pragma once

#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

namespace c10::xpu::impl {

/// Whether the command of an event is complete.
C10_XPU_API bool isComplete(const sycl::event& event);

// Note [Waiting for an event without blocking the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_submit_barrier({event}) needs the backend's handle of the
// event. An event that depends on a host task has none before the host task is
// done, and the call then waits for the host task: forever, if only the calling
// thread can let it finish. A barrier in a command group that depends on the
// event does not wait, but takes twice as long to submit. The event's wait list
// tells which one is needed: it is empty unless the event is in SYCL's graph.

/// Whether an event is still in SYCL's graph because of a host task. A thread
/// that waits for it blocks forever if the host task waits for that thread.
C10_XPU_API bool isHeldByHost(const sycl::event& event);

/// Lets what is submitted to an in-order queue from now on wait for the event,
/// and returns the event of the barrier that does so. `held` is the result of
/// isHeldByHost(event); with it the call itself never waits.
C10_XPU_API sycl::event submitBarrierAfter(
    sycl::queue& queue,
    const sycl::event& event,
    bool held);

/// Has SYCL deliver the errors of work that is complete. Those of a stream are
/// kept when it returns, also where another thread delivers them.
C10_XPU_API void deliverErrors(sycl::queue& queue);
C10_XPU_API void deliverErrors(sycl::event& event);

/// With TORCH_XPU_LAUNCH_BLOCKING=1, waits for what was just submitted to a
/// stream and raises the stream's errors, unless it is held by the host.
C10_XPU_API void waitIfBlocking(
    const XPUStream& stream,
    const sycl::event& submitted);

// Note [Asking whether a queue is idle]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_empty() must not be used on OpenCL: the adapter reads the
// queue's last event without a lock, and another thread that submits to the
// queue at that time releases it, which ends in INVALID_EVENT or a crash. The
// queue is asked by a marker there: a barrier, which is complete when the call
// returns if the queue is idle. The marker of a busy queue is kept, and while
// it is pending the queue is known to be busy, so that a thread that polls adds
// one marker and not thousands. ext_oneapi_get_last_event() does not help: it
// submits a marker too.

/// Whether ext_oneapi_empty() may be called while other threads submit.
C10_XPU_API bool canAskEmpty(const sycl::queue& queue);

} // namespace c10::xpu::impl
