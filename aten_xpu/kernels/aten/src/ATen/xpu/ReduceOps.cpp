#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>

#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

// The operators that kernels/Reduce.def has kernels for.

namespace at::xpu::detail {

namespace {

using DimSet = std::bitset<64>;

// The dimensions that the arguments name: all if none.
DimSet dimsOf(const Tensor& self, IntArrayRef dims) {
  return at::native::make_dim_mask(dims, self.dim());
}
DimSet dimsOf(const Tensor& self, OptionalIntArrayRef dims) {
  return at::native::make_dim_mask(dims, self.dim());
}
DimSet dimsOf(const Tensor& self, int64_t dim) {
  return dimsOf(self, IntArrayRef(dim));
}
DimSet dimsOf(const Tensor& self, const c10::optional<int64_t>& dim) {
  return dim ? dimsOf(self, *dim) : ~DimSet();
}
DimSet dimsOf(const Tensor& /*self*/) {
  return ~DimSet();
}
template <typename Given, typename... Args>
DimSet dimsOf(
    const Tensor& self,
    const Given& dims,
    bool /*keepdim*/,
    const Args&... /*args*/) {
  return dimsOf(self, dims);
}

// Each says how an operator is computed, from its results and its arguments.
// Each returns false, and changes nothing, if no kernel fits.

/// In the type of the result; integers and bool in int64 as they are.
template <Reduction reduction>
struct InResultType {
  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      const Args&... args) {
    const auto type = result.scalar_type();
    if (isComplexType(type)) {
      const auto input = self.to(type);
      const auto dims = dimsOf(self, args...);
      return reduction == Reduction::prod ? byHalves(result, input, dims)
                                          : ofParts(result, input, dims);
    }
    const auto natural =
        isIntegralType(self.scalar_type(), /*includeBool=*/true)
        ? kLong
        : self.scalar_type();
    return runReduction(
        reduction,
        type == natural ? self : self.to(type),
        dimsOf(self, args...),
        result);
  }

 private:
  /// Sums and means, of real and imaginary parts alike.
  static bool ofParts(const Tensor& result, const Tensor& self, DimSet dims) {
    dims[self.dim()] = false; // that of the parts
    return result.scalar_type() != kComplexHalf &&
        runReduction(
               reduction,
               at::view_as_real(self),
               dims,
               at::view_as_real(result));
  }

  /// The product over one dimension, or over all.
  static bool byHalves(const Tensor& result, Tensor x, const DimSet& dims) {
    if (!kernelTypeOfParts(x.scalar_type(), x.device().index())) {
      return false;
    }
    int64_t dim = 0;
    if (x.dim() == 0 || dims.count() != 1) {
      x = x.reshape(-1);
    }
    while (dim + 1 < x.dim() && !dims[dim]) {
      ++dim;
    }
    if (x.size(dim) == 0) {
      result.fill_(1);
      return true;
    }
    for (auto size = x.size(dim); size > 1; size = x.size(dim)) {
      const auto half = size / 2;
      const auto pairs = x.narrow(dim, 0, half) * x.narrow(dim, half, half);
      x = size % 2 ? at::cat({pairs, x.narrow(dim, size - 1, 1)}, dim) : pairs;
    }
    result.copy_(x.reshape(result.sizes()));
    return true;
  }
};

/// In the type of the argument. The results are the first, the second or both
/// of the kernel.
enum class Wants { First, Second, Both };
template <Reduction reduction, Wants wants = Wants::First>
struct InArgumentType {
  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& second,
      const Tensor& self,
      const Args&... args) {
    constexpr bool first = wants != Wants::Second;
    if (wants == Wants::Second && self.scalar_type() == kBool) {
      return false; // PyTorch refuses it
    }
    constexpr bool is_bool =
        reduction == Reduction::any || reduction == Reduction::all;
    return runReduction(
        reduction,
        is_bool && self.is_complex() ? self.ne(0) : self,
        dimsOf(self, args...),
        first ? result : Tensor(),
        first ? second : result);
  }
};

