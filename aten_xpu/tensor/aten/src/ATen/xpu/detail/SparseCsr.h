#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

// Tensors with a compressed sparse layout, for HostCall.

namespace at::xpu::detail {

using Convert = std::function<Tensor(const Tensor&)>;

/// The key of those on XPU.
c10::DispatchKey sparseCsrKey();

/// A tensor like the other of another device or type, its parts as `convert`
/// returns them.
Tensor newSparseCsr(
    const Tensor& like,
    Device device,
    caffe2::TypeMeta dtype,
    const Convert& convert);

/// Gives `to` the size of `from`, and its parts as `convert` returns them.
void setSparseCsr(const Tensor& to, const Tensor& from, const Convert& convert);

} // namespace at::xpu::detail
