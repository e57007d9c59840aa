#pragma once

#include <c10/util/Optional.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

namespace c10::xpu::impl {

/// Whether the command of an event is complete.
C10_XPU_API bool isComplete(const sycl::event& event);

// Note [Waiting for an event without blocking the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_submit_barrier({event}) needs the backend's handle of the
// event. An event that depends on a host task has none before the host task is
// done, and the call then waits for the host task: for ever, if the calling
// thread is the one that would let it finish. A barrier in a command group that
// depends on the event does not wait, but takes twice as long to submit. Which
// one is needed shows in the event's wait list: it is empty unless the event
// stays in SYCL's own graph.

/// Whether an event still waits in SYCL's graph for a host task. To wait for
/// such an event could be to wait for the calling thread.
C10_XPU_API bool isHeldByHost(const sycl::event& event);

/// Lets what is submitted to an in-order queue from now on wait for the event,
/// and returns the event of the barrier that does so. Never waits itself.
C10_XPU_API sycl::event submitBarrierAfter(
    sycl::queue& queue,
    const sycl::event& event);

// Note [Asking whether a queue is idle]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_empty() must not be used on OpenCL: the adapter reads the
// queue's last event without a lock, and another thread that submits to the
// queue at that time releases it, which ends in INVALID_EVENT or a crash. The
// queue is asked by a marker there: a barrier, which is complete when the call
// returns if the queue is idle. The marker of a busy queue is kept, and while
// it is pending the answer is known to be no, so that a thread that polls adds
// one marker and not thousands. ext_oneapi_get_last_event() is no way out: it
// submits a marker too.

/// Whether ext_oneapi_empty() may be called while other threads submit.
C10_XPU_API bool canAskEmpty(const sycl::queue& queue);

/// Whether a queue has no work. `marker` belongs to the queue; the caller must
/// hold its lock.
bool isIdle(sycl::queue& queue, optional<sycl::event>& marker);

/// Waits for the work of a queue and has its errors delivered. `one_of_many`:
/// other queues are waited for before and after, where OpenCL's wait() for an
/// idle queue takes longer than a marker.
void waitFor(sycl::queue& queue, bool one_of_many);

} // namespace c10::xpu::impl
