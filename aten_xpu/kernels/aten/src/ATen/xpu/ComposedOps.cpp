#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/OpMathType.h>
#include <ATen/core/DimVector.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

// Operators that are made of those that have kernels. PyTorch's functions for
// the CPU and CUDA have loops of their own.

namespace at::xpu::detail {

namespace {

/// Waits for the device.
bool equal(const Tensor& self, const Tensor& other) {
  if (!haveKernels(self, other)) {
    return OnHost<at::_ops::equal>::call(self, other);
  }
  return self.sizes() == other.sizes() &&
      (self.numel() == 0 || !self.ne(other).any().item<bool>());
}

bool isInteger(const Tensor& tensor) {
  return isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}
bool isInteger(const Scalar& number) {
  return number.isIntegral(/*includeBool=*/false);
}

/// << and >>, which PyTorch has as other operators than the functions.
void registerShifts(torch::Library& library) {
#define XPU_ADD_SHIFT(op, Result, Self, Other, shift)                   \
  library.impl(                                                         \
      nameOf<at::_ops::op>().c_str(),                                   \
      [](Self self, const Other& other) -> Result {                     \
        return haveKernels(self) && isInteger(self) && isInteger(other) \
            ? self.shift(other)                                         \
            : OnHost<at::_ops::op>::call(self, other);                  \
      });
  // clang-format off
  XPU_ADD_SHIFT(__lshift___Scalar, Tensor, const Tensor&, Scalar, bitwise_left_shift)
  XPU_ADD_SHIFT(__lshift___Tensor, Tensor, const Tensor&, Tensor, bitwise_left_shift)
  XPU_ADD_SHIFT(__rshift___Scalar, Tensor, const Tensor&, Scalar, bitwise_right_shift)
  XPU_ADD_SHIFT(__rshift___Tensor, Tensor, const Tensor&, Tensor, bitwise_right_shift)
  XPU_ADD_SHIFT(__ilshift___Scalar, Tensor&, Tensor&, Scalar, bitwise_left_shift_)
  XPU_ADD_SHIFT(__ilshift___Tensor, Tensor&, Tensor&, Tensor, bitwise_left_shift_)
  XPU_ADD_SHIFT(__irshift___Scalar, Tensor&, Tensor&, Scalar, bitwise_right_shift_)
  XPU_ADD_SHIFT(__irshift___Tensor, Tensor&, Tensor&, Tensor, bitwise_right_shift_)
  // clang-format on
#undef XPU_ADD_SHIFT
}

Tensor withoutNan(const Tensor& self) {
  return self.is_floating_point() ? self.masked_fill(self.isnan(), 0) : self;
}

Tensor nansum(
    const Tensor& self,
    OptionalIntArrayRef dim,
    bool keepdim,
    c10::optional<ScalarType> dtype) {
  return haveKernels(self) && !self.is_complex()
      ? withoutNan(self).sum(dim, keepdim, dtype)
      : OnHost<at::_ops::nansum>::call(self, dim, keepdim, dtype);
}

Tensor& nansumOut(
    const Tensor& self,
    OptionalIntArrayRef dim,
    bool keepdim,
    c10::optional<ScalarType> dtype,
    Tensor& out) {
  return haveKernels(self) && !self.is_complex() &&
          out.device() == self.device() &&
          out.scalar_type() == dtype.value_or(out.scalar_type()) &&
          out.is_floating_point() == self.is_floating_point()
      ? at::sum_out(out, withoutNan(self), dim, keepdim, dtype)
      : OnHost<at::_ops::nansum_out>::call(self, dim, keepdim, dtype, out);
}

std::pair<Tensor, Tensor> halvesOf(const Tensor& self, int64_t dim) {
  const auto half = self.size(dim) / 2;
  return {self.narrow(dim, 0, half), self.narrow(dim, half, half)};
}

struct Glu {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      int64_t dim) {
    if (!areFloating(self) || self.dim() == 0) {
      return false;
    }
    op.meta(self, dim);
    const auto [a, b] = halvesOf(self, dim);
    auto result = op.maybe_get_output(0);
    at::mul_out(result, a, b.sigmoid());
    return true;
  }
};

Tensor& gluBackwardOut(
    const Tensor& grad,
    const Tensor& self,
    int64_t dim,
    Tensor& result) {
  if (!areFloating(self, grad, result) || self.dim() == 0 ||
      self.size(dim) % 2 != 0 || grad.size(dim) != self.size(dim) / 2) {
    return OnHost<at::_ops::glu_backward_grad_input>::call(
        grad, self, dim, result);
  }
  at::native::resize_output(result, self.sizes());
  const auto [a, b] = halvesOf(self, dim);
  auto [of_a, of_b] = halvesOf(result, dim);
  const auto part = b.sigmoid();
  at::mul_out(of_a, grad, part);
  at::sigmoid_backward_out(of_b, grad, part);
  of_b.mul_(a); // before, it might be too large for half
  return result;
}

Tensor gluBackward(const Tensor& grad, const Tensor& self, int64_t dim) {
  auto result = at::empty_like(self);
  return at::glu_backward_out(result, grad, self, dim);
}

Tensor addrOf(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  const auto type = self.scalar_type();
  const auto takes = [type](const Scalar& number) {
    return c10::canCast(number.type(), type) &&
        number.isBoolean() == (type == kBool);
  };
  if (a.dim() != 1 || b.dim() != 1 || !takes(beta) || !takes(alpha)) {
    return OnHost<at::_ops::addr>::call(self, a, b, beta, alpha); // it raises
  }
  const auto wide = at::toOpMathType(type); // the product is not rounded
  return wide == type || !haveKernels(self, a, b)
      ? at::native::math_addr(self, a, b, beta, alpha)
      : at::native::math_addr(
            self.to(wide), a.to(wide), b.to(wide), beta, alpha)
            .to(type);
}

Tensor& addrOut(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  if (!haveKernels(out, self, a, b)) {
    return OnHost<at::_ops::addr_out>::call(self, a, b, beta, alpha, out);
  }
  if (self.is_same(out)) { // the host has another for it
    TORCH_CHECK(
        self.dim() == 2,
        "2D tensor expected, got ",
        self.dim(),
        "D tensor for input");
    TORCH_CHECK(
        self.size(0) == a.numel() && self.size(1) == b.numel(),
        "size mismatch, input: ",
        self.sizes(),
        ", v1: ",
        a.sizes(),
        ", v2: ",
        b.sizes());
  }
  at::assert_no_internal_overlap(out);
  if (!self.is_same(out)) {
    at::assert_no_partial_overlap(out, self);
  }
  const auto result = addrOf(self, a, b, beta, alpha);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor trace(const Tensor& self) {
  return haveKernels(self) && self.dim() == 2
      ? self.diagonal().sum()
      : OnHost<at::_ops::trace>::call(self);
}

struct Cross {
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      const Tensor& other,
      int64_t dim) {
    if (!haveKernels(self, other) || self.scalar_type() == kBool) {
      return false;
    }
    const auto a = self.expand(result.sizes());
    const auto b = other.expand(result.sizes());
    const auto at = [&](const Tensor& tensor, int64_t i) {
      return tensor.select(dim, i % 3);
    };
    const auto part = [&](int64_t i) {
      return at(a, i + 1) * at(b, i + 2) - at(a, i + 2) * at(b, i + 1);
    };
    result.copy_(at::stack({part(0), part(1), part(2)}, dim));
    return true;
  }
};

struct Renorm {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      const Scalar& p,
      int64_t dim,
      const Scalar& most) {
    if (!areFloating(self)) {
      return false;
    }
    op.meta(self, p, dim, most);
    DimVector others;
    for (const auto d : c10::irange(self.dim())) {
      if (d != maybe_wrap_dim(dim, self.dim())) {
        others.push_back(d);
      }
    }
    const auto type = self.scalar_type();
    const auto norms = at::linalg_vector_norm(
        self, p, others, /*keepdim=*/true, at::toOpMathType(type));
    const double limit = most.toDouble();
    const auto factors = at::where(
        norms > limit, limit / (norms + 1e-7), at::ones({}, norms.options()));
    auto result = op.maybe_get_output(0);
    at::mul_out(result, self, factors.to(type));
    return true;
  }
};

