#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/native/Pool.h>
#include <ATen/native/UpSample.h>
#include <ATen/xpu/detail/Sample.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>

// Pooling, the nearest elements and padding, kernels/Sample.sycl.

namespace at::xpu::detail {

namespace {

// Of forward and of the gradient.
using Names = std::array<std::string, 2>;

/// A call of an operator, or if `back` of its gradient, whose result has the
/// sizes of what forward is given.
struct Way {
  const Tensor& result;
  const Tensor& from;
  bool back;
  const Tensor& indices; // that forward writes

  Sampling sampling(int dims, SampleMode mode) const {
    const auto& in = back ? result : from;
    const auto& out = back ? from : result;
    return samplingOf(dims, mode, in.sizes(), out.sizes());
  }

  bool run(
      const Names& names,
      const Sampling& sampling,
      SampleKernel kernel = kSample,
      const Tensor& places = Tensor()) const {
    return runSampling(
        names[back], kernel, result, from, sampling, back, places);
  }
};

/// Both directions of an operator. The gradient is given forward's argument
/// too:
///
///   How::sample(way, args...)
template <class How>
struct Sampled {
  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& indices,
      const Tensor& self,
      const Args&... args) {
    return How::sample({result, self, /*back=*/false, indices}, args...);
  }

  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& none,
      const Tensor& grad,
      const Tensor& /*self*/,
      const Args&... args) {
    return How::sample({result, grad, /*back=*/true, none}, args...);
  }
};

template <int dims>
struct AveragePool {
  static bool sample(
      const Way& way,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      bool /*ceil_mode*/,
      bool count_include_pad,
      const c10::optional<int64_t>& divisor) {
    static const Names names{"aten::avg_pool", "aten::avg_pool_backward"};
    auto sampling = way.sampling(dims, SampleMode::Window);
    setWindows(sampling, size, stride, padding);
    sampling.flags = divisor ? kSampleSum
        : count_include_pad  ? kSampleWithPadding
                             : 0;
    sampling.factor = divisor ? 1 / double(*divisor) : 1;
    return way.run(names, sampling);
  }
};

template <int dims>
struct MaxPool {
  static bool sample(
      const Way& way,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool /*ceil_mode*/,
      const Tensor& of_forward = Tensor()) {
    static const Names names{
        "aten::max_pool_with_indices", "aten::max_pool_with_indices_backward"};
    const auto& indices = way.back ? of_forward : way.indices;
    const auto& pooled = way.back ? way.from : way.result;
    auto sampling = way.sampling(dims, SampleMode::Window);
    setWindows(sampling, size, stride, padding, dilation);
    return indices.scalar_type() == kLong &&
        indices.sizes() == pooled.sizes() &&
        indices.device() == pooled.device() &&
        way.run(names, sampling, way.back ? kMaxPoolBack : kMaxPool, indices);
  }

  /// Those of the result; nothing if the arguments are not plain.
  template <typename... Indices>
  static c10::optional<DimVector> sizesOf(
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode,
      const Indices&... /*of the gradient*/) {
    for (const auto numbers : {size, stride, padding, dilation}) {
      const bool none = numbers.empty() && numbers.data() == stride.data();
      if (numbers.size() != 1 && numbers.size() != dims && !none) {
        return c10::nullopt;
      }
    }
    DimVector sizes(self.sizes());
    for (const auto i : c10::irange(dims)) {
      auto& n = sizes[sizes.size() - dims + i];
      const auto step = numberOf(stride.empty() ? size : stride, i);
      const auto window = numberOf(size, i);
      const auto apart = numberOf(dilation, i);
      if (step <= 0 || window <= 0 || apart <= 0) {
        return c10::nullopt;
      }
      n = at::native::pooling_output_shape<int64_t>(
          n, window, numberOf(padding, i), step, apart, ceil_mode);
      if (n < 1) {
        return c10::nullopt;
      }
    }
    return sizes;
  }
};

/// Without a stride a window is a part of the elements.
template <int dims>
struct AdaptiveMaxPool {
  static bool sample(const Way& way, IntArrayRef /*size*/) {
    return MaxPool<dims>::sample(way, 1, 0, 0, 1, false);
  }
  static bool sample(const Way& way, const Tensor& indices) {
    return MaxPool<dims>::sample(way, 1, 0, 0, 1, false, indices);
  }
};

template <int dims>
struct AdaptivePool {
  static bool sample(const Way& way, IntArrayRef /*size*/) {
    static const Names names{
        "aten::_adaptive_avg_pool", "aten::_adaptive_avg_pool_backward"};
    return way.run(names, way.sampling(dims, SampleMode::Adaptive));
  }

