#pragma once

#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

namespace c10::xpu::impl {

/// Whether the command of an event is complete.
C10_XPU_API bool isComplete(const sycl::event& event);

/// Whether an event is still in SYCL's graph because of a host task: its wait
/// list is empty unless it is. A thread that waits for it blocks forever if the
/// host task waits for that thread.
C10_XPU_API bool isHeldByHost(const sycl::event& event);

/// Has SYCL deliver the errors of work that is complete. Those of a stream are
/// kept when it returns, also where another thread delivers them.
C10_XPU_API void deliverErrors(sycl::queue& queue);
C10_XPU_API void deliverErrors(sycl::event& event);

/// With TORCH_XPU_LAUNCH_BLOCKING=1, waits for what was just submitted to a
/// stream and raises the stream's errors, unless it is held by the host.
C10_XPU_API void waitIfBlocking(
    const XPUStream& stream,
    const sycl::event& submitted);

} // namespace c10::xpu::impl
