#pragma once

#include <c10/util/FunctionRef.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

#include <atomic>

namespace c10::xpu::impl {

// Note [Work of a stream]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Code that reads results on the host waits for the stream first, and to ask a
// queue whether it is idle can take longer than a small operator. So a stream
// counts what launch() submits, and remembers how much of that was seen to be
// complete. While the numbers are equal, nothing is asked; else the event of
// the last launch is, which is cheaper to ask than the queue.
//
// The marker of an event has no results: code that reads results does not wait
// for it, but XPUStream::query() and synchronize() do. A barrier that waits for
// an event may be complete before earlier work is, as on OpenCL: its event is
// not kept, and the queue is asked instead.
//
// A queue that was handed out, by XPUStream::queue() or native_stream(), can
// get work at any time that the stream does not see. From then on the queue
// itself is asked, see Note [Asking whether a queue is idle]. So is that of an
// external stream. The marker of a busy queue is kept, and while it is pending
// the queue is known to be busy: a thread that polls adds one marker and not
// thousands.

enum class Submitted { Work, Marker, WaitForEvent };

/// Submits work to a stream: `submit` gives it to the queue and returns its
/// event. It runs under a lock of the stream, so it must not use the stream in
/// another way. With TORCH_XPU_LAUNCH_BLOCKING=1, waits for the work.
C10_XPU_API sycl::event launch(
    const XPUStream& stream,
    c10::function_ref<sycl::event(sycl::queue&)> submit,
    Submitted what = Submitted::Work);

/// XPUStream::queue() without handing it out: for calls that submit no work.
C10_XPU_API sycl::queue& queueOf(const XPUStream& stream);

/// Waits for all but markers and raises the errors of that work. The operation
/// has called warn_or_error_on_sync(), before it submitted anything.
C10_XPU_API void waitFor(const XPUStream& stream);

/// Raises the kept errors of a stream.
C10_XPU_API void raiseErrorsOf(DeviceIndex device, StreamId id);

/// Raises what kernels found wrong on a device, where its other errors are
/// raised. Null until there are such kernels.
C10_XPU_API extern std::atomic<void (*)(DeviceIndex)> raise_kernel_errors;

} // namespace c10::xpu::impl
