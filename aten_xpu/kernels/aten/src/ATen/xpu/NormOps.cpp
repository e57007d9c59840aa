#include <ATen/ATen.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <tuple>

// Group and batch norm, kernels/Norms.sycl.

namespace at::xpu::detail {

namespace {

using OptionalTensor = c10::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

std::string normSourceOf(int type) {
  return typedSource(type) + reduceSource() +
#include <ATen/xpu/kernels/Norms.sycl>
      ;
}

const KernelFamily kNormFamily("norms", &normSourceOf, FLOATING);

// Kernels, and behind each that for some channels side by side.
using NormReduction = std::array<ReduceKernels, 2>;
using NormKernel = std::array<NamedKernel, 2>;
const NormReduction kStats{
    {{kNormFamily, "norm_stats"}, {kNormFamily, "norm_stats_of_some"}}};
const NormReduction kSums{
    {{kNormFamily, "norm_sums"}, {kNormFamily, "norm_sums_of_some"}}};
const NormKernel kEach{
    {{kNormFamily, "norm_each"}, {kNormFamily, "norm_each_of_some"}}};
const NormKernel kGradEach{
    {{kNormFamily, "norm_grad_each"}, {kNormFamily, "norm_grad_each_of_some"}}};

constexpr int64_t kSideBySide = 4; // elements of an item, as in the source

/// Whether vectors of elements can begin where the pointers are.
bool areAligned(c10::ArrayRef<KernelArgument> arguments) {
  constexpr uint64_t kVector = 8 * kSideBySide; // bytes, of the largest type
  return std::all_of(
      arguments.begin(), arguments.end(), [](const KernelArgument& one) {
        return one.size != KernelArgument::kPointer || one.bits % kVector == 0;
      });
}

/// A tensor as kernels see it, see Note [Norms].
struct Norm {
  const std::string& op; // for the profiler
  KernelType type;
  DeviceIndex device;
  int64_t images;
  int64_t channels;
  int64_t inner;
  int64_t group = 0; // channels of one

  static std::optional<Norm> of(
      const std::string& op,
      const Tensor& input,
      int64_t images,
      int64_t channels,
      int64_t inner,
      int64_t group = 0) {
    if (input.numel() == 0 || input.numel() > kMostElements) {
      return std::nullopt;
    }
    const auto type = kEach[0].typeFor(input);
    if (!type) {
      return std::nullopt;
    }
    const auto device = input.device().index();
    return Norm{op, *type, device, images, channels, inner, group};
  }

  int64_t count() const {
    return images * channels * inner;
  }
  /// Elements of which one mean is.
  int64_t size() const {
    return group ? group * inner : images * inner;
  }
  /// How many means there are.
  int64_t means() const {
    return count() / size();
  }

  /// A new tensor of what is computed with.
  Tensor numbers(IntArrayRef sizes, const Tensor& like) const {
    return at::empty(sizes, like.options().dtype(computedType(type)));
  }

  /// Whether a tensor of one number for each channel or mean can be used.
  bool takes(const Tensor& tensor, int64_t numel) const {
    return !tensor.defined() ||
        (tensor.device() == Device(kXPU, device) && tensor.numel() == numel &&
         at::isFloatingType(tensor.scalar_type()));
  }

  /// It as kernels read it.
  Tensor given(const Tensor& tensor) const {
    return tensor.defined() ? tensor.to(computedType(type)).contiguous()
                            : tensor;
  }

  /// Whether an item can have some channels, as with channels_last.
  bool hasSome() const {
    return group == 0 && inner == 1 && channels % kSideBySide == 0;
  }

  /// Over what is known together, or over channels.
  void reduce(
      const NormReduction& kernels,
      bool by_channel,
      const Tensor& first,
      const Tensor& second,
      c10::SmallVector<KernelArgument, 8> inputs,
      c10::SmallVector<KernelArgument, 4> both,
      const Scalar& p) const {
    const auto image = channels * inner;
    // With channels_last an index needs no division, and an item can have some
    // channels.
    const auto of_channel = inner == 1 ? ReduceDims{images, image}
                                       : ReduceDims{inner, 1, images, image};
    const bool some = by_channel && hasSome() && areAligned(inputs);
    const auto of_results = some
        ? ReduceDims{channels / kSideBySide, kSideBySide}
        : ReduceDims{channels, inner};
    launchReduce(
        {op,
         kernels[some],
         type,
         device,
         pointerOf(first),
         pointerOf(second),
         std::move(inputs),
         /*state_bytes=*/some ? 72 : 24,
         sumNumber(by_channel ? images * inner : size(), type),
         sumNumber(p, type),
         by_channel ? of_results : ReduceDims{means(), size()},
         by_channel ? of_channel : ReduceDims{size(), 1},
         std::move(both)});
  }

