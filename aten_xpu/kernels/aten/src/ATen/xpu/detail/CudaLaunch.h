#pragma once

#include <c10/util/Exception.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUNative.h>

#include <sycl/backend.hpp>
#include <sycl/handler.hpp>

#include <functional>
#include <string>

// What goes past SYCL to CUDA's driver, on the native stream of a queue.

namespace at::xpu::detail {

/// Calls a function of the driver, in which handles are pointers. Raises where
/// it fails.
template <typename... Args>
void callCuda(const char* name, Args... args) {
  auto* const function =
      reinterpret_cast<int (*)(Args...)>(c10::xpu::impl::cudaFunction(name));
  TORCH_CHECK(function, "CUDA's driver has no ", name);
  const int result = function(args...);
  TORCH_CHECK(result == 0, name, " returned ", result);
}

/// Makes the context of an NVIDIA device the thread's, as SYCL does in each of
/// its calls.
void enterCuda(DeviceIndex device);

/// The CUstream of a stream.
void* cudaStream(c10::xpu::XPUStream stream);

/// Has SYCL call a function when it makes the graph of CUDA that the stream
/// records, with a CUgraph that becomes a part of it.
void recordOnCuda(
    sycl::handler& handler,
    DeviceIndex device,
    const std::function<void(CUgraph)>& add);

/// Calls `launch` with the stream's CUstream, in the context of the device, for
/// what a library of CUDA launches there. Where the stream records, it is
/// called when CUDA's graph is made, with a CUstream that records into that.
void launchOnCuda(
    c10::xpu::XPUStream stream,
    const std::string& op,
    const std::function<void(void* cuda_stream)>& launch);

/// With TORCH_XPU_LAUNCH_BLOCKING=1, waits for what was launched.
void waitIfBlocking(c10::xpu::XPUStream stream);

} // namespace at::xpu::detail
