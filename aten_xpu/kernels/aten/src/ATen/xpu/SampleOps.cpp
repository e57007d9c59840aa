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

// Each says how an operator is computed, as with reductions. Those of gradients
// are given the gradient first.

template <int dims>
struct AveragePool {
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      bool /*ceil_mode*/,
      bool count_include_pad,
      const c10::optional<int64_t>& divisor) {
    static const std::string name = "aten::avg_pool";
    return runWith(
        name,
        result,
        self,
        samplingOf(dims, SampleMode::Window, self.sizes(), result.sizes()),
        /*back=*/false,
        size,
        stride,
        padding,
        count_include_pad,
        divisor);
  }

  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& grad,
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      bool /*ceil_mode*/,
      bool count_include_pad,
      const c10::optional<int64_t>& divisor) {
    static const std::string name = "aten::avg_pool_backward";
    return runWith(
        name,
        result,
        grad,
        samplingOf(dims, SampleMode::Window, self.sizes(), grad.sizes()),
        /*back=*/true,
        size,
        stride,
        padding,
        count_include_pad,
        divisor);
  }

 private:
  static bool runWith(
      const std::string& op,
      const Tensor& result,
      const Tensor& from,
      Sampling sampling,
      bool back,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      bool count_include_pad,
      const c10::optional<int64_t>& divisor) {
    setWindows(sampling, size, stride, padding);
    sampling.flags = divisor ? kSampleSum
        : count_include_pad  ? kSampleWithPadding
                             : 0;
    sampling.factor = divisor ? 1 / double(*divisor) : 1;
    return runSampling(op, kSample, result, from, sampling, back);
  }
};

template <int dims>
struct MaxPool {
  static bool run(
      const Tensor& result,
      const Tensor& indices,
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool /*ceil_mode*/) {
    static const std::string name = "aten::max_pool_with_indices";
    auto sampling =
        samplingOf(dims, SampleMode::Window, self.sizes(), result.sizes());
    setWindows(sampling, size, stride, padding, dilation);
    return indices.scalar_type() == kLong &&
        runSampling(
               name, kMaxPool, result, self, sampling, /*back=*/false, indices);
  }

  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& grad,
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool /*ceil_mode*/,
      const Tensor& indices) {
    static const std::string name = "aten::max_pool_with_indices_backward";
    auto sampling =
        samplingOf(dims, SampleMode::Window, self.sizes(), grad.sizes());
    setWindows(sampling, size, stride, padding, dilation);
    return indices.scalar_type() == kLong && indices.sizes() == grad.sizes() &&
        indices.device() == grad.device() &&
        runSampling(
               name,
               kMaxPoolBack,
               result,
               grad,
               sampling,
               /*back=*/true,
               indices);
  }
};

/// Without a stride a window is a part of the elements.
template <int dims>
struct AdaptiveMaxPool {
  static bool run(
      const Tensor& result,
      const Tensor& indices,
      const Tensor& self,
      IntArrayRef /*size*/) {
    return MaxPool<dims>::run(result, indices, self, 1, 0, 0, 1, false);
  }

  static bool run(
      const Tensor& result,
      const Tensor& none,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& indices) {
    return MaxPool<dims>::run(
        result, none, grad, self, 1, 0, 0, 1, false, indices);
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
    static const std::string name = "aten::upsample_nearest";
    static const std::string name_back = "aten::upsample_nearest_backward";
    auto sampling = back ? samplingOf(dims, mode, result.sizes(), from.sizes())
                         : samplingOf(dims, mode, from.sizes(), result.sizes());
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
    return runSampling(
        back ? name_back : name, kSample, result, from, sampling, back);
  }
};