  static c10::optional<DimVector> sizesOf(
      const Tensor& self,
      IntArrayRef size) {
    if (size.size() != dims ||
        std::any_of(size.begin(), size.end(), [](auto n) { return n <= 0; })) {
      return c10::nullopt;
    }
    DimVector sizes(self.sizes());
    std::copy(size.begin(), size.end(), sizes.end() - dims);
    return sizes;
  }
};

template <int dims, SampleMode mode>
struct Nearest {
  template <typename... Scales>
  static bool interpolate(
      const Tensor& result,
      const Tensor& from,
      bool back,
      const Scales&... scales) {
    static const Names names{
        "aten::upsample_nearest", "aten::upsample_nearest_backward"};
    const Way way{result, from, back, Tensor()};
    auto sampling = way.sampling(dims, mode);
    const std::array<c10::optional<double>, dims> given{scales...};
    for (const auto i : c10::irange(dims)) {
      auto& axis = sampling.axis(i);
      axis.scale = at::native::area_pixel_compute_scale<double>(
          axis.in, axis.out, /*align_corners=*/false, given[i]);
    }
    if (!back && !from.is_floating_point()) {
      constexpr double kMiddle = mode == SampleMode::Exact ? 0.5 : 0;
      return chooseElements(
          result, from, sampling, [](const SampleAxis& axis, const Tensor& i) {
            return i.to(kFloat)
                .add_(kMiddle)
                .mul_(axis.scale)
                .to(kLong)
                .clamp_max_(axis.in - 1);
          });
    }
    return way.run(names, sampling);
  }
};

template <int dims, SampleMode mode>
struct Pad {
  static bool sample(const Way& way, IntArrayRef padding) {
    static const Names names{"aten::pad", "aten::pad_backward"};
    auto sampling = way.sampling(dims, mode);
    for (const auto i : c10::irange(dims)) { // the last dimension's first
      sampling.axis(dims - 1 - i).c = padding[size_t(2) * i];
    }
    if (!way.back && !way.from.is_floating_point()) {
      return chooseElements(
          way.result,
          way.from,
          sampling,
          [](const SampleAxis& axis, const Tensor& i) {
            const auto last = axis.in - 1;
            const auto at = i - axis.c;
            return mode == SampleMode::Replicate
                ? at.clamp(0, last)
                : (last - at.abs()).abs_().neg_().add_(last);
          });
    }
    return way.run(names, sampling);
  }

  static c10::optional<DimVector> sizesOf(
      const Tensor& self,
      IntArrayRef padding) {
    if (padding.size() != size_t(2) * dims) {
      return c10::nullopt;
    }
    DimVector sizes(self.sizes());
    for (const auto i : c10::irange(dims)) {
      auto& size = sizes[sizes.size() - 1 - i];
      const auto [low, high] =
          std::minmax(padding[size_t(2) * i], padding[size_t(2) * i + 1]);
      if ((mode == SampleMode::Reflect && high >= size) ||
          size + low + high < 1) {
        return c10::nullopt;
      }
      size += low + high;
    }
    return sizes;
  }
};

bool isPlain(const Tensor& tensor, int dims) {
  return kernelDevice(tensor) &&
      (tensor.dim() == dims + 1 || tensor.dim() == dims + 2) &&
      hasImages(tensor, dims + 2);
}

/// Operators without a meta class. Each makes its result; none of what is not
/// plain, which is left to the host with its checks.
template <int dims, class How, bool with_indices = false>
struct PlainSampled {
  template <typename... Args>
  static auto make(const Tensor& self, const Args&... args) {
    Tensor result;
    Tensor indices;
    const auto sizes =
        isPlain(self, dims) ? How::sizesOf(self, args...) : c10::nullopt;
    if (sizes) {
      if constexpr (with_indices) {
        const auto options = self.options().dtype(kLong);
        indices = at::empty(*sizes, options, self.suggest_memory_format());
      }
      result = sampled(*sizes, self, indices, self, args...);
    }
    if constexpr (with_indices) {
      return std::make_tuple(result, result.defined() ? indices : Tensor());
    } else {
      return result;
    }
  }

  template <typename... Args>
  static Tensor make(
      const Tensor& grad,
      const Tensor& self,
      const Args&... args) {
    if (!isPlain(grad, dims) || !isPlain(self, dims)) {
      return {};
    }
    const auto sizes = How::sizesOf(self, args...);
    return sizes && grad.sizes() == IntArrayRef(*sizes)
        ? sampled(self.sizes(), self, Tensor(), grad, self, args...)
        : Tensor();
  }

  static Tensor make(const Tensor& grad, const Tensor& self) {
    return isPlain(grad, dims) // whose sizes the operator is not given
        ? make(grad, self, grad.sizes().slice(grad.dim() - dims))
        : Tensor();
  }

