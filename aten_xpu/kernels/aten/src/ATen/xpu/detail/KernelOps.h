#pragma once

#include <torch/library.h>

#include <string>

namespace at::xpu::detail {

/// The name that an operator is registered by.
template <class Op>
std::string nameOf() {
  const std::string overload = Op::overload_name;
  return Op::name + (overload.empty() ? std::string() : "." + overload);
}

// The operators of kernels/Pointwise.def.
void registerPointwise(torch::Library& library);

/// Has operators added with these when the first tensor is made, if a device of
/// the mapping uses kernels. For initializers of static variables: true.
bool addKernels(void (*add)(torch::Library& library));

} // namespace at::xpu::detail