Tensor narrowCopy(
    const Tensor& self,
    int64_t dim,
    int64_t start,
    int64_t length) {
  return self.narrow(dim, start, length).clone(MemoryFormat::Contiguous);
}

/// Adds what overlaps in turns.
Tensor unfoldBackward(
    const Tensor& grad,
    IntArrayRef sizes,
    int64_t dim,
    int64_t size,
    int64_t step) {
  if (!haveKernels(grad)) {
    return OnHost<at::_ops::unfold_backward>::call(
        grad, sizes, dim, size, step);
  }
  auto result = at::zeros(sizes, grad.options());
  if (sizes.empty()) {
    return result.add_(grad.sum());
  }
  dim = maybe_wrap_dim(dim, int64_t(sizes.size()));
  const auto windows = grad.size(dim);
  if (size < windows) {
    for (const auto i : c10::irange(size)) {
      result.slice(dim, i, i + (windows - 1) * step + 1, step)
          .add_(grad.select(-1, i));
    }
  } else {
    for (const auto i : c10::irange(windows)) {
      result.narrow(dim, i * step, size)
          .add_(grad.select(dim, i).movedim(-1, dim));
    }
  }
  return result;
}

struct IsIn {
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& elements,
      const Tensor& tests,
      bool /*assume_unique*/,
      bool invert) {
    if (!haveKernels(elements, tests) || elements.scalar_type() == kBool) {
      return false;
    }
    if (tests.numel() == 0) {
      result.fill_(invert);
      return true;
    }
    const auto sorted = std::get<0>(tests.reshape(-1).sort());
    // NaN, which are last, are not in order, and equal nothing.
    const auto ordered = sorted.is_floating_point()
        ? sorted.masked_fill(
              sorted.isnan(), std::numeric_limits<double>::infinity())
        : sorted;
    const auto place =
        at::searchsorted(ordered, elements).clamp_max(sorted.numel() - 1);
    const auto found = sorted.take(place).eq(elements);
    result.copy_(invert ? found.logical_not() : found);
    return true;
  }
};