 private:
  /// In the order of `like`; none if no kernel fits.
  template <typename... Args>
  static Tensor sampled(
      IntArrayRef sizes,
      const Tensor& like,
      const Tensor& indices,
      const Tensor& from,
      const Args&... args) {
    const c10::xpu::XPUGuard guard(like.device());
    auto result =
        at::empty(sizes, from.options(), like.suggest_memory_format());
    return Sampled<How>::run(result, indices, from, args...) ? result
                                                             : Tensor();
  }
};

void registerSample(torch::Library& library) {
#define XPU_ADD_PLAIN(op, ...)                         \
  addUnstructured<at::_ops::op, __VA_ARGS__>(library); \
  addUnstructured<at::_ops::op##_backward, __VA_ARGS__>(library);
#define XPU_ADD_PAD(op, ...)                                               \
  XPU_ADD_PLAIN(op, __VA_ARGS__)                                           \
  addUnstructured<at::_ops::op, __VA_ARGS__, at::_ops::op##_out>(library); \
  addUnstructured<                                                         \
      at::_ops::op##_backward,                                             \
      __VA_ARGS__,                                                         \
      at::_ops::op##_backward_grad_input>(library);
  XPU_ADD_WITH_GRADIENT(avg_pool2d, Sampled<AveragePool<2>>)
  XPU_ADD_WITH_GRADIENT(avg_pool3d, Sampled<AveragePool<3>>)
  XPU_ADD_STRUCTURED(
      max_pool2d_with_indices, max_pool2d_with_indices_out, Sampled<MaxPool<2>>)
  XPU_ADD_STRUCTURED(
      max_pool2d_with_indices_backward,
      max_pool2d_with_indices_backward_grad_input,
      Sampled<MaxPool<2>>)
  XPU_ADD_PLAIN(max_pool3d_with_indices, PlainSampled<3, MaxPool<3>, true>)
  XPU_ADD_WITH_GRADIENT(adaptive_max_pool2d, Sampled<AdaptiveMaxPool<2>>)
  XPU_ADD_WITH_GRADIENT(adaptive_max_pool3d, Sampled<AdaptiveMaxPool<3>>)
  XPU_ADD_PLAIN(_adaptive_avg_pool2d, PlainSampled<2, AdaptivePool<2>>)
  XPU_ADD_PLAIN(_adaptive_avg_pool3d, PlainSampled<3, AdaptivePool<3>>)
#define XPU_ADD_NEAREST(n)                                                    \
  XPU_ADD_WITH_GRADIENT(                                                      \
      upsample_nearest##n##d, Interpolation<Nearest<n, SampleMode::Nearest>>) \
  XPU_ADD_WITH_GRADIENT(                                                      \
      _upsample_nearest_exact##n##d,                                          \
      Interpolation<Nearest<n, SampleMode::Exact>>)
  XPU_ADD_NEAREST(1)
  XPU_ADD_NEAREST(2)
  XPU_ADD_NEAREST(3)
  using Reflection1 = Pad<1, SampleMode::Reflect>;
  using Reflection2 = Pad<2, SampleMode::Reflect>;
  using Reflection3 = Pad<3, SampleMode::Reflect>;
  using Replication1 = Pad<1, SampleMode::Replicate>;
  using Replication2 = Pad<2, SampleMode::Replicate>;
  using Replication3 = Pad<3, SampleMode::Replicate>;
  XPU_ADD_WITH_GRADIENT(reflection_pad1d, Sampled<Reflection1>)
  XPU_ADD_WITH_GRADIENT(reflection_pad3d, Sampled<Reflection3>)
  XPU_ADD_WITH_GRADIENT(replication_pad1d, Sampled<Replication1>)
  XPU_ADD_PAD(reflection_pad2d, PlainSampled<2, Reflection2>)
  XPU_ADD_PAD(replication_pad2d, PlainSampled<2, Replication2>)
  XPU_ADD_PAD(replication_pad3d, PlainSampled<3, Replication3>)
#ifndef XPU_LATER_OPERATORS
  addOfOther<at::_ops::upsample_nearest3d_vec>(library);
  addOfOther<at::_ops::upsample_nearest3d_backward_vec>(library);
  addOfOther<at::_ops::_upsample_nearest_exact3d_vec>(library);
  addOfOther<at::_ops::_upsample_nearest_exact3d_backward_vec>(library);
#endif
#undef XPU_ADD_PLAIN
#undef XPU_ADD_PAD
#undef XPU_ADD_NEAREST
}

[[maybe_unused]] const bool kSampleAdded = addKernels(&registerSample);

} // namespace

} // namespace at::xpu::detail
