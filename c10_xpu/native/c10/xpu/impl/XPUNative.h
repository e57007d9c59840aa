#pragma once

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/device.hpp>
#include <sycl/event.hpp>
#include <sycl/queue.hpp>

#include <cstdint>
#include <functional>

namespace c10::xpu::impl {

// Note [Native streams]
// ~~~~~~~~~~~~~~~~~~~~~
// Behind an in-order sycl::queue is an object of the backend, its native
// stream: a CUstream on an NVIDIA device. Libraries of the backend launch on
// it, and SYCL knows nothing of that: while such work runs, ext_oneapi_empty()
// may be true, and wait() may return.
//
// Both share one order, though. A barrier that SYCL submits is complete after
// all that was launched on the native stream before, and what is launched there
// later runs after it. So where the native stream was handed out, the backend
// is asked whether it is idle, and who waits does so for a barrier.
//
// The exception is a host task of SYCL: what is behind one gets to the native
// stream when the host task has run, and so after what was launched meanwhile.

/// The native stream of an in-order queue: a CUstream (NVIDIA), the
/// ze_command_list_handle_t of an immediate command list (Level Zero) or a
/// cl_command_queue (OpenCL). It is the queue's, and valid as long as that is.
/// Raises for another backend, and where Level Zero gives a command queue.
C10_XPU_API void* nativeStream(const sycl::queue& queue);

// Note [Asking whether a queue is idle]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_empty() must not be used on OpenCL: the adapter reads the
// queue's last event without a lock, and another thread that submits to the
// queue at that time releases it, which ends in INVALID_EVENT or a crash. The
// queue is asked by a marker there: a barrier, which is complete when the call
// returns if the queue is idle. ext_oneapi_get_last_event() does not help: it
// submits a marker too. On other backends a marker does not do, since that of
// an idle queue takes a while.

/// Whether a queue has no work left; nothing where only a marker tells, as on
/// OpenCL. Other threads may submit meanwhile. `native` is whether the native
/// stream was handed out, so that the backend is asked as well.
C10_XPU_API optional<bool> isIdle(const sycl::queue& queue, bool native);

/// The milliseconds between two complete events with a time, as NVIDIA's driver
/// measures it; nothing on another device. SYCL's time stamps there are
/// milliseconds since its start in a float: after two minutes they are
/// multiples of 1/128 ms.
C10_XPU_API optional<double> nativeElapsedTime(
    const sycl::event& from,
    const sycl::event& to);

/// The number that CUDA gives a device; nothing if it is not NVIDIA's.
C10_XPU_API optional<int> cudaDevice(const sycl::device& device);

/// Lets what is launched on a CUstream from now on wait for an event of an
/// NVIDIA device. 0 and 1 are the legacy default stream, 2 is the calling
/// thread's. Raises if the driver does.
C10_XPU_API void letCudaStreamWait(uintptr_t stream, const sycl::event& event);

/// A function of CUDA's driver; null where no device is NVIDIA's.
C10_XPU_API void* cudaFunction(const char* name);

/// A function of the OpenCL that SYCL has loaded; null if it has not, or there
/// is none of this name.
C10_XPU_API void* openClFunction(const char* name);

/// Calls a function of CUDA's driver, in which handles are pointers. Raises
/// where it fails.
template <typename... Args>
void callCuda(const char* name, Args... args) {
  auto* const function = reinterpret_cast<int (*)(Args...)>(cudaFunction(name));
  TORCH_CHECK(function, "CUDA's driver has no ", name);
  const int result = function(args...);
  TORCH_CHECK(result == 0, name, " returned ", result);
}

/// The CUcontext that SYCL uses on an NVIDIA device. Each call retains it, for
/// as long as the process lives.
C10_XPU_API void* cudaContext(const sycl::device& device);

/// Makes a CUcontext the thread's, as SYCL does in each of its calls.
C10_XPU_API void enterCudaContext(void* context);

/// Adds to the graph that the queue of an NVIDIA device records what `launch`
/// launches on the CUstream that it is called with.
C10_XPU_API sycl::event recordOnCuda(
    sycl::queue& queue,
    const std::function<void(void* cuda_stream)>& launch);

/// Waits for a CUstream, which is named as above. Raises if the driver does.
C10_XPU_API void synchronizeCudaStream(uintptr_t stream);

} // namespace c10::xpu::impl
