#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <array>
#include <cstdint>
#include <string>

// Tensors that are sampled along their last dimensions, kernels/Sample.sycl.

namespace at::xpu::detail {

enum SampleKernel { kSample, kMaxPool, kMaxPoolBack };

// As in the source, see Note [Sampling].
enum class SampleMode : uint32_t {
  Window,
  Adaptive,
  Nearest,
  Exact,
  Reflect,
  Replicate
};
constexpr uint32_t kSampleWithPadding = 1;
constexpr uint32_t kSampleSum = 2;

struct SampleAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t a = 1;
  int64_t b = 1; // 0 of adaptive_max_pool
  int64_t c = 0;
  int64_t d = 1; // of max_pool
  double scale = 1;
};

/// How the last `dims` dimensions are sampled.
struct Sampling {
  SampleMode mode;
  int dims;
  uint32_t flags = 0;
  double factor = 1;
  std::array<SampleAxis, 3> axes{};

  /// That of the first of the dimensions, and so on.
  SampleAxis& axis(int64_t i) {
    return axes[3 - dims + i];
  }
};

/// One of the sizes of forward's tensors.
Sampling samplingOf(int dims, SampleMode mode, IntArrayRef in, IntArrayRef out);

/// One of the numbers for each dimension, or that of all.
inline int64_t numberOf(IntArrayRef numbers, int64_t i) {
  return numbers[numbers.size() == 1 ? 0 : i];
}

/// Windows of pooling. Without a stride they are side by side.
void setWindows(
    Sampling& sampling,
    IntArrayRef size,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation = 1);

/// The elements of integers, and of what else kernels do not compute with. `of`
/// says which, for a dimension and the numbers of the result's elements.
template <typename Of>
bool chooseElements(
    const Tensor& result,
    const Tensor& self,
    const Sampling& sampling,
    const Of& of) {
  if (result.numel() == 0) {
    return true;
  }
  auto chosen = self;
  for (int i = 0; i < sampling.dims; ++i) {
    const auto dim = self.dim() - sampling.dims + i;
    const auto& axis = sampling.axes[3 - sampling.dims + i];
    const auto numbers = at::arange(axis.out, self.options().dtype(kLong));
    chosen = chosen.index_select(dim, of(axis, numbers));
  }
  result.copy_(chosen);
  return true;
}

/// Launches an item for each element of the result. Returns false, and changes
/// nothing, if no kernel fits. The argument has as many dimensions. The indices
/// of max_pool are written, or read if `back`, for the gradient.
bool runSampling(
    const std::string& op,
    SampleKernel kernel,
    const Tensor& result,
    const Tensor& given,
    const Sampling& sampling,
    bool back,
    const Tensor& indices = Tensor());

} // namespace at::xpu::detail
