#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

// The loop of kernels/Index.sycl; see Note [Indices] there.

namespace at::xpu::detail {

enum class IndexKernel : int {
  Take, // from where the index leads
  Put, // to where it leads
  Add, // there, times alpha
  Multiply, // there, and so on
  Maximum,
  Minimum,
};

/// An operator with an index, and its error.
struct IndexOp {
  IndexOp(
      const char* name,
      IndexWords words,
      bool is_index_error,
      std::string message = {})
      : name(std::string("aten::") + name),
        code(errorCode(
            {this->name, words, is_index_error, std::move(message)})) {}
  const std::string name;
  const uint32_t code;
};

/// Where an index leads.
struct IndexRange {
  int64_t size = 0;
  int64_t stride = 0; // in elements
  bool from_end = false; // whether those from -size on are indices
  int64_t dim = 0; // for the error
};

/// Whether there is a kernel for tensors of the type on the device.
bool hasIndexKernel(IndexKernel kernel, ScalarType type, DeviceIndex device);

/// Runs a kernel, which there is, on the current stream: over tensors of one
/// shape, or that can be expanded to that of `to`. What the index chooses has
/// strides of 0 in `from` for Take, or in `to` for the others.
void runIndex(
    const IndexOp& op,
    IndexKernel kernel,
    const Tensor& to,
    const Tensor& from,
    const Tensor& index,
    const IndexRange& range,
    const Scalar& alpha = 1);

/// The range of an index that indexPlaces made.
IndexRange rangeOfPlaces();

/// What several indices of one shape lead to together, as an index of elements.
Tensor indexPlaces(
    const IndexOp& op,
    ArrayRef<Tensor> indices,
    ArrayRef<IndexRange> ranges);

// What operators with an index share.

/// Whether the tensors are of the device, and dense.
template <typename... Tensors>
bool areOn(DeviceIndex device, const Tensors&... tensors) {
  const Device wanted(DeviceType::XPU, device);
  return (
      (tensors.device() == wanted && tensors.layout() == kStrided &&
       !tensors.is_quantized()) &&
      ...);
}

/// Raises if elements of the tensor share memory, or it with another.
template <typename... Tensors>
void assertApart(const Tensor& tensor, const Tensors&... others) {
  at::assert_no_internal_overlap(tensor);
  (at::assert_no_overlap(tensor, others), ...);
}

/// Whether an element may be written in an order that differs from run to run
/// although PyTorch is told to compute the same each time: the host does it.
bool mayDiffer(IndexKernel kernel, ScalarType type);

/// A number as a tensor of one element.
Tensor withDim(const Tensor& tensor);

/// An index of one dimension, along `dim` of `dims`.
Tensor alongDim(const Tensor& index, int64_t dim, int64_t dims);

/// Whether both have the same sizes but in one dimension.
bool sameSlices(const Tensor& a, const Tensor& b, int64_t dim);

/// Of these sizes, and does not move along with `dim`.
Tensor restrided(const Tensor& tensor, int64_t dim, IntArrayRef sizes);

IndexRange rangeOf(const Tensor& tensor, int64_t dim, bool from_end = false);

/// A number of the tensor's type on its device.
Tensor numberOn(const Tensor& self, const Scalar& value);

/// Writes the number of each element that is counted, or the part of it that
/// belongs to a dimension of `size` with `inner` elements. `counts` has the
/// sums of ones and zeros, from the first on.
void runNonzero(
    const std::string& op,
    const Tensor& column,
    const Tensor& counts,
    int64_t inner,
    int64_t size);

/// Writes the triangle of matrices without gaps; `to` may be `from`. Returns
/// false if no kernel fits.
bool runTriangle(
    const std::string& op,
    const Tensor& to,
    const Tensor& from,
    int64_t diagonal,
    bool upper);

/// Numbers from `start`, and from the middle on those before `last`.
struct Sequence {
  Scalar start;
  Scalar step;
  Scalar last;
  int64_t middle;
};

/// Whether there is a kernel for its type.
bool hasSequences(const Tensor& tensor);

/// Writes them to a tensor without gaps.
void runSequence(
    const std::string& op,
    const Tensor& to,
    const Sequence& numbers);

} // namespace at::xpu::detail
