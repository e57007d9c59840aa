#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/KernelTypes.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>

// Attention, by cuDNN or by kernels/Attention.sycl.

namespace at::xpu::detail {

/// What it is of: [images, heads, rows, numbers] each, on one device, which is
/// the current one where it is computed.
struct AttentionCall {
  const std::string& op; // for the profiler
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor mask; // added to the products, or undefined
  bool causal;
  double scale;
  double dropout = 0; // the probability that a weight is 0
  Tensor seed{}; // for dropout: a number each, on the device
  Tensor offset{};
};

/// The gradients of query, key and value.
using AttentionGrads = std::array<Tensor, 3>;

/// Queries of a head, for fewer of which a plan of cuDNN is not worth its time.
constexpr int64_t kFewQueries = 16;

/// The type of a call that kernels take. The host has the checks.
std::optional<KernelType> attentionType(const AttentionCall& call);

/// Has the device's generator give the call seed and offset, and move on by so
/// many words for each subsequence of Philox.
void drawDropout(AttentionCall& call, KernelType type, int64_t count);

/// By one kernel, see Note [Few queries], with results in memory by images,
/// queries and heads; false if it does not take them.
bool attendFew(
    const AttentionCall& call,
    KernelType type,
    const Tensor& out,
    const Tensor& logsumexp);

/// By products and a kernel between them: the result, and the logarithm of the
/// sum of exp for each query [images, heads, queries] in the type that is
/// computed with, both without gaps.
std::tuple<Tensor, Tensor> attendByKernels(
    const AttentionCall& call,
    KernelType type);
/// The gradients, without gaps. `of_mask`, if it is defined, has zeros for each
/// product and gets the gradients of what is added to it.
AttentionGrads attendBackByKernels(
    const AttentionCall& call,
    KernelType type,
    const Tensor& grad,
    const Tensor& logsumexp,
    const Tensor& of_mask = {});

/// Of what a library computed with a mask: results of 0 for queries that it
/// leaves no key.
void keepNone(
    const AttentionCall& call,
    KernelType type,
    const Tensor& out,
    const Tensor& logsumexp);

/// Whether rows, the last dimension of four, begin where vectors of 16 bytes
/// may, and have no part of one.
bool hasAlignedRows(const Tensor& tensor);

/// Whether cuDNN can be asked: for half or bfloat16 on an NVIDIA device of
/// compute capability 8.0 and later, and a mask of the same type or none. It
/// has nothing of the size of queries times keys in memory, but the mask. Sizes
/// may be symbols.
bool attendsByCudnn(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    bool causal);

/// Launches it on the current stream of the device. `logsumexp` is float,
/// [images, heads, queries]; of a query which the mask leaves no key it is -inf
/// or NaN, and the result says nothing. False, and nothing computed, if the
/// library does not take it; without dropout also when a shape comes for the
/// first time.
bool attendByCudnn(
    const AttentionCall& call,
    const Tensor& out,
    const Tensor& logsumexp);

/// The gradients, likewise. Those of queries may differ by roundings from call
/// to call, unless algorithms are to be deterministic.
bool attendBackByCudnn(
    const AttentionCall& call,
    const Tensor& grad,
    const Tensor& out,
    const Tensor& logsumexp,
    const AttentionGrads& grads);

} // namespace at::xpu::detail
