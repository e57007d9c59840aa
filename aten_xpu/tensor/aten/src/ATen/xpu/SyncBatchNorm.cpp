#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

// The operators of SyncBatchNorm, which PyTorch has for GPUs alone. Statistics
// are those of a channel, dimension 1; narrow types are computed in float32.

namespace at::xpu {

namespace {

Tensor wide(const Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == kHalf || type == kBFloat16 ? tensor.to(kFloat) : tensor;
}

Tensor wideOr(
    const c10::optional<Tensor>& tensor,
    double value,
    const Tensor& like) {
  return tensor && tensor->defined() ? wide(*tensor)
                                     : at::full_like(like, value);
}

std::vector<int64_t> otherDimensions(const Tensor& input) {
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < input.dim(); ++i) {
    if (i != 1) {
      dimensions.push_back(i);
    }
  }
  return dimensions;
}

/// A value per channel, to compute with an input.
Tensor perChannel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = -1;
  return values.reshape(shape);
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  const auto x = wide(input);
  const auto dimensions = otherDimensions(input);
  return {
      x.mean(dimensions),
      (x.var(dimensions, /*unbiased=*/false) + eps).rsqrt()};
}

Tensor elemt(
    const Tensor& input,
    const c10::optional<Tensor>& weight,
    const c10::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double /*eps*/) {
  const auto scale = invstd * wideOr(weight, 1, invstd);
  const auto shift = wideOr(bias, 0, invstd);
  return ((wide(input) - perChannel(mean, input)) * perChannel(scale, input) +
          perChannel(shift, input))
      .to(input.scalar_type());
}

Tensor& elemtOut(
    const Tensor& input,
    const c10::optional<Tensor>& weight,
    const c10::optional<Tensor>& bias,
    const Tensor& mean,
    const Tensor& invstd,
    double eps,
    Tensor& out) {
  return out.resize_(input.sizes())
      .copy_(elemt(input, weight, bias, mean, invstd, eps));
}

void update(
    const c10::optional<Tensor>& running,
    const Tensor& value,
    double momentum) {
  if (running && running->defined()) {
    const auto& to = *running;
    to.mul_(1 - momentum).add_(value.to(to.scalar_type()), momentum);
  }
}

/// Of the statistics of several parts, those of all.
std::tuple<Tensor, Tensor> gatherWithCounts(
    const Tensor& /*input*/,
    const Tensor& means,
    const Tensor& invstds,
    const c10::optional<Tensor>& running_mean,
    const c10::optional<Tensor>& running_var,
    double momentum,
    double eps,
    const Tensor& counts) {
  const auto part_means = wide(means);
  const auto count = counts.to(part_means.scalar_type()).unsqueeze(1);
  const auto total = count.sum();
  const auto mean = (part_means * count).sum(0) / total;
  const auto part_vars = wide(invstds).pow(-2) - eps;
  const auto squares =
      ((part_vars + (part_means - mean).pow(2)) * count).sum(0);
  update(running_mean, mean, momentum);
  update(running_var, squares / (total - 1), momentum);
  return {mean, (squares / total + eps).rsqrt()};
}

std::tuple<Tensor, Tensor> gather(
    const Tensor& input,
    const Tensor& means,
    const Tensor& invstds,
    const c10::optional<Tensor>& running_mean,
    const c10::optional<Tensor>& running_var,
    double momentum,
    double eps,
    int64_t count) {
  return gatherWithCounts(
      input,
      means,
      invstds,
      running_mean,
      running_var,
      momentum,
      eps,
      at::full({means.size(0)}, count, wide(means).options()));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backwardReduce(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const c10::optional<Tensor>& weight,
    bool input_grad,
    bool weight_grad,
    bool bias_grad) {
  const auto dy = wide(grad_out);
  const auto dimensions = otherDimensions(input);
  const auto sum_dy = dy.sum(dimensions);
  const auto sum_dy_xmu =
      (dy * (wide(input) - perChannel(mean, input))).sum(dimensions);
  const auto type = weight && weight->defined() ? weight->scalar_type()
                                                : sum_dy.scalar_type();
  return {
      input_grad ? sum_dy : Tensor(),
      input_grad ? sum_dy_xmu : Tensor(),
      weight_grad ? (sum_dy_xmu * invstd).to(type) : Tensor(),
      bias_grad ? sum_dy.to(type) : Tensor()};
}

Tensor backwardElemt(
    const Tensor& grad_out,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& invstd,
    const c10::optional<Tensor>& weight,
    const Tensor& sum_dy,
    const Tensor& sum_dy_xmu,
    const Tensor& count) {
  const auto total = count.sum();
  const auto slope = invstd.pow(2) * sum_dy_xmu / total;
  const auto scale = invstd * wideOr(weight, 1, invstd);
  return ((wide(grad_out) - perChannel(sum_dy / total, input) -
           (wide(input) - perChannel(mean, input)) * perChannel(slope, input)) *
          perChannel(scale, input))
      .to(input.scalar_type());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("batch_norm_stats", TORCH_FN(stats));
  m.impl("batch_norm_elemt", TORCH_FN(elemt));
  m.impl("batch_norm_elemt.out", TORCH_FN(elemtOut));
  m.impl("batch_norm_gather_stats", TORCH_FN(gather));
  m.impl("batch_norm_gather_stats_with_counts", TORCH_FN(gatherWithCounts));
  m.impl("batch_norm_backward_reduce", TORCH_FN(backwardReduce));
  m.impl("batch_norm_backward_elemt", TORCH_FN(backwardElemt));
}

} // namespace at::xpu
