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

/// What images are. Those for NVIDIA that are compiled ahead have an
/// instruction of sm_80: cards before have their kernels compiled when they are
/// first used.
enum class ImageForm { SpirV, Ptx, PtxForOldCards };

/// What images of the device are.
ImageForm imageForm(const sycl::device& device);

/// Whether they are PTX of either kind.
bool takesPtx(const sycl::device& device);

/// PTX as the driver takes it: the compiler says of all that it is for sm_75.
std::string ptxToLoad(ImageForm form, std::string ptx);

/// Where a CUDA toolkit, or packages of pip that are parts of one, may be.
std::vector<std::string> cudaFolders();

/// Compiles a source, an image for each of its kernels. Raises with what the
/// compiler says, and where it is not installed.
std::vector<KernelImage> compileKernels(
    const sycl::device& device,
    const std::string& source);

/// What images of a source are kept by: all that they depend on.
std::string imagesKey(ImageForm form, const std::string& source);

/// The kernels in the bytes of a SYCLBIN. Raises if it is none.
std::vector<KernelImage> imagesOf(const std::string& syclbin);

} // namespace at::xpu::detail
