#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <string>

namespace at::xpu::detail {

/// Which of the tensors of a convolution is computed from the others.
enum class ConvolutionWay { Output, Input, Weight };

/// A convolution as a vendor's library computes it, output = weight · input: a
/// transposed convolution is that of its gradients, the other way. All are of
/// one type and device, have elements, but less than 2^31, and lie without gaps
/// in the format. The sizes fit.
struct ConvolutionCall {
  const std::string& op; // for the profiler
  ConvolutionWay way{};
  const Tensor& input; // [images, groups * channels, 1 to 3 sizes]
  const Tensor& weight; // [groups * rows, channels, as many]
  const Tensor& output; // [images, groups * rows, as many]
  IntArrayRef stride, padding, dilation; // as many
  int64_t groups = 1;
  MemoryFormat format{}; // channels_last, of 3d too, or Contiguous
  bool tf32 = false; // may be used, of float
};

/// The strides of sizes that lie without gaps, by channels_last or not.
inline c10::DimVector packedStrides(IntArrayRef sizes, bool channels_last) {
  c10::DimVector strides(sizes.size());
  int64_t next = 1;
  const auto take = [&](size_t d) {
    strides[d] = next;
    next *= sizes[d];
  };
  if (channels_last) {
    take(1);
  }
  for (auto d = sizes.size() - 1; d > 1; --d) {
    take(d);
  }
  if (!channels_last) {
    take(1);
  }
  take(0);
  return strides;
}

} // namespace at::xpu::detail
