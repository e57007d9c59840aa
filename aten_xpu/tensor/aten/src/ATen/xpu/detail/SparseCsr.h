#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

// Tensors with a compressed sparse layout, for HostCall.

namespace at::xpu::detail {

using Convert = std::function<Tensor(const Tensor&)>;

/// A tensor like the other on another device, its parts as `convert` returns
/// them.
Tensor newSparseCsr(const Tensor& like, Device device, const Convert& convert);

/// Gives `to` the size of `from`, and its parts as `convert` returns them.
void setSparseCsr(const Tensor& to, const Tensor& from, const Convert& convert);

/// Part of registerFallbacks.
void registerSparseCsrFallback();

} // namespace at::xpu::detail
