#pragma once

#include <sycl/device.hpp>

#include <string>
#include <vector>

// Kernels as SYCL's run-time compiler makes them.

namespace at::xpu::detail {

/// The code of one kernel: SPIR-V, or PTX on an NVIDIA device.
struct KernelImage {
  std::string kernel; // the name that the code has it by
  std::string code;
};

/// Whether images of the device are PTX.
bool takesPtx(const sycl::device& device);

/// Compiles a source, an image for each of its kernels. Raises with what the
/// compiler says, and where it is not installed.
std::vector<KernelImage> compileKernels(
    const sycl::device& device,
    const std::string& source);

/// What the result depends on besides the source, for a cache.
std::string compilerKey(const sycl::device& device);

/// The kernels in the bytes of a SYCLBIN. Raises if it is none.
std::vector<KernelImage> imagesOf(const std::string& syclbin);

} // namespace at::xpu::detail
