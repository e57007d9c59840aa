#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

// Attention by cuDNN: nothing of the size of queries times keys is in memory,
// but a mask.

namespace at::xpu::detail {

/// Queries of a head, for fewer of which a plan is not worth its time.
constexpr int64_t kFewQueries = 16;

/// Whether rows, the last dimension of four, begin where vectors of 16 bytes
/// may, and have no part of one.
bool hasAlignedRows(const Tensor& tensor);

/// Whether the library can be asked: for half or bfloat16 on an NVIDIA device,
/// with [images, heads, rows, numbers] each, and a mask of the same type or
/// none.
bool attendsByCudnn(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    bool causal);

/// Launches it on the current stream of the device, which is the current one.
/// `mask` is added to the products, or undefined. `logsumexp` is float,
/// [images, heads, queries]; of a query which the mask leaves no key it is -inf
/// or NaN, and the result says nothing. False, and nothing computed, if the
/// library does not take it.
bool attendByCudnn(
    const std::string& op,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    const Tensor& out,
    const Tensor& logsumexp,
    bool causal,
    double scale);

/// The gradients of query, key and value, likewise. Those of queries may differ
/// by roundings from call to call, unless algorithms are to be deterministic.
bool attendBackByCudnn(
    const std::string& op,
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    const Tensor& out,
    const Tensor& logsumexp,
    const std::array<Tensor, 3>& grads,
    bool causal,
    double scale);

} // namespace at::xpu::detail
