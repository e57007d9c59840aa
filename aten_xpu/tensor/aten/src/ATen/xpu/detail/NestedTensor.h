#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

// Nested tensors of PyTorch's C++ library (torch.strided), for HostCall.

namespace at::xpu::detail {

/// A tensor like the other over another storage, in which its parts begin
/// `offset` elements later.
Tensor newNested(
    const Tensor& like,
    Storage storage,
    c10::DispatchKeySet keys,
    int64_t offset);

} // namespace at::xpu::detail