  void statistics(
      const Tensor& in,
      const Tensor& mean,
      const Tensor& factor,
      double eps,
      const Tensor& running_mean = Tensor(),
      const Tensor& running_variance = Tensor(),
      double momentum = 0) const {
    reduce(
        kStats,
        group == 0,
        mean,
        factor,
        {in.data_ptr()},
        {pointerOf(running_mean),
         pointerOf(running_variance),
         sumNumber(momentum, type)},
        eps);
  }

  /// For each mean, or over channels, where the weight has no part: the
  /// gradients of bias and weight, as they are computed.
  std::pair<Tensor, Tensor> sums(
      const Tensor& grad,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& mean,
      const Tensor& factor,
      bool by_channel) const {
    const auto size = by_channel ? channels : means();
    const auto one = numbers({size}, in);
    const auto other = numbers({size}, in);
    reduce(
        kSums,
        by_channel,
        one,
        other,
        {grad.data_ptr(),
         in.data_ptr(),
         pointerOf(weight),
         mean.data_ptr(),
         factor.data_ptr(),
         uint32_t(inner),
         uint32_t(channels),
         uint32_t(group)},
        {},
        0);
    return {one, other};
  }

  /// The kernel's own arguments, and then those that both have.
  template <typename... Own>
  void each(const NormKernel& kernel, const Own&... own) const {
    c10::SmallVector<KernelArgument, 16> arguments{own...};
    if (hasSome() && areAligned(arguments)) {
      const auto width = channels / kSideBySide;
      const auto slices =
          std::clamp<int64_t>(2 * itemsWanted(device) / width, 1, images);
      arguments.append(
          {uint32_t(images), uint32_t(channels), uint32_t(slices)});
      kernel[1].launch(op, type, device, width * slices, arguments);
      return;
    }
    arguments.append(
        {uint32_t(inner),
         uint32_t(channels),
         uint32_t(group),
         uint32_t(count())});
    arguments.emplace_back(uint32_t(areAligned(arguments)));
    kernel[0].launch(
        op, type, device, at::ceil_div(count(), kSideBySide), arguments);
  }