template <int dims, SampleMode mode>
struct Pad {
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      IntArrayRef padding) {
    static const std::string name = "aten::pad";
    auto sampling = samplingOf(dims, mode, self.sizes(), result.sizes());
    setPadding(sampling, padding);
    if (!self.is_floating_point()) {
      return chooseElements(
          result, self, sampling, [](const SampleAxis& axis, const Tensor& i) {
            const auto last = axis.in - 1;
            const auto at = i - axis.c;
            return mode == SampleMode::Replicate
                ? at.clamp(0, last)
                : (last - at.abs()).abs_().neg_().add_(last);
          });
    }
    return runSampling(name, kSample, result, self, sampling, /*back=*/false);
  }

  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& grad,
      const Tensor& self,
      IntArrayRef padding) {
    static const std::string name = "aten::pad_backward";
    auto sampling = samplingOf(dims, mode, self.sizes(), grad.sizes());
    setPadding(sampling, padding);
    return runSampling(name, kSample, result, grad, sampling, /*back=*/true);
  }

 private:
  static void setPadding(Sampling& sampling, IntArrayRef padding) {
    for (const auto i : c10::irange(dims)) { // the last dimension's first
      sampling.axis(dims - 1 - i).c = padding[size_t(2) * i];
    }
  }
};

// Operators without a meta class. Each makes its result; none of what is not
// plain, which is left to the host with its checks.

bool isPlain(const Tensor& tensor, int dims) {
  return kernelDevice(tensor) &&
      (tensor.dim() == dims + 1 || tensor.dim() == dims + 2) &&
      hasImages(tensor, dims + 2);
}

/// Sizes that differ from the tensor's in the last dimensions.
DimVector sizesWith(const Tensor& self, IntArrayRef last) {
  DimVector sizes(self.sizes());
  std::copy(last.begin(), last.end(), sizes.end() - int64_t(last.size()));
  return sizes;
}

/// A result of `like`'s type for the sampling of `self`; none if it cannot be.
Tensor sampled(
    const std::string& op,
    SampleKernel kernel,
    const Tensor& self,
    IntArrayRef sizes,
    const Sampling& sampling,
    bool back,
    const Tensor& indices = Tensor()) {
  const c10::xpu::XPUGuard guard(self.device());
  auto result = at::empty(sizes, self.options(), self.suggest_memory_format());
  return runSampling(op, kernel, result, self, sampling, back, indices)
      ? result
      : Tensor();
}

template <int dims>
struct AdaptivePool {
  static Tensor make(const Tensor& self, IntArrayRef size) {
    static const std::string name = "aten::_adaptive_avg_pool";
    if (!isPlain(self, dims) || size.size() != dims ||
        std::any_of(size.begin(), size.end(), [](auto n) { return n <= 0; })) {
      return {};
    }
    const auto sizes = sizesWith(self, size);
    return sampled(
        name,
        kSample,
        self,
        sizes,
        samplingOf(dims, SampleMode::Adaptive, self.sizes(), sizes),
        /*back=*/false);
  }

  static Tensor make(const Tensor& grad, const Tensor& self) {
    static const std::string name = "aten::_adaptive_avg_pool_backward";
    return isPlain(grad, dims) && isPlain(self, dims) &&
            grad.dim() == self.dim() &&
            self.sizes() ==
                IntArrayRef(
                    sizesWith(grad, self.sizes().slice(self.dim() - dims)))
        ? sampled(
              name,
              kSample,
              grad,
              self.sizes(),
              samplingOf(
                  dims, SampleMode::Adaptive, self.sizes(), grad.sizes()),
              /*back=*/true)
        : Tensor();
  }
};

template <int dims, SampleMode mode>
struct PlainPad {
  static Tensor make(const Tensor& self, IntArrayRef padding) {
    const auto sizes = padded(self, padding);
    if (!sizes) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    auto result =
        at::empty(*sizes, self.options(), self.suggest_memory_format());
    return Pad<dims, mode>::run(result, Tensor(), self, padding) ? result
                                                                 : Tensor();
  }

  static Tensor make(
      const Tensor& grad,
      const Tensor& self,
      IntArrayRef padding) {
    const auto sizes = padded(self, padding);
    if (!sizes || !grad.is_xpu() || grad.sizes() != IntArrayRef(*sizes)) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    auto result =
        at::empty(self.sizes(), grad.options(), self.suggest_memory_format());
    return Pad<dims, mode>::run(result, Tensor(), grad, self, padding)
        ? result
        : Tensor();
  }

