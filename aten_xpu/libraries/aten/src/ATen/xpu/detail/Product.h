#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <string>

// Products of matrices, by the vendor's library or by kernels/Product.sycl.

namespace at::xpu::detail {

// Note [Products]
// ~~~~~~~~~~~~~~~
// An operator makes one call of a Product. On an NVIDIA device cuBLASLt
// computes it if that is found, see CublasLt.h, and on a device of Intel's
// oneDNN, see OneDnn.h; what they do not take, and on every other device all, a
// kernel of tiles does.

/// Matrices of a tensor. Strides are in elements, and any.
struct Matrices {
  Tensor tensor; // undefined if there are none
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;

  /// Of a tensor of one dimension, as a column, two or three.
  static Matrices of(const Tensor& tensor);
  static Matrices row(const Tensor& vector);

  void* data() const {
    return tensor.data_ptr();
  }
  Matrices transposed() const;
  /// As a tensor: [batch, rows, cols].
  Tensor view() const;
  /// Such ones in another tensor, row by row without gaps.
  Matrices withoutGaps(const Tensor& other) const;
  /// A copy, row by row without gaps.
  Matrices copied() const;
};

/// Whether the products of floats may be rounded to TF32: PyTorch's flag for
/// matrices, and no guard of its own forbids it.
bool productsAllowTf32();

enum class Activation : uint8_t { None, Relu, Gelu };

/// out = alpha · left · right + beta · self, for each matrix of a batch, or the
/// activation of that. All are of one device, and of one type, but see
/// multiplyByCublas(). Of half and bfloat16 `out` may be float; then alpha is
/// 1, beta 0 or 1, and self is out.
struct Product {
  const std::string& op; // for the profiler
  Matrices out; // [batch, rows, cols], which left and right do not overlap
  Matrices left; // [batch, rows, inner]
  Matrices right; // [batch, inner, cols]
  Matrices self{}; // like out, or out itself; not read where beta is 0
  Scalar beta = 0;
  Scalar alpha = 1;
  Activation activation = Activation::None;
};

/// Whether matrices of the type can be multiplied on the device, with sizes
/// below 2^31.
bool canMultiply(const Tensor& left, const Tensor& right);

/// Launches it on the current stream of the device, which is the current one.
void multiply(const Product& product);

// The loop of kernels/Tile.sycl, see Note [Tiles].
constexpr int64_t kTile = 64; // rows and columns
constexpr int64_t kTileStep = 16; // of the inner size
constexpr int64_t kTileItems = 256; // of a group

/// The source for a type, behind which come kernels that use the loop.
std::string tileSource(int type);

/// How many tiles a matrix has.
int64_t tilesOf(int64_t rows, int64_t cols);

} // namespace at::xpu::detail
