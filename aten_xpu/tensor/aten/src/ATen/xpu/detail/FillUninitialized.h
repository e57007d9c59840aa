#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace at::xpu::detail {

// PyTorch 1.13 has no torch.utils.deterministic.fill_uninitialized_memory.
inline void fillEmpty(Tensor& /*tensor*/) {}
inline void fillResized(const Tensor& /*tensor*/, size_t /*old_nbytes*/) {}

} // namespace at::xpu::detail
