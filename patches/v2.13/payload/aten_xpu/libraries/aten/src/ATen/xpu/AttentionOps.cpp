#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/xpu/detail/Attention.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/StructuredCall.h>

#include <array>
#include <cmath>
#include <tuple>

// Attention as scaled_dot_product_attention chooses it: by cuDNN where it takes
// it, or else by kernels. Without dropout both have one operator, that of the
// CPU. With it each has its own, since only who drew the numbers for the
// forward can draw them again for the backward.

namespace at::xpu::detail {

namespace {

// Numbers of SDPBackend.
enum AttentionBackend : int64_t { kMath = 0, kByCudnn = 3, kByKernels = 4 };

/// Of a call with dropout that the fused operators take.
int64_t backendWithDropout(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    bool causal) {
  const auto type = query.scalar_type();
  if ((type != kFloat && type != kHalf && type != kBFloat16) ||
      !usesKernels(query.device().index()) || !alike(key, query) ||
      !alike(value, query) || key.sym_size(2) != value.sym_size(2) ||
      (mask.defined() && (causal || mask.device() != query.device()))) {
    return kMath; // or it raises
  }
  // Other masks may have gradients, and whether they have must not matter: a
  // checkpoint draws numbers again with them.
  const bool bool_or_none = !mask.defined() || mask.scalar_type() == kBool;
  return bool_or_none && !at::globalContext().deterministicAlgorithms() &&
          attendsByCudnn(query, key, value, Tensor(), causal)
      ? kByCudnn
      : kByKernels;
}

double scaleOf(c10::optional<double> scale, const Tensor& query) {
  return scale ? *scale : 1 / std::sqrt(double(query.size(3)));
}

/// [images, heads, rows, numbers], in memory by rows, then by heads, as PyTorch
/// has results.
Tensor emptyByRows(const Tensor& like, int64_t numbers) {
  return at::empty(
             {like.size(0), like.size(2), like.size(1), numbers},
             like.options())
      .transpose(1, 2);
}

Tensor byRows(const Tensor& tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

/// In memory in the order of the dimensions of another.
Tensor emptyInOrder(const Tensor& other, int64_t numbers) {
  auto sizes = other.sizes().vec();
  sizes.back() = numbers;
  return numbers == other.size(3)
      ? at::empty_like(other)
      : at::empty_like(other.narrow(3, 0, 1).expand(sizes));
}

/// Tensors that cuDNN writes: these, or where their last dimension has gaps,
/// others.
Tensor placeToWrite(const Tensor& tensor) {
  return tensor.stride(3) == 1 ? tensor
                               : at::empty(tensor.sizes(), tensor.options());
}

/// A result in the place of a tensor.
Tensor placed(const Tensor& place, const Tensor& result) {
  const bool there =
      place.is_same(result) || place.strides() == result.strides();
  return there ? result : place.copy_(result);
}

std::tuple<Tensor, Tensor> attentionForward(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    double dropout,
    bool causal,
    const c10::optional<Tensor>& mask,
    c10::optional<double> scale) {
  static const std::string name = "aten::scaled_dot_product_attention";
  const AttentionCall call{
      name, query, key, value, tensorOf(mask), causal, scaleOf(scale, query)};
  const auto type = dropout == 0 ? attentionType(call) : std::nullopt;
  if (!type) {
    return OnHost<at::_ops::_scaled_dot_product_flash_attention_for_cpu>::call(
        query, key, value, dropout, causal, mask, scale);
  }
  const c10::xpu::XPUGuard guard(query.device());
  const auto out = emptyByRows(query, value.size(3));
  const auto logsumexp = at::empty(
                             {query.size(0), query.size(2), query.size(1)},
                             query.options().dtype(computedType(*type)))
                             .transpose(1, 2);
  if (attendsByCudnn(query, key, value, call.mask, causal) &&
      attendByCudnn(call, out, logsumexp)) {
    if (call.mask.defined()) {
      keepNone(call, *type, out, logsumexp);
    }
    return {out, logsumexp};
  }
  if (attendFew(call, *type, out, logsumexp)) {
    return {out, logsumexp};
  }
  const auto [made, sums] = attendByKernels(call, *type);
  return {byRows(made), byRows(sums)};
}

std::tuple<Tensor, Tensor, Tensor> attentionBackward(
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& out,
    const Tensor& logsumexp,
    double dropout,
    bool causal,
    const c10::optional<Tensor>& mask,
    c10::optional<double> scale) {
  static const std::string name = "aten::scaled_dot_product_attention_backward";
  const AttentionCall call{
      name, query, key, value, tensorOf(mask), causal, scaleOf(scale, query)};
  const auto type = dropout == 0 ? attentionType(call) : std::nullopt;
  if (!type || !alike(grad, query)) {
    return OnHost<
        at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>::
        call(
            grad,
            query,
            key,
            value,
            out,
            logsumexp,
            dropout,
            causal,
            mask,
            scale);
  }
  const c10::xpu::XPUGuard guard(query.device());
  if (attendsByCudnn(query, key, value, call.mask, causal)) {
    const AttentionGrads grads{
        emptyByRows(query, query.size(3)),
        emptyByRows(key, key.size(3)),
        emptyByRows(value, value.size(3))};
    if (attendBackByCudnn(call, grad, out, logsumexp, grads)) {
      return {grads[0], grads[1], grads[2]};
    }
  }
  const auto [of_query, of_key, of_value] =
      attendBackByKernels(call, *type, grad, logsumexp.contiguous());
  return {byRows(of_query), byRows(of_key), byRows(of_value)};
}

using AttentionWithDropout = std::tuple<
    Tensor, // the result
    Tensor, // logsumexp
    Tensor,
    Tensor,
    c10::SymInt, // queries
    c10::SymInt, // keys
    Tensor, // seed
    Tensor, // offset
    Tensor>;

/// What the backend takes, with its type; else it raises.
std::tuple<AttentionCall, KernelType> callOf(
    AttentionBackend backend,
    const std::string& op,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    double dropout,
    bool causal,
    c10::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      query.dim() == 4, op, " wants tensors of four dimensions");
  AttentionCall call{
      op, query, key, value, mask, causal, scaleOf(scale, query), dropout};
  const auto type = attentionType(call);
  TORCH_CHECK_NOT_IMPLEMENTED(
      type &&
          (backend == kByKernels ||
           attendsByCudnn(query, key, value, mask, causal)),
      op,
      " cannot compute attention of such tensors; scaled_dot_product_attention "
      "chooses what can");
  return {call, *type};
}

AttentionWithDropout results(
    const AttentionCall& call,
    const Tensor& out,
    const Tensor& logsumexp) {
  return {
      out,
      logsumexp,
      Tensor(),
      Tensor(),
      call.query.size(2),
      call.key.size(2),
      call.seed,
      call.offset,
      Tensor()};
}

AttentionWithDropout cudnnForward(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const c10::optional<Tensor>& mask,
    bool /*compute_log_sumexp*/,
    double dropout,
    bool causal,
    bool /*return_debug_mask*/,
    c10::optional<double> scale) {
  static const std::string name = "aten::_scaled_dot_product_cudnn_attention";
  auto [call, type] = callOf(
      kByCudnn,
      name,
      query,
      key,
      value,
      tensorOf(mask),
      dropout,
      causal,
      scale);
  const c10::xpu::XPUGuard guard(query.device());
  const auto place = emptyInOrder(query, value.size(3));
  const auto out = placeToWrite(place);
  const auto logsumexp = at::empty(
      {query.size(0), query.size(1), query.size(2)},
      query.options().dtype(kFloat));
  drawDropout(call, type, query.numel() / query.size(3) * key.size(2));
  TORCH_CHECK_NOT_IMPLEMENTED(
      attendByCudnn(call, out, logsumexp),
      "cuDNN does not compute this attention with dropout. Set "
      "torch.backends.cudnn.enabled = False to have kernels compute it");
  if (call.mask.defined()) {
    keepNone(call, type, out, logsumexp);
  }
  return results(call, placed(place, out), logsumexp.unsqueeze(3));
}

std::tuple<Tensor, Tensor, Tensor> cudnnBackward(
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& out,
    const Tensor& logsumexp,
    const Tensor& seed,
    const Tensor& offset,
    const Tensor& mask,
    const Tensor& /*cum_seq_q*/,
    const Tensor& /*cum_seq_k*/,
    c10::SymInt /*max_q*/,
    c10::SymInt /*max_k*/,
    double dropout,
    bool causal,
    c10::optional<double> scale) {
  static const std::string name =
      "aten::_scaled_dot_product_cudnn_attention_backward";
  // Whatever switches say by now: cuDNN drew the numbers.
  const AttentionCall call{
      name,
      query,
      key,
      value,
      mask,
      causal,
      scaleOf(scale, query),
      dropout,
      seed,
      offset};
  const c10::xpu::XPUGuard guard(query.device());
  const AttentionGrads places{
      at::empty_like(query), at::empty_like(key), at::empty_like(value)};
  const AttentionGrads grads{
      placeToWrite(places[0]),
      placeToWrite(places[1]),
      placeToWrite(places[2])};
  TORCH_CHECK_NOT_IMPLEMENTED(
      attendBackByCudnn(call, grad, out, logsumexp.squeeze(3), grads),
      "cuDNN does not compute the gradients of this attention with dropout. Set "
      "torch.backends.cudnn.enabled = False before the forward to have kernels "
      "compute both");
  return {
      placed(places[0], grads[0]),
      placed(places[1], grads[1]),
      placed(places[2], grads[2])};
}

AttentionWithDropout kernelsForward(
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const c10::optional<Tensor>& mask,
    double dropout,
    bool causal,
    bool /*return_debug_mask*/,
    c10::optional<double> scale) {
  static const std::string name =
      "aten::_scaled_dot_product_fused_attention_overrideable";
  auto [call, type] = callOf(
      kByKernels,
      name,
      query,
      key,
      value,
      tensorOf(mask),
      dropout,
      causal,
      scale);
  const c10::xpu::XPUGuard guard(query.device());
  drawDropout(call, type, key.size(2));
  const auto [out, logsumexp] = attendByKernels(call, type);
  return results(
      call, placed(emptyInOrder(query, value.size(3)), out), logsumexp);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> kernelsBackward(
    const Tensor& grad,
    const Tensor& query,
    const Tensor& key,
    const Tensor& value,
    const Tensor& mask,
    std::array<bool, 4> wanted,
    const Tensor& /*out*/,
    const Tensor& logsumexp,
    const Tensor& /*cum_seq_q*/,
    const Tensor& /*cum_seq_k*/,
    c10::SymInt /*max_q*/,
    c10::SymInt /*max_k*/,
    double dropout,
    bool causal,
    const Tensor& seed,
    const Tensor& offset,
    c10::optional<double> scale) {
  static const std::string name =
      "aten::_scaled_dot_product_fused_attention_overrideable_backward";
  auto [call, type] =
      callOf(kByKernels, name, query, key, value, mask, dropout, causal, scale);
  call.seed = seed;
  call.offset = offset;
  const c10::xpu::XPUGuard guard(query.device());
  Tensor of_mask;
  if (wanted[3] && mask.defined()) {
    of_mask = at::zeros(
        {query.size(0), query.size(1), query.size(2), key.size(2)},
        query.options());
  }
  const auto [of_query, of_key, of_value] =
      attendBackByKernels(call, type, grad, logsumexp.contiguous(), of_mask);
  if (of_mask.defined()) {
    of_mask = at::sum_to(of_mask, mask.sizes()).to(mask.scalar_type());
  }
  return {
      placed(at::empty_like(query), of_query),
      placed(at::empty_like(key), of_key),
      placed(at::empty_like(value), of_value),
      of_mask};
}

/// As Python calls it for layers without gradients, of other operators.
struct EncoderLayer {
  static Tensor make(
      const Tensor& src,
      int64_t embed_dim,
      int64_t heads,
      const Tensor& qkv_weight,
      const Tensor& qkv_bias,
      const Tensor& proj_weight,
      const Tensor& proj_bias,
      bool use_gelu,
      bool norm_first,
      double eps,
      const Tensor& norm_weight_1,
      const Tensor& norm_bias_1,
      const Tensor& norm_weight_2,
      const Tensor& norm_bias_2,
      const Tensor& ffn_weight_1,
      const Tensor& ffn_bias_1,
      const Tensor& ffn_weight_2,
      const Tensor& ffn_bias_2,
      const c10::optional<Tensor>& mask,
      c10::optional<int64_t> mask_type) {
    constexpr int64_t kOfKeys = 1; // [images, keys]
    if (src.is_nested() || src.dim() != 3 || !areFloating(src, qkv_weight) ||
        embed_dim % heads != 0) {
      return Tensor();
    }
    auto kept = tensorOf(mask);
    if (kept.defined()) {
      kept = kept.to(kBool).logical_not();
      kept = mask_type == kOfKeys ? kept.unsqueeze(1).unsqueeze(1) : kept;
    }
    const auto attend = [&](const Tensor& x) {
      const auto qkv = at::linear(x, qkv_weight, qkv_bias)
                           .unflatten(2, {3, heads, embed_dim / heads})
                           .permute({2, 0, 3, 1, 4});
      const auto out = at::scaled_dot_product_attention(
          qkv[0],
          qkv[1],
          qkv[2],
          kept.defined() ? c10::make_optional(kept) : c10::nullopt);
      return at::linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias);
    };
    const auto feed = [&](const Tensor& x) {
      const auto y = at::linear(x, ffn_weight_1, ffn_bias_1);
      return at::linear(
          use_gelu ? at::gelu(y) : at::relu(y), ffn_weight_2, ffn_bias_2);
    };
    const auto norm =
        [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
          return at::layer_norm(x, {embed_dim}, weight, bias, eps);
        };
    if (norm_first) {
      const auto x = src + attend(norm(src, norm_weight_1, norm_bias_1));
      return x + feed(norm(x, norm_weight_2, norm_bias_2));
    }
    const auto x = norm(src + attend(src), norm_weight_1, norm_bias_1);
    return norm(x + feed(x), norm_weight_2, norm_bias_2);
  }
};

void registerAttention(torch::Library& library) {
  kernelHooks().attention_with_dropout = &backendWithDropout;
  addUnstructured<at::_ops::_transformer_encoder_layer_fwd, EncoderLayer>(
      library);
  library.impl(
      "_scaled_dot_product_flash_attention_for_cpu", &attentionForward);
  library.impl(
      "_scaled_dot_product_flash_attention_for_cpu_backward",
      &attentionBackward);
  library.impl("_scaled_dot_product_cudnn_attention", &cudnnForward);
  library.impl("_scaled_dot_product_cudnn_attention_backward", &cudnnBackward);
  library.impl(
      "_scaled_dot_product_fused_attention_overrideable", &kernelsForward);
  library.impl(
      "_scaled_dot_product_fused_attention_overrideable_backward",
      &kernelsBackward);
}

[[maybe_unused]] const bool kAttentionAdded = addKernels(&registerAttention);

} // namespace

} // namespace at::xpu::detail