/// Each element goes to the place in its plane that its index says. Left to the
/// host where it raises, as PyTorch does where two may go to one place.
template <size_t dims>
struct Unpool {
  template <typename... Windows> // in three dimensions stride and padding
  static Tensor make(
      const Tensor& self,
      const Tensor& indices,
      IntArrayRef size,
      const Windows&... /*unused*/) {
    const auto first = self.dim() - int64_t(dims);
    if (!haveKernels(self) || self.numel() == 0 || (first != 1 && first != 2) ||
        size.size() != dims || indices.device() != self.device() ||
        indices.scalar_type() != kLong || indices.sizes() != self.sizes() ||
        at::globalContext().deterministicAlgorithms()) {
      return {};
    }
    const c10::xpu::XPUGuard guard(self.device());
    DimVector sizes(self.sizes().slice(0, first));
    sizes.append(size.begin(), size.end());
    const auto result = at::zeros(sizes, self.options());
    result.flatten(first).scatter_(
        -1, indices.flatten(first), self.flatten(first));
    return result.contiguous(self.suggest_memory_format());
  }
};

/// Waits for the device, once, unless the size of the result is given.
Tensor repeatInterleave(
    const Tensor& repeats,
    c10::optional<int64_t> output_size) {
  const auto type = repeats.scalar_type();
  if (!haveKernels(repeats) || repeats.dim() != 1 || repeats.numel() == 0 ||
      (type != kLong && type != kInt)) {
    return OnHost<at::_ops::repeat_interleave_Tensor>::call(
        repeats, output_size);
  }
  const auto ends = repeats.cumsum(0);
  auto size = output_size;
  if (!size) {
    const auto known = at::stack({repeats.min().to(kLong), ends[-1]}).cpu();
    if (known.data_ptr<int64_t>()[0] < 0) { // the host raises
      return OnHost<at::_ops::repeat_interleave_Tensor>::call(
          repeats, output_size);
    }
    size = known.data_ptr<int64_t>()[1];
  } else {
    assertOn(ends[-1].eq(*size), "allocated size does not match required size");
  }
  return at::searchsorted(
      ends,
      at::arange(*size, ends.options()),
      /*out_int32=*/type == kInt,
      /*right=*/true);
}

Tensor& conjPhysicalOut(const Tensor& self, Tensor& out) {
  if (!haveKernels(self, out) || !self.is_complex()) {
    return OnHost<at::_ops::conj_physical_out>::call(self, out);
  }
  if (out.is_same(self)) {
    at::imag(out).neg_();
    return out;
  }
  resizeAs(out, self);
  return out.copy_(self.conj());
}

#ifdef XPU_LATER_OPERATORS

// Batch norm where PyTorch asks which library computes it: none. The last
// result is what one would keep.

std::tuple<Tensor, Tensor, Tensor, Tensor> batchNormWithUpdate(
    const Tensor& input,
    const c10::optional<Tensor>& weight,
    const c10::optional<Tensor>& bias,
    Tensor& mean,
    Tensor& variance,
    double momentum,
    double eps) {
  const auto kept = at::empty({0}, input.options().dtype(kByte));
  return std::tuple_cat(
      at::native_batch_norm(
          input, weight, bias, mean, variance, true, momentum, eps),
      std::make_tuple(kept));
}