#ifdef XPU_LATER_OPERATORS
/// Where a list of no dimensions means that none is reduced.
template <Reduction reduction>
struct OverDims {
  static bool run(
      const Tensor& result,
      const Tensor& none,
      const Tensor& self,
      OptionalIntArrayRef dims,
      bool keepdim) {
    if (dims && dims->empty()) {
      result.copy_(self.ne(0));
      return true;
    }
    return InArgumentType<reduction>::run(result, none, self, dims, keepdim);
  }
};
#endif

struct Aminmax {
  static bool run(
      const Tensor& low,
      const Tensor& high,
      const Tensor& self,
      const c10::optional<int64_t>& dim,
      bool /*keepdim*/) {
    return runReduction(Reduction::aminmax, self, dimsOf(self, dim), low, high);
  }
};

struct VectorNorm {
  template <typename Given, typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      const c10::optional<Scalar>& given,
      const Given& dims,
      bool /*keepdim*/,
      const Args&... /*args*/) {
    const auto p = given ? given->toDouble() : 2;
    return runReduction(
        kernelOf(p),
        (self.is_complex() ? self.abs() : self).to(result.scalar_type()),
        dimsOf(self, dims),
        result,
        Tensor(),
        p);
  }

 private:
  static Reduction kernelOf(double p) {
    return p == 0        ? Reduction::norm_0
        : p == 1         ? Reduction::norm_1
        : p == 2         ? Reduction::norm_2
        : !std::isinf(p) ? Reduction::norm_p
        : p > 0          ? Reduction::norm_inf
                         : Reduction::norm_minus_inf;
  }
};

// Operators without a meta class.

/// Whether PyTorch has nothing to say of the tensor that is not said here.
bool isPlainInput(const Tensor& self) {
#if __has_include(<ATen/NamedTensorUtils.h>)
  if (self.has_names()) {
    return false;
  }
#endif
  return kernelDevice(self) &&
      kernelTypeOfParts(self.scalar_type(), self.device().index());
}

Tensor prod(const Tensor& self, c10::optional<ScalarType> dtype) {
  if (!isPlainInput(self)) {
    return {};
  }
  const bool integral =
      isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const auto result = at::empty(
      {},
      self.options().dtype(
          dtype.value_or(integral ? kLong : self.scalar_type())));
  return InResultType<Reduction::prod>::run(result, Tensor(), self) ? result
                                                                    : Tensor();
}

template <Reduction reduction>
Tensor extremum(const Tensor& self) {
  if (!isPlainInput(self) || self.numel() == 0) {
    return {};
  }
  auto result = at::empty({}, self.options());
  return runReduction(reduction, self, ~DimSet(), result) ? result : Tensor();
}

Tensor countNonzero(const Tensor& given, IntArrayRef dims) {
  const auto self = given.is_complex() ? given.ne(0) : given;
  if (!isPlainInput(self)) {
    return {};
  }
  auto result =
      at::native::create_reduction_result(self, dims, /*keepdim=*/false, kLong);
  const auto over = dimsOf(self, dims);
  return runReduction(Reduction::count_nonzero, self, over, result) ? result
                                                                    : Tensor();
}

/// Variances, their roots and means. What the correction leaves no degrees of
/// freedom goes to the host, for the warning.
template <Reduction reduction, bool with_mean>
struct Variance {
  template <typename... Args>
  static auto make(const Args&... args) {
    std::conditional_t<with_mean, std::tuple<Tensor, Tensor>, Tensor> result;
    Tensor first;
    Tensor second;
    if (run<reduction>(first, second, args...)) {
      if constexpr (with_mean) {
        result = {first, second};
      } else {
        result = first;
      }
    }
    return result;
  }

 private:
  template <Reduction wanted, typename Correction>
  static bool run(
      Tensor& first,
      Tensor& second,
      const Tensor& self,
      OptionalIntArrayRef dim,
      const c10::optional<Correction>& correction,
      bool keepdim) {
    if (!isPlainInput(self)) {
      return false;
    }
    if (self.is_complex()) {
      return ofParts<wanted>(first, second, self, dim, correction, keepdim);
    }
    if (!self.is_floating_point()) {
      return false;
    }
    const auto result = [&] {
      return at::native::create_reduction_result(
          self, dim, keepdim, self.scalar_type());
    };
    const double p = correction ? Scalar(*correction).toDouble() : 1;
    first = first.defined() ? first : result();
    if (double(self.numel()) <= p * double(first.numel())) {
      return false;
    }
    if (with_mean) {
      second = result();
    }
    return runReduction(wanted, self, dimsOf(self, dim), first, second, p);
  }

