#pragma once

#include <torch/library.h>

namespace at::xpu::detail {

// The operators of kernels/Pointwise.def.
void registerPointwise(torch::Library& library);

/// Has operators added with these when the first tensor is made, if a device of
/// the mapping uses kernels. For initializers of static variables: true.
bool addKernels(void (*add)(torch::Library& library));

} // namespace at::xpu::detail