  /// (in - mean) * factor * weight + bias, or with `eps` 1 / sqrt(factor + eps)
  /// in place of the factor.
  void normalize(
      const Tensor& result,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& bias,
      const Tensor& mean,
      const Tensor& factor,
      const double* eps = nullptr) const {
    constexpr uint32_t kIsVariance = 16; // as in the source
    std::array<Tensor, 4> known{weight, bias, mean, factor};
    uint32_t narrow = eps ? kIsVariance : 0;
    for (const auto i : c10::irange(known.size())) {
      auto& one = known.at(i);
      if (one.defined() && one.scalar_type() == in.scalar_type()) {
        narrow |= 1 << i;
        one = one.contiguous();
      } else {
        one = given(one);
      }
    }
    each(
        kEach,
        result.data_ptr(),
        in.data_ptr(),
        pointerOf(known[0]),
        pointerOf(known[1]),
        pointerOf(known[2]),
        pointerOf(known[3]),
        narrow,
        sumNumber(eps ? *eps : 0, type));
  }
};

/// With those of weight and bias in the type that these have.
Three gradients(
    const Tensor& result,
    const Tensor& of_weight,
    const Tensor& of_bias,
    const Tensor& weight,
    const Tensor& input,
    const std::array<bool, 3>& mask) {
  const auto as_weight = [&](bool wanted, const Tensor& sum) {
    return wanted ? sum.to((weight.defined() ? weight : input).scalar_type())
                  : Tensor();
  };
  return {result, as_weight(mask[1], of_weight), as_weight(mask[2], of_bias)};
}

// Group norm

Three groupNorm(
    const Tensor& input,
    const OptionalTensor& weight_given,
    const OptionalTensor& bias_given,
    int64_t n,
    int64_t c,
    int64_t hxw,
    int64_t groups,
    double eps) {
  static const std::string name = "aten::native_group_norm";
  const auto weight = tensorOf(weight_given);
  const auto bias = tensorOf(bias_given);
  const bool fits = groups > 0 && c % groups == 0 &&
      input.numel() == n * c * hxw && input.is_contiguous();
  // As on the CPU and for CUDA: with float parameters of half numbers, float.
  const auto type = (weight.defined()     ? weight
                         : bias.defined() ? bias
                                          : input)
                        .scalar_type();
  if (fits && n == 0 && kernelTypeOf(input, FLOATING)) {
    const auto none = at::empty({0, groups}, input.options().dtype(type));
    return {at::empty(input.sizes(), input.options()), none, none.clone()};
  }
  const auto norm = fits ? Norm::of(name, input, n, c, hxw, c / groups)
                         : std::nullopt; // the host raises
  if (norm && norm->takes(weight, c) && norm->takes(bias, c)) {
    const c10::xpu::XPUGuard guard(norm->device);
    const auto result = at::empty(input.sizes(), input.options());
    const auto mean = norm->numbers({n, groups}, input);
    const auto factor = norm->numbers({n, groups}, input);
    norm->statistics(input, mean, factor, eps);
    norm->normalize(result, input, weight, bias, mean, factor);
    return {result, mean.to(type), factor.to(type)};
  }
  return OnHost<at::_ops::native_group_norm>::call(
      input, weight_given, bias_given, n, c, hxw, groups, eps);
}

Three groupNormBackward(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& mean_given,
    const Tensor& factor_given,
    const OptionalTensor& weight_given,
    int64_t n,
    int64_t c,
    int64_t hxw,
    int64_t groups,
    std::array<bool, 3> mask) {
  static const std::string name = "aten::native_group_norm_backward";
  const auto weight = tensorOf(weight_given);
  const bool fits = groups > 0 && c % groups == 0 &&
      input.numel() == n * c * hxw && grad.sizes() == input.sizes() &&
      grad.scalar_type() == input.scalar_type() &&
      grad.device() == input.device();
  if (fits && n == 0 && kernelTypeOf(input, FLOATING)) {
    const auto zeros = at::zeros({c}, input.options());
    return gradients(
        mask[0] ? at::empty(input.sizes(), input.options()) : Tensor(),
        zeros,
        zeros.clone(),
        weight,
        input,
        mask);
  }
  const auto norm =
      fits ? Norm::of(name, input, n, c, hxw, c / groups) : std::nullopt;
  if (norm && norm->takes(weight, c) && norm->takes(mean_given, n * groups) &&
      norm->takes(factor_given, n * groups)) {
    const c10::xpu::XPUGuard guard(norm->device);
    const auto a = grad.contiguous();
    const auto b = input.contiguous();
    const auto mean = norm->given(mean_given);
    const auto factor = norm->given(factor_given);
    const auto by = norm->given(weight);
    Tensor result;
    Tensor of_weight;
    Tensor of_bias;
    if (mask[0]) {
      const auto [one, other] =
          norm->sums(a, b, by, mean, factor, /*by_channel=*/false);
      result = at::empty(input.sizes(), input.options());
      norm->each(
          kGradEach,
          result.data_ptr(),
          a.data_ptr(),
          b.data_ptr(),
          pointerOf(by),
          mean.data_ptr(),
          factor.data_ptr(),
          one.data_ptr(),
          other.data_ptr(),
          sumNumber(norm->size(), norm->type));
    }
    if (mask[1] || mask[2]) {
      std::tie(of_bias, of_weight) =
          norm->sums(a, b, Tensor(), mean, factor, /*by_channel=*/true);
    }
    return gradients(result, of_weight, of_bias, weight, input, mask);
  }
  return OnHost<at::_ops::native_group_norm_backward>::call(
      grad.contiguous(), // as the CPU's kernel relies on
      input.contiguous(),
      mean_given,
      factor_given,
      weight_given,
      n,
      c,
      hxw,
      groups,
      mask);
}

// Batch norm

/// By the order in memory: channels last are read as they are.
std::optional<Norm> batchNormOf(
    const std::string& op,
    const Tensor& input,
    MemoryFormat format) {
  if (input.dim() < 2 || input.numel() == 0) {
    return std::nullopt;
  }
  const auto channels = input.size(1);
  const auto rest = input.numel() / channels;
  return format == MemoryFormat::Contiguous
      ? Norm::of(op, input, input.size(0), channels, rest / input.size(0))
      : Norm::of(op, input, rest, channels, 1);
}

Three batchNorm(
    const Tensor& input,
    const OptionalTensor& weight_given,
    const OptionalTensor& bias_given,
    const OptionalTensor& mean_given,
    const OptionalTensor& variance_given,
    bool training,
    double momentum,
    double eps) {
  static const std::string name = "aten::native_batch_norm";
  const auto weight = tensorOf(weight_given);
  const auto bias = tensorOf(bias_given);
  const auto running_mean = tensorOf(mean_given);
  const auto running_variance = tensorOf(variance_given);
  const auto format = input.suggest_memory_format();
  const auto norm = batchNormOf(name, input, format);
  const bool known = running_mean.defined() && running_variance.defined();
  const auto c = norm ? norm->channels : 0;
  if (norm && (training || known) && norm->takes(weight, c) &&
      norm->takes(bias, c) && norm->takes(running_mean, c) &&
      norm->takes(running_variance, c)) {
    const c10::xpu::XPUGuard guard(norm->device);
    const auto in = input.contiguous(format);
    const auto result = at::empty_like(in, format);
    if (!training) {
      norm->normalize(
          result, in, weight, bias, running_mean, running_variance, &eps);
      return {result, norm->numbers({0}, input), norm->numbers({0}, input)};
    }
    const auto moved_mean = norm->given(running_mean);
    const auto moved_variance = norm->given(running_variance);
    const auto mean = norm->numbers({c}, input);
    const auto factor = norm->numbers({c}, input);
    norm->statistics(
        in, mean, factor, eps, moved_mean, moved_variance, momentum);
    // They are written in the type that is computed with.
    copyUnlessSame(running_mean, moved_mean);
    copyUnlessSame(running_variance, moved_variance);
    norm->normalize(result, in, weight, bias, mean, factor);
    return {result, mean, factor};
  }
  return OnHost<at::_ops::native_batch_norm>::call(
      input,
      weight_given,
      bias_given,
      mean_given,
      variance_given,
      training,
      momentum,
      eps);
}

Three batchNormBackward(
    const Tensor& grad,
    const Tensor& input,
    const OptionalTensor& weight_given,
    const OptionalTensor& running_mean_given,
    const OptionalTensor& running_variance_given,
    const OptionalTensor& mean_given,
    const OptionalTensor& factor_given,
    bool training,
    double eps,
    std::array<bool, 3> mask) {
  static const std::string name = "aten::native_batch_norm_backward";
  const auto weight = tensorOf(weight_given);
  const auto mean_of =
      training ? tensorOf(mean_given) : tensorOf(running_mean_given);
  const auto factor_of =
      training ? tensorOf(factor_given) : tensorOf(running_variance_given);
  const auto format = input.suggest_memory_format();
  const bool fits = grad.sizes() == input.sizes() &&
      grad.scalar_type() == input.scalar_type() &&
      grad.device() == input.device() && mean_of.defined() &&
      factor_of.defined();
  const auto norm = fits ? batchNormOf(name, input, format) : std::nullopt;
  const auto c = norm ? norm->channels : 0;
  if (norm && norm->takes(weight, c) && norm->takes(mean_of, c) &&
      norm->takes(factor_of, c)) {
    const c10::xpu::XPUGuard guard(norm->device);
    const auto a = grad.contiguous(format);
    const auto b = input.contiguous(format);
    const auto mean = norm->given(mean_of);
    const auto given = norm->given(factor_of);
    const auto factor = training ? given : (given + eps).rsqrt_();
    const auto by = norm->given(weight);
    Tensor of_weight;
    Tensor of_bias;
    if (mask[1] || mask[2] || (mask[0] && training)) {
      std::tie(of_bias, of_weight) =
          norm->sums(a, b, Tensor(), mean, factor, /*by_channel=*/true);
    }
    Tensor result;
    if (mask[0]) {
      result = at::empty_like(b, format);
      norm->each(
          kGradEach,
          result.data_ptr(),
          a.data_ptr(),
          b.data_ptr(),
          pointerOf(by),
          mean.data_ptr(),
          factor.data_ptr(),
          training ? of_bias.data_ptr() : nullptr,
          training ? of_weight.data_ptr() : nullptr,
          sumNumber(norm->size(), norm->type));
    }
    return gradients(result, of_weight, of_bias, weight, input, mask);
  }
  return OnHost<at::_ops::native_batch_norm_backward>::call(
      grad,
      input,
      weight_given,
      running_mean_given,
      running_variance_given,
      mean_given,
      factor_given,
      training,
      eps,
      mask);
}

void registerNorms(torch::Library& library) {
  library.impl("native_group_norm", &groupNorm);
  library.impl("native_group_norm_backward", &groupNormBackward);
  library.impl("native_batch_norm", &batchNorm);
  library.impl("native_batch_norm_backward", &batchNormBackward);
#ifdef XPU_LATER_OPERATORS
  library.impl(
      "_native_batch_norm_legit",
      [](const Tensor& input,
         const OptionalTensor& weight,
         const OptionalTensor& bias,
         Tensor& mean,
         Tensor& variance,
         bool training,
         double momentum,
         double eps) {
        return batchNorm(
            input, weight, bias, mean, variance, training, momentum, eps);
      });
  library.impl(
      "_native_batch_norm_legit.no_stats",
      [](const Tensor& input,
         const OptionalTensor& weight,
         const OptionalTensor& bias,
         bool training,
         double momentum,
         double eps) {
        return batchNorm(input, weight, bias, {}, {}, training, momentum, eps);
      });
#endif
}

[[maybe_unused]] const bool kNormsAdded = addKernels(&registerNorms);

} // namespace

} // namespace at::xpu::detail
