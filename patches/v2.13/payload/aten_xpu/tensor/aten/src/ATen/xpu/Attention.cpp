#include <ATen/Functions.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/xpu/detail/Operators.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <limits>

// scaled_dot_product_attention chooses a backend by a table of kernels that has
// no place for XPU in a PyTorch that was built without it. So it is composed
// here, of the operators that it is composed of for the CPU. This replaces
// PyTorch's composite kernel for all devices, since tracing calls that one for
// tensors of every device.

namespace at::xpu {

namespace {

// Numbers of SDPBackend.
constexpr int64_t kMathAttention = 0;
constexpr int64_t kFlashAttention = 1;
constexpr int64_t kCudnnAttention = 3;
constexpr int64_t kOverrideableAttention = 4;

/// PyTorch's for the CPU reads sizes, strides and types only: it takes tensors
/// of XPU, fake ones too, as they are. It has nothing for dropout, and nothing
/// for masks with gradients, which kernels have with dropout.
int64_t chosen(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& mask,
    double dropout,
    bool causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const auto with_dropout = detail::kernelHooks().attention_with_dropout;
  const bool drops = dropout > 0 && dropout <= 1 && with_dropout;
  if (drops && mask && mask->dim() < 2) {
    return kMathAttention; // the others refuse it
  }
  const auto of_mask =
      drops && mask ? std::make_optional(mask->detach()) : mask;
  const auto backend = at::native::_fused_sdp_choice_cpp(
      query,
      key,
      value,
      of_mask,
      drops ? 0 : dropout,
      causal,
      scale,
      enable_gqa);
  return drops && backend == kFlashAttention
      ? with_dropout(query, key, value, of_mask.value_or(Tensor()), causal)
      : backend;
}

/// Whether a gradient by torch.func is computed, which may be in vmap.
bool isWrapped(const Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(
      c10::DispatchKey::FuncTorchGradWrapper);
}

/// PyTorch checks this in the function that this file replaces.
void checkArguments(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& mask) {
  TORCH_CHECK(
      query.dtype() == key.dtype() && query.dtype() == value.dtype(),
      "Expected query, key, and value to have the same dtype, but got query.dtype: ",
      query.dtype(),
      " key.dtype: ",
      key.dtype(),
      " and value.dtype: ",
      value.dtype(),
      " instead.");
  TORCH_CHECK(
      query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
      "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: ",
      query.dim(),
      " key.dim: ",
      key.dim(),
      " and value.dim: ",
      value.dim(),
      " instead.");
  TORCH_CHECK(
      !mask || mask->dtype() == at::kBool || mask->dtype() == at::kFloat ||
          mask->dtype() == query.dtype(),
      "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
      mask->dtype(),
      " and  query.dtype: ",
      query.dtype(),
      " instead.");
}

/// Whether each head of the tensor is that of some heads of queries.
bool isShared(const Tensor& query, const Tensor& tensor) {
  return query.dim() > 2 && tensor.dim() > 2 && tensor.sym_size(-3) > 0 &&
      query.sym_size(-3) % tensor.sym_size(-3) == 0;
}

/// As many heads as queries have.
Tensor repeated(const Tensor& query, const Tensor& tensor) {
  const auto times = query.sym_size(-3) / tensor.sym_size(-3);
  return times == 1 ? tensor : tensor.repeat_interleave_symint(times, -3);
}

/// in_vmap: which has its own rules for random numbers
template <bool in_vmap>
Tensor attention(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& mask,
    double dropout,
    bool causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const auto is_empty = [](const Tensor& tensor) {
    return tensor.sym_numel() == 0;
  };
  // Of heads without numbers the result is the mean of values.
  const bool no_scores =
      query.dim() > 1 && query.sym_size(-1) == 0 && !is_empty(query.sum(-1));
  if (!query.is_xpu() || is_empty(value) ||
      (!no_scores && (is_empty(query) || is_empty(key)))) {
    return at::native::scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, scale, enable_gqa);
  }
  checkArguments(query, key, value, mask);
  // Several heads of queries may share one of keys. No operator below takes
  // that as it is: the math of PyTorch repeats keys and values, too.
  if (enable_gqa && isShared(query, key) && isShared(query, value)) {
    return at::scaled_dot_product_attention(
        query,
        repeated(query, key),
        repeated(query, value),
        mask,
        dropout,
        causal,
        scale);
  }
  auto added = mask;
  if (mask && mask->scalar_type() == kBool) {
    added =
        at::zeros_like(*mask, query.options())
            .masked_fill_(
                mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  const bool composed =
      in_vmap || isWrapped(query) || isWrapped(key) || isWrapped(value);
  const auto backend = no_scores || (dropout > 0 && composed)
      ? kMathAttention
      : chosen(query, key, value, mask, dropout, causal, scale, enable_gqa);
  switch (backend) {
    case kFlashAttention:
      return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
          query, key, value, dropout, causal, added, scale));
    case kCudnnAttention:
      return std::get<0>(at::_scaled_dot_product_cudnn_attention(
          query,
          key,
          value,
          added,
          /*compute_log_sumexp=*/true,
          dropout,
          causal,
          /*return_debug_mask=*/false,
          scale));
    case kOverrideableAttention:
      return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(
          query,
          key,
          value,
          added,
          dropout,
          causal,
          /*return_debug_mask=*/false,
          scale));
    default:
      return std::get<0>(at::_scaled_dot_product_attention_math(
          query,
          key,
          value,
          added,
          dropout,
          causal,
          /*dropout_mask=*/{},
          scale,
          enable_gqa));
  }
}

struct Silent final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) final {}
};

template <bool in_vmap>
void replace(torch::Library& m) {
  Silent silent; // PyTorch warns where a kernel is replaced
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  m.impl("scaled_dot_product_attention", TORCH_FN(attention<in_vmap>));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CompositeImplicitAutograd, m) {
  replace<false>(m);
}
// PyTorch registers its composite kernel for vmap as well.
TORCH_LIBRARY_IMPL(aten, FuncTorchBatchedDecomposition, m) {
  replace<true>(m);
}
TORCH_LIBRARY_IMPL(aten, FuncTorchVmapMode, m) {
  replace<true>(m);
}
TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("_fused_sdp_choice", &chosen);
}

} // namespace at::xpu