 private:
  static c10::optional<DimVector> padded(
      const Tensor& self,
      IntArrayRef padding) {
    if (!isPlain(self, dims) || padding.size() != size_t(2) * dims) {
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

struct MaxPool3d {
  static std::tuple<Tensor, Tensor> make(
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode) {
    const auto sizes = pooled(self, size, stride, padding, dilation, ceil_mode);
    if (!sizes) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    const auto format = self.suggest_memory_format();
    auto result = at::empty(*sizes, self.options(), format);
    auto indices = at::empty(*sizes, self.options().dtype(kLong), format);
    if (!MaxPool<3>::run(
            result,
            indices,
            self,
            size,
            stride,
            padding,
            dilation,
            ceil_mode)) {
      return {};
    }
    return {result, indices};
  }

  static Tensor make(
      const Tensor& grad,
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode,
      const Tensor& indices) {
    const auto sizes = pooled(self, size, stride, padding, dilation, ceil_mode);
    if (!sizes || !grad.is_xpu() || grad.sizes() != IntArrayRef(*sizes)) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    auto result =
        at::empty(self.sizes(), grad.options(), self.suggest_memory_format());
    return MaxPool<3>::run(
               result,
               Tensor(),
               grad,
               self,
               size,
               stride,
               padding,
               dilation,
               ceil_mode,
               indices)
        ? result
        : Tensor();
  }

 private:
  static c10::optional<DimVector> pooled(
      const Tensor& self,
      IntArrayRef size,
      IntArrayRef stride,
      IntArrayRef padding,
      IntArrayRef dilation,
      bool ceil_mode) {
    if (!isPlain(self, 3)) {
      return c10::nullopt;
    }
    for (const auto numbers : {size, stride, padding, dilation}) {
      const bool none = numbers.empty() && numbers.data() == stride.data();
      if (numbers.size() != 1 && numbers.size() != 3 && !none) {
        return c10::nullopt;
      }
    }
    DimVector sizes(self.sizes());
    for (const auto i : c10::irange(3)) {
      auto& n = sizes[sizes.size() - 3 + i];
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
  XPU_ADD_WITH_GRADIENT(avg_pool2d, AveragePool<2>)
  XPU_ADD_WITH_GRADIENT(avg_pool3d, AveragePool<3>)
  XPU_ADD_STRUCTURED(
      max_pool2d_with_indices, max_pool2d_with_indices_out, MaxPool<2>)
  XPU_ADD_STRUCTURED(
      max_pool2d_with_indices_backward,
      max_pool2d_with_indices_backward_grad_input,
      MaxPool<2>)
  XPU_ADD_PLAIN(max_pool3d_with_indices, MaxPool3d)
  XPU_ADD_WITH_GRADIENT(adaptive_max_pool2d, AdaptiveMaxPool<2>)
  XPU_ADD_WITH_GRADIENT(adaptive_max_pool3d, AdaptiveMaxPool<3>)
  XPU_ADD_PLAIN(_adaptive_avg_pool2d, AdaptivePool<2>)
  XPU_ADD_PLAIN(_adaptive_avg_pool3d, AdaptivePool<3>)
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
  using Reflection3 = Pad<3, SampleMode::Reflect>;
  using Replication1 = Pad<1, SampleMode::Replicate>;
  using Reflection2 = PlainPad<2, SampleMode::Reflect>;
  XPU_ADD_WITH_GRADIENT(reflection_pad1d, Reflection1)
  XPU_ADD_WITH_GRADIENT(reflection_pad3d, Reflection3)
  XPU_ADD_WITH_GRADIENT(replication_pad1d, Replication1)
  XPU_ADD_PAD(reflection_pad2d, Reflection2)
  using Replication2 = PlainPad<2, SampleMode::Replicate>;
  using Replication3 = PlainPad<3, SampleMode::Replicate>;
  XPU_ADD_PAD(replication_pad2d, Replication2)
  XPU_ADD_PAD(replication_pad3d, Replication3)
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
