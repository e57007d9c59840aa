#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace c10 {
class OperatorHandle;
}

namespace at::xpu::detail {

// Note [float16]
// ~~~~~~~~~~~~~~
// A GPU computes with float16, bfloat16 and complex32, and some of the CPU's
// kernels do not: they raise an error before they compute. WideningTable.h
// says which. Such an operator gets float32, and what it returns and writes is
// rounded. A dtype that was asked for is the result's, and float32 is asked for
// in place of a narrow one.
//
// The kernel is tried with the arguments as they are, in each call, where the
// table cannot tell: where another argument has a wider type, in which it may
// compute, and for operators that are not PyTorch's. One that writes a list,
// where the first may be written before the second fails, is tried on copies.

/// A set of narrow types.
enum NarrowTypes : uint8_t {
  kNoNarrowType = 0,
  kNarrowHalf = 1,
  kNarrowBFloat16 = 2,
  kNarrowComplexHalf = 4,
  kAllNarrowTypes = 7,
};

constexpr NarrowTypes operator|(NarrowTypes a, NarrowTypes b) {
  return static_cast<NarrowTypes>(uint8_t(a) | uint8_t(b));
}

/// The set with this type if it is narrow, else the empty one.
inline NarrowTypes narrowType(ScalarType type) {
  return type == kHalf       ? kNarrowHalf
      : type == kBFloat16    ? kNarrowBFloat16
      : type == kComplexHalf ? kNarrowComplexHalf
                             : kNoNarrowType;
}

/// Operators whose kernels for the CPU lack narrow types.
struct LackingOps {
  NarrowTypes types;
  std::string_view ops; // each between spaces
};

/// The types that the CPU's kernels of an operator of aten lack.
C10_EXPORT NarrowTypes typesThatCpuLacks(const std::string& op);

struct FallbackOperator;

/// Calls the CPU's kernel with the arguments on the stack, which are on the
/// CPU and have these narrow types.
void callCpu(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    NarrowTypes narrow,
    torch::jit::Stack* stack);

} // namespace at::xpu::detail
