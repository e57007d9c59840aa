#pragma once

#include <torch/library.h>

namespace at::xpu::detail {

// The operators of kernels/Pointwise.def.
void registerPointwise(torch::Library& library);

/// sum.
void registerReduce(torch::Library& library);

} // namespace at::xpu::detail