  /// The variance is the sum of both parts'.
  template <Reduction wanted, typename... Given>
  static bool ofParts(
      Tensor& first,
      Tensor& second,
      const Tensor& self,
      const Given&... given) {
    constexpr auto kVariance = Reduction::var_mean;
    Tensor variance;
    Tensor mean;
    if (!run<kVariance>(first, second, at::real(self), given...) ||
        !run<kVariance>(variance, mean, at::imag(self), given...)) {
      return false;
    }
    first.add_(variance);
    if (wanted != kVariance) {
      first.sqrt_();
    }
    if (mean.defined()) {
      second = at::complex(second, mean);
    }
    return true;
  }
};

void registerReduce(torch::Library& library) {
  XPU_ADD_STRUCTURED(
      sum_dim_IntList, sum_IntList_out, InResultType<Reduction::sum>)
  XPU_ADD_STRUCTURED(mean_dim, mean_out, InResultType<Reduction::mean>)
  XPU_ADD_STRUCTURED(prod_dim_int, prod_int_out, InResultType<Reduction::prod>)
  XPU_ADD_STRUCTURED(any, any_all_out, InArgumentType<Reduction::any>)
  XPU_ADD_STRUCTURED(any_dim, any_out, InArgumentType<Reduction::any>)
  XPU_ADD_STRUCTURED(all, all_all_out, InArgumentType<Reduction::all>)
  XPU_ADD_STRUCTURED(all_dim, all_out, InArgumentType<Reduction::all>)
#ifdef XPU_LATER_OPERATORS
  XPU_ADD_STRUCTURED(any_dims, any_dims_out, OverDims<Reduction::any>)
  XPU_ADD_STRUCTURED(all_dims, all_dims_out, OverDims<Reduction::all>)
#endif
  XPU_ADD_STRUCTURED(amax, amax_out, InArgumentType<Reduction::amax>)
  XPU_ADD_STRUCTURED(amin, amin_out, InArgumentType<Reduction::amin>)
  XPU_ADD_STRUCTURED(
      argmax, argmax_out, InArgumentType<Reduction::max, Wants::Second>)
  XPU_ADD_STRUCTURED(
      argmin, argmin_out, InArgumentType<Reduction::min, Wants::Second>)
  XPU_ADD_STRUCTURED(
      max_dim, max_dim_max, InArgumentType<Reduction::max, Wants::Both>)
  XPU_ADD_STRUCTURED(
      min_dim, min_dim_min, InArgumentType<Reduction::min, Wants::Both>)
  XPU_ADD_STRUCTURED(aminmax, aminmax_out, Aminmax)
  XPU_ADD_STRUCTURED(norm_ScalarOpt_dim, norm_out, VectorNorm)
  XPU_ADD_STRUCTURED(norm_ScalarOpt_dim_dtype, norm_dtype_out, VectorNorm)
  XPU_ADD_STRUCTURED(linalg_vector_norm, linalg_vector_norm_out, VectorNorm)
  addFunction<at::_ops::prod, &prod>(library);
  addFunction<at::_ops::max, &extremum<Reduction::amax>>(library);
  addFunction<at::_ops::min, &extremum<Reduction::amin>>(library);
  addFunction<at::_ops::count_nonzero_dim_IntList, &countNonzero>(library);
#define XPU_ADD_VARIANCE(op, reduction)                                       \
  addUnstructured<at::_ops::op##_correction, Variance<reduction, false>>(     \
      library);                                                               \
  addUnstructured<at::_ops::op##_mean_correction, Variance<reduction, true>>( \
      library);
  XPU_ADD_VARIANCE(var, Reduction::var_mean)
  XPU_ADD_VARIANCE(std, Reduction::std_mean)
#undef XPU_ADD_VARIANCE
}

[[maybe_unused]] const bool kReduceAdded = addKernels(&registerReduce);

} // namespace

} // namespace at::xpu::detail
