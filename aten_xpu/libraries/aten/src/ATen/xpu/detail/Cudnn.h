#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/VendorLibrary.h>
#include <c10/macros/Macros.h>

#include <array>
#include <cstddef>
#include <string>

// cuDNN, NVIDIA's library for convolutions. It is opened where a program first
// convolves on an NVIDIA device: of a CUDA toolkit, of pip's package
// nvidia-cudnn-cu13, or wherever the loader finds it.

namespace at::xpu::detail {

/// Which of the tensors of a convolution is computed from the others.
enum class CudnnWay { Output, Input, Weight };

/// output = weight · input: a transposed convolution is that of its gradients,
/// the other way. All are of one type and device, and no sizes are checked.
struct CudnnConvolution {
  const std::string& op; // for the profiler
  CudnnWay way{};
  const Tensor& input; // [images, groups * channels, 1 to 3 sizes]
  const Tensor& weight; // [groups * rows, channels, as many]
  const Tensor& output; // [images, groups * rows, as many]
  IntArrayRef stride, padding, dilation; // as many
  int64_t groups = 1;
  MemoryFormat format{}; // in which it is best computed
};

/// Launches it by cuDNN on the current stream of the device, which is the
/// current one; false, and nothing computed, if the library is not there or
/// does not take it.
bool convolveByCudnn(const CudnnConvolution& convolution);

// Its functions, as cudnn.h declares them; handles and descriptors are
// pointers, and enumerations are int.
struct CudnnAlgorithm { // cudnnConvolutionFwdAlgoPerf_t and the like
  int algorithm;
  int status;
  float time;
  size_t workspace;
  int is_deterministic;
  int math;
  std::array<int, 3> reserved;
};
static_assert(sizeof(CudnnAlgorithm) == 48);

struct Cudnn : VendorLibrary {
  using Create = int (*)(void** made);
  using Destroy = int (*)(void* made);
  size_t (*version)() = nullptr;
  const char* (*words_of)(int status) = nullptr;
  Create create = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  Create create_tensor = nullptr;
  Create create_filter = nullptr;
  Create create_convolution = nullptr;
  Destroy destroy_tensor = nullptr;
  Destroy destroy_filter = nullptr;
  Destroy destroy_convolution = nullptr;
  int (*set_tensor)(
      void* desc,
      int type,
      int dims,
      const int* sizes,
      const int* strides) = nullptr;
  int (*set_filter)(
      void* desc,
      int type,
      int format,
      int dims,
      const int* sizes) = nullptr;
  int (*set_convolution)(
      void* desc,
      int dims,
      const int* padding,
      const int* stride,
      const int* dilation,
      int mode,
      int compute_type) = nullptr;
  int (*set_groups)(void* desc, int groups) = nullptr;
  int (*set_math)(void* desc, int math) = nullptr;

  // For each CudnnWay; `a` and `b` are what the result is computed from, in the
  // order input, weight, output but for Input, where the weight is first.
  using Choose = int (*)(
      void* handle,
      void* desc_a,
      void* desc_b,
      void* convolution,
      void* desc_result,
      int wanted,
      int* found,
      CudnnAlgorithm* algorithms);
  using Convolve = int (*)(
      void* handle,
      const void* alpha,
      void* desc_a,
      const void* a,
      void* desc_b,
      const void* b,
      void* convolution,
      int algorithm,
      void* workspace,
      size_t workspace_size,
      const void* beta,
      void* desc_result,
      void* result);
  std::array<Choose, 3> choose{};
  std::array<Convolve, 3> convolve{};
};

/// The library, opened if it was not.
const Cudnn& cudnn();

/// Whether the device is NVIDIA's and the library can be used for it; if it
/// cannot, that was said when it was first asked.
bool hasCudnn(DeviceIndex device);

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