std::tuple<Tensor, Tensor, Tensor> backwardOfBatchNorm(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& weight,
    const c10::optional<Tensor>& running_mean,
    const c10::optional<Tensor>& running_variance,
    const c10::optional<Tensor>& mean,
    const c10::optional<Tensor>& factor,
    bool update,
    double eps,
    std::array<bool, 3> mask,
    const Tensor& /*kept*/) {
  return at::native_batch_norm_backward(
      grad,
      input,
      weight,
      running_mean,
      running_variance,
      mean,
      factor,
      update,
      eps,
      mask);
}

#else

// In PyTorch 1.13 each device has it. The weight is one number, or has one for
// each channel.

bool fitsPrelu(const Tensor& self, const Tensor& weight) {
  return areFloating(self, weight) && weight.dim() <= 1 &&
      (weight.numel() == 1 ||
       (self.dim() > 1 && self.size(1) == weight.numel()));
}

Tensor ofChannels(const Tensor& self, const Tensor& weight) {
  DimVector sizes(self.dim(), 1);
  if (self.dim() > 1) {
    sizes[1] = weight.numel();
  }
  return weight.reshape(sizes);
}

struct Prelu {
  static Tensor make(const Tensor& self, const Tensor& weight) {
    if (!fitsPrelu(self, weight)) {
      return {};
    }
    return at::where(self > 0, self, self * ofChannels(self, weight));
  }
};

struct PreluBackward {
  static std::tuple<Tensor, Tensor> make(
      const Tensor& grad,
      const Tensor& self,
      const Tensor& weight) {
    if (!fitsPrelu(self, weight) || !haveKernels(self, grad)) {
      return {};
    }
    const auto positive = self > 0;
    const auto slope = ofChannels(self, weight);
    const auto of_slope = (self * grad).masked_fill_(positive, 0);
    return {
        at::where(positive, grad, grad * slope),
        at::sum_to(of_slope, slope.sizes()).reshape(weight.sizes())};
  }
};

#endif

void registerComposed(torch::Library& library) {
  library.impl("addr", &addrOf);
  library.impl("addr.out", &addrOut);
  library.impl("channel_shuffle", [](const Tensor& self, int64_t groups) {
    return at::native::math_channel_shuffle(self.contiguous(), groups);
  });
#ifdef XPU_LATER_OPERATORS
  library.impl("_batch_norm_with_update", &batchNormWithUpdate);
  library.impl("batch_norm_backward", &backwardOfBatchNorm);
  library.impl("conj_physical_", [](Tensor& self) -> Tensor& {
    return conjPhysicalOut(self, self);
  });
#else
  addUnstructured<at::_ops::prelu, Prelu>(library);
  addUnstructured<at::_ops::prelu_backward, PreluBackward>(library);
#endif
  library.impl("conj_physical.out", &conjPhysicalOut);
  library.impl("equal", &equal);
  addStructured<
      at::meta::structured_glu,
      Glu,
      at::_ops::glu,
      at::_ops::glu_out>(library);
  library.impl("glu_backward", &gluBackward);
  library.impl("glu_backward.grad_input", &gluBackwardOut);
  XPU_ADD_STRUCTURED(isin_Tensor_Tensor, isin_Tensor_Tensor_out, IsIn)
  XPU_ADD_STRUCTURED(linalg_cross, linalg_cross_out, Cross)
  library.impl("nansum", &nansum);
  library.impl("nansum.out", &nansumOut);
  library.impl("narrow_copy", &narrowCopy);
  registerShifts(library);
  library.impl("pixel_shuffle", &at::native::math_pixel_shuffle);
  library.impl("pixel_unshuffle", &at::native::math_pixel_unshuffle);
  addStructured<
      at::meta::structured_renorm,
      Renorm,
      at::_ops::renorm,
      at::_ops::renorm_,
      at::_ops::renorm_out>(library);
  library.impl("repeat_interleave.Tensor", &repeatInterleave);
  library.impl("trace", &trace);
#define XPU_ADD_UNPOOL(op, dims)                        \
  addUnstructured<at::_ops::op, Unpool<dims>>(library); \
  addUnstructured<at::_ops::op, Unpool<dims>, at::_ops::op##_out>(library);
  XPU_ADD_UNPOOL(max_unpool2d, 2)
  XPU_ADD_UNPOOL(max_unpool3d, 3)
#undef XPU_ADD_UNPOOL
  library.impl("unfold_backward", &unfoldBackward);
  library.impl("view_as_complex", &at::native::view_as_complex);
}

[[maybe_unused]] const bool kComposedAdded = addKernels(&registerComposed);

} // namespace

} // namespace at::xpu::detail
