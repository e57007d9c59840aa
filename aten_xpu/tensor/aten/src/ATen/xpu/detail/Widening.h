#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace at::xpu::detail {

// Note [float16]
// ~~~~~~~~~~~~~~
// A GPU computes with float16 and bfloat16, and some of the CPU's kernels do
// not: they raise an error before they compute. An operator whose kernel has
// done so gets float32 from then on, and what it returns and writes is rounded.
// One that writes a list, where the first may be written before the second
// fails, is tried on copies first. Where another argument has a wider type, the
// kernel is tried each time: it may compute in that. A dtype that was asked for
// is the result's, and float32 is asked for in place of a narrow one.

inline bool isNarrow(ScalarType type) {
  return type == kHalf || type == kBFloat16 || type == kComplexHalf;
}

inline bool isNarrow(const Tensor& tensor) {
  return tensor.defined() && isNarrow(tensor.scalar_type());
}

struct FallbackOperator;

/// Calls the CPU's kernel with the arguments on the stack, which are on the
/// CPU; `narrow` is the type of one that is narrow.
void callCpu(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    c10::optional<ScalarType> narrow,
    torch::jit::Stack* stack);

} // namespace at::xpu::detail
