#pragma once

#include <ATen/xpu/detail/ConvolutionCall.h>
#include <ATen/xpu/detail/VendorLibrary.h>
#include <c10/macros/Macros.h>

#include <array>
#include <cstddef>
#include <string>

// cuDNN, NVIDIA's library for convolutions. It is opened where a program first
// convolves on an NVIDIA device: of a CUDA toolkit, of pip's package
// nvidia-cudnn-cu13, or wherever the loader finds it.

namespace at::xpu::detail {

/// Whether it can be asked for a convolution of such an input.
bool convolvesByCudnn(const Tensor& input);

/// Launches it on the current stream of the device, which is the current one,
/// where the function above is true; false, and nothing computed, if the
/// library does not take it.
bool convolveByCudnn(const ConvolutionCall& call);

// Its functions, as cudnn.h declares them; handles and descriptors are
// pointers, and enumerations are int.
struct Cudnn : VendorLibrary {
  Cudnn();

  size_t (*version)() = find("GetVersion");
  const char* (*words_of)(int status) = find("GetErrorString");
  int (*create)(void** handle) = find("Create");
  int (*set_stream)(void* handle, void* stream) = find("SetStream");
  int (*create_object)(int kind, void** made) = find("BackendCreateDescriptor");
  int (*destroy_object)(void* made) = find("BackendDestroyDescriptor");
  int (*set_object)(
      void* object,
      int attribute,
      int type,
      int64_t count,
      const void* values) = find("BackendSetAttribute");
  int (*get_object)(
      void* object,
      int attribute,
      int type,
      int64_t wanted,
      int64_t* count,
      void* values) = find("BackendGetAttribute");
  int (*finalize_object)(void* object) = find("BackendFinalize");
  int (*execute)(void* handle, void* plan, void* pack) = find("BackendExecute");
};

/// The library, opened if it was not.
const Cudnn& cudnn();

/// Whether the device is NVIDIA's and the library can be used for it; if it
/// cannot, that was said when it was first asked.
bool hasCudnn(DeviceIndex device);

/// Whether a device that has it is of sm_80 or later.
bool isRecentCard(DeviceIndex device);

/// A handle of the library for a device that has it, for one thread while this
/// lives.
class CudnnHandle {
 public:
  /// If others use all that were made, makes one or waits: none can be made
  /// where CUDA captures.
  CudnnHandle(DeviceIndex device, bool may_make);
  ~CudnnHandle();
  C10_DISABLE_COPY_AND_ASSIGN(CudnnHandle);

  void* get() const {
    return handle_;
  }

  /// Has the library launch on a CUstream; gives the status. To tell it so
  /// takes longer than many a convolution, and is left out where it knows.
  int use(void* cuda_stream);

 private:
  DeviceIndex device_;
  void* handle_ = nullptr;
  void* stream_ = nullptr; // that it has
};

} // namespace at::xpu::detail
