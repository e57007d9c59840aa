#pragma once

#include <ATen/core/stack.h>
#include <ATen/native/CPUFallback.h>
#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace at::xpu {

// Note [Fallback]
// ~~~~~~~~~~~~~~~
// An operator without a kernel for XPU runs PyTorch's kernel for the CPU, by
// one boxed function; see HostCall for memory and order. Operators that need
// something else are in SpecialOps.cpp, each with the reason.
//
// As with CUDA, the tensors must be of one device; a tensor of the CPU may be
// among them if it is a scalar, or an index.
//
// TORCH_XPU_FALLBACK=warn   warns when an operator does so for the first time
//                   =error  raises instead

/// Runs the CPU's kernel of the operator with the arguments on the stack.
C10_EXPORT void fallback(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack);

/// For a kernel of XPU that leaves a call to the host, for its device or dtype:
///
///   Tensor erfinv(const Tensor& x) {
///     if (x.scalar_type() != kFloat) {
///       return OnHost<at::_ops::erfinv>::call(x);
///     }
template <class Op>
using OnHost = at::native::call_fallback_fn<&fallback, Op>;

/// The same for tensors that are not dense: it dispatches once more, since the
/// CPU's kernel depends on which of the arguments are dense.
void dispatchingFallback(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack);

/// What fell back since the start of the process or the last reset.
struct FallbackCount {
  std::string name; // of the operator, such as aten::add.out
  uint64_t calls;
  uint64_t bytes_copied; // between host and device
};

/// By name. Both may be called from any thread.
C10_EXPORT std::vector<FallbackCount> fallbackStatistics();
C10_EXPORT void resetFallbackStatistics();

} // namespace at::xpu
