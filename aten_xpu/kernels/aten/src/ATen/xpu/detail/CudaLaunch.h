#pragma once

#include <c10/xpu/XPUStream.h>

#include <c10/util/FunctionRef.h> // of 1.13.1 it needs what others include

#include <string>

// What goes past SYCL to CUDA's driver, on the native stream of a queue.

namespace at::xpu::detail {

/// Makes the context of an NVIDIA device the thread's.
void enterCuda(DeviceIndex device);

/// Calls `launch` with a CUstream, in the context of the device, for what goes
/// to CUDA: with the stream's, or where the stream records with one that
/// records into its graph. With TORCH_XPU_LAUNCH_BLOCKING=1, waits for it.
void launchOnCuda(
    c10::xpu::XPUStream stream,
    const std::string& op,
    c10::function_ref<void(void* cuda_stream)> launch);

} // namespace at::xpu::detail
