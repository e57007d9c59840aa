#pragma once

#include <torch/library.h>

namespace at::xpu::detail {

// The operators of kernels/Pointwise.def.
void registerPointwise(torch::Library& library);

// Those of kernels/Reduce.def; softmax and layer_norm; cumsum and cat.
void registerReduce(torch::Library& library);
void registerRows(torch::Library& library);
void registerScan(torch::Library& library);

} // namespace at::xpu::detail
