#pragma once

#include <torch/library.h>

#include <string>

#if __has_include(<ATen/ops/_foreach_lerp.h>)
#define XPU_LATER_OPERATORS // than PyTorch 1.13's
#endif

namespace at::xpu::detail {

/// The name that an operator is registered by.
std::string nameOf(const char* name, const std::string& overload);
template <class Op>
std::string nameOf() {
  return nameOf(Op::name, Op::overload_name);
}

/// Calls PyTorch's function for the CPU with tensors of XPU: of an operator
/// whose function only calls others.
template <class Op, typename... Args>
auto callComposed(const Args&... args) {
  return Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), args...);
}

// The operators of kernels/Pointwise.def.
void registerPointwise(torch::Library& library);

/// Has operators added with these when the first tensor is made, if a device of
/// the mapping uses kernels, or always. For initializers of static variables:
/// true.
bool addKernels(void (*add)(torch::Library& library), bool always = false);

} // namespace at::xpu::detail
