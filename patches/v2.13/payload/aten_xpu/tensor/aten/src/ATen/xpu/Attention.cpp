#include <ATen/Functions.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <limits>

// scaled_dot_product_attention asks for the way to go by a table of kernels
// that has no place for XPU in a PyTorch that was built without it. So it is
// composed here, of the operators that it is composed of for the CPU; above
// autograd, which derives those.

namespace at::xpu {

namespace {

// SDPBackend::flash_attention
constexpr int64_t kFlashAttention = 1;

Tensor attention(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const std::optional<Tensor>& mask,
    double dropout,
    bool causal,
    std::optional<double> scale,
    bool enable_gqa) {
  // Nested tensors of all devices have one key for autograd.
  if (query.is_nested() && !query.is_xpu()) {
    return at::native::scaled_dot_product_attention(
        query, key, value, mask, dropout, causal, scale, enable_gqa);
  }
  if (at::_fused_sdp_choice(
          query, key, value, mask, dropout, causal, scale, enable_gqa) !=
      kFlashAttention) {
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query,
        key,
        value,
        mask,
        dropout,
        causal,
        /*dropout_mask=*/{},
        scale,
        enable_gqa));
  }
  auto added = mask;
  if (mask && mask->scalar_type() == kBool) {
    added =
        at::zeros_like(*mask, query.options())
            .masked_fill_(
                mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, causal, added, scale));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, AutogradXPU, m) {
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}
TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}
TORCH_LIBRARY_IMPL(aten, AutogradNestedTensor, m) {
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}
TORCH_LIBRARY_IMPL(aten, NestedTensorXPU, m) {
  m.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

} // namespace at::xpu
