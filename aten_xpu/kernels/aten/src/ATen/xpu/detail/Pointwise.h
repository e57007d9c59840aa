#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

// The loops of kernels/Pointwise.sycl, for operators that have a line in
// kernels/Pointwise.def, and for copies.

namespace at::xpu::detail {

/// The types of operators that write down where an integer is divided by 0.
constexpr uint32_t DIVISION = FLOATING | INTEGRAL | 1u << 30;
/// The types of operators that copy integers.
constexpr uint32_t ROUNDING = FLOATING | 1u << 29;
/// The types of kernels/Special.def: half and bfloat16 are computed as float.
constexpr uint32_t SPECIAL = FLOATING | 1u << 31;

/// The kernels: those of the table, one that converts to each type, and those
/// that convert what is float8 in the memory of uint8.
enum class Pointwise : int {
#define XPU_ROW(name, ...) name,
#define XPU_USUAL XPU_ROW
#define XPU_NEW XPU_ROW
#define XPU_GRADIENT XPU_ROW
#define XPU_TENSOR XPU_ROW
#define XPU_TENSORS XPU_ROW
#define XPU_COMPARE XPU_ROW
#define XPU_IS XPU_ROW
#define XPU_PLAIN XPU_ROW
#define XPU_LOGICAL XPU_ROW
#define XPU_OTHER XPU_ROW
#define XPU_MASKED XPU_ROW
#include <ATen/xpu/kernels/Pointwise.def>
#undef XPU_ROW
  to_f64,
  to_f32,
  to_f16,
  to_bf16,
  to_i64,
  to_i32,
  to_i16,
  to_i8,
  to_u8,
  to_b8,
  to_e4m3,
  to_e5m2,
  from_e4m3,
  from_e5m2,
};

/// The kernel that converts to a type.
constexpr Pointwise convertTo(KernelType type) {
  return Pointwise(int(Pointwise::to_f64) + type);
}

/// The numbers that a kernel gets: alpha, beta and gamma.
using PointwiseNumbers = c10::SmallVector<Scalar, 3>;

/// Runs a kernel over an iterator with one output, on the current stream of its
/// device. Arguments and output of other types than the kernel's are converted.
/// Returns false without any effect if the types have no kernel.
bool runPointwise(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const PointwiseNumbers& numbers = {});

/// The set of types that a kernel takes.
uint32_t pointwiseTypes(Pointwise kernel);

/// The function of a kernel, in the source after that of the loops, and how
/// many tensors it reads.
std::string pointwiseFunction(Pointwise kernel);
int pointwiseInputs(Pointwise kernel);

/// Copies the second operand of an iterator to the first, and converts. Returns
/// false without any effect if the types have no kernel.
bool runCopy(TensorIteratorBase& iter);

} // namespace at::xpu::detail
