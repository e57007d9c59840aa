#pragma once

#include <ATen/xpu/detail/Product.h>
#include <ATen/xpu/detail/VendorLibrary.h>

#include <array>
#include <cstddef>
#include <cstdint>

// cuBLASLt, NVIDIA's library for products. It is opened where a program first
// multiplies on an NVIDIA device: of a CUDA toolkit, of pip's package
// nvidia-cublas, or wherever the loader finds it.

namespace at::xpu::detail {

/// What a number of Scales is of, by the numbers of cublasLt.h: the whole
/// matrix, each row of the left or column of the right one, or blocks of it of
/// 128 along the inner dimension, or of 128 x 128.
enum class ScaleOf : int32_t { Matrix = 0, Row = 3, Part = 4, Block = 5 };

/// Of float8: float's numbers on the device by which it is multiplied, in
/// memory as the library reads them, and whether sums may be faster and less
/// exact.
struct Scales {
  Tensor left;
  Tensor right;
  ScaleOf left_is = ScaleOf::Matrix;
  ScaleOf right_is = ScaleOf::Matrix;
  bool fast_sums = false;
};

/// Launches the product by cuBLASLt; false, and nothing done, if it is not
/// there, or does not take the types or the device. It also takes int8, with a
/// result of int, and float8, with one of float, half or bfloat16. GELU is the
/// library's, by tanh.
bool multiplyByCublas(const Product& product, const Scales& scales = {});

// Its functions, as cublasLt.h declares them; handles are pointers.
struct CublasLtAlgorithm {
  std::array<uint64_t, 8> data;
};
struct CublasLtHeuristic {
  CublasLtAlgorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  std::array<int, 4> reserved;
};
struct CublasLt : VendorLibrary {
  CublasLt();

  size_t (*version)() = find("GetVersion");
  int (*create)(void** handle) = find("Create");
  int (*create_desc)(void** desc, int compute, int scale) =
      find("MatmulDescCreate");
  int (*set_desc)(void* desc, int attribute, const void* value, size_t size) =
      find("MatmulDescSetAttribute");
  int (*destroy_desc)(void* desc) = find("MatmulDescDestroy");
  int (*create_layout)(
      void** layout,
      int type,
      uint64_t rows,
      uint64_t cols,
      int64_t leading) = find("MatrixLayoutCreate");
  int (*set_layout)(void* layout, int attribute, const void* value, size_t) =
      find("MatrixLayoutSetAttribute");
  int (*destroy_layout)(void* layout) = find("MatrixLayoutDestroy");
  int (*create_preference)(void** preference) = find("MatmulPreferenceCreate");
  int (*set_preference)(void*, int attribute, const void* value, size_t size) =
      find("MatmulPreferenceSetAttribute");
  int (*destroy_preference)(void* preference) = find("MatmulPreferenceDestroy");
  int (*heuristic)(
      void* handle,
      void* desc,
      void* a,
      void* b,
      void* c,
      void* d,
      void* preference,
      int wanted,
      CublasLtHeuristic* results,
      int* found) = find("MatmulAlgoGetHeuristic");
  int (*matmul)(
      void* handle,
      void* desc,
      const void* alpha,
      const void* a,
      void* layout_a,
      const void* b,
      void* layout_b,
      const void* beta,
      const void* c,
      void* layout_c,
      void* d,
      void* layout_d,
      const CublasLtAlgorithm* algorithm,
      void* workspace,
      size_t workspace_size,
      void* stream) = find("Matmul");
};

/// The library, opened if it was not.
const CublasLt& cublasLt();

/// Its handle for an NVIDIA device, which several threads may use; null where
/// it cannot be had, which was said then, and on other devices.
void* cublasLtHandle(DeviceIndex device);

} // namespace at::xpu::detail
