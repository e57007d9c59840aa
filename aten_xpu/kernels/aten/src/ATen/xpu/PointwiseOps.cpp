#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/ScalarOps.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Complex.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>
#include <utility>

// The operators of kernels/Pointwise.def.

namespace at::xpu::detail {

namespace {

// In place of the meta class of an operator that has none.

/// Of one tensor or two of the same type, and numbers.
struct Plain : TensorIteratorBase {
  template <typename... Numbers>
  void meta(const Tensor& self, const Numbers&... /*no tensors*/) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
  template <typename... Numbers>
  void meta(
      const Tensor& a,
      const Tensor& b,
      const Numbers&... /*no tensors*/) {
    build_borrowing_binary_op(maybe_get_output(0), a, b);
  }
};

/// The result is of a floating type.
struct PlainFloat : TensorIteratorBase {
  template <typename... Numbers>
  void meta(const Tensor& self, const Numbers&... /*no tensors*/) {
    build_borrowing_unary_float_op(maybe_get_output(0), self);
  }
};

struct Logical : TensorIteratorBase {
  void meta(const Tensor& a, const Tensor& b) {
    build_comparison_op(maybe_get_output(0), a, b);
  }
};

struct Where : TensorIteratorBase {
  void meta(const Tensor& condition, const Tensor& self, const Tensor& other) {
    const auto given = condition.scalar_type();
    TORCH_CHECK(
        given == kBool || given == kByte,
        "where expected condition to be a boolean tensor, but got a tensor with dtype ",
        given);
    if (given == kByte) {
      TORCH_WARN_ONCE(
          "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. Use a boolean condition instead.");
    }
    const auto type = at::result_type(self, other);
    const auto& out = maybe_get_output(0);
    TORCH_CHECK(
        !out.defined() || out.scalar_type() == type,
        "Expected out type to be ",
        type,
        " but got ",
        out.scalar_type());
    // Of numbers on the CPU it takes one.
    const auto moved = [](const Tensor& number, const Tensor& like) {
      return number.dim() == 0 && number.is_cpu() ? number.to(like.device())
                                                  : number;
    };
    build(
        TensorIteratorConfig()
            .check_all_same_dtype(false)
            .allow_cpu_scalars(true)
            .declare_static_dtype(type)
            .add_output(out)
            .add_owned_input(other.is_cpu() ? moved(self, condition) : self)
            .add_input(other)
            .add_owned_input(moved(condition, self.is_cpu() ? other : self)));
  }
};

/// The numbers among the arguments.
struct Numbers {
  PointwiseNumbers found;

  void look(const Scalar& number) {
    if (found.size() < 3) { // what follows chooses the kernel
      found.push_back(number);
    }
  }
  void look(const c10::optional<Scalar>& number) {
    if (number) {
      look(*number);
    }
  }
  void look(bool number) {
    look(int64_t(number));
  }
  void look(int64_t number) {
    look(Scalar(number));
  }
  void look(const c10::optional<double>& number) {
    look(Scalar(number.value_or(-1))); // logit's, where it is none
  }
  void look(c10::string_view text) { // gelu's
    TORCH_CHECK(
        text == "none" || text == "tanh",
        "approximate argument must be either none or tanh.");
    look(text == "tanh");
  }
  template <typename T>
  void look(const T& /*no number*/) {}
};

// Which kernel runs, by the arguments. All of them take the types of `first`.

template <Pointwise kernel>
struct Always {
  static constexpr Pointwise first = kernel;
  template <typename... Args>
  static Pointwise of(const Args&... /*any*/) {
    return kernel;
  }
};

struct ByRounding {
  static constexpr Pointwise first = Pointwise::div;
  static Pointwise of(
      const Tensor& /*self*/,
      const Tensor& /*other*/,
      const c10::optional<c10::string_view>& mode) {
    return !mode           ? Pointwise::div
        : *mode == "floor" ? Pointwise::div_floor
                           : Pointwise::div_trunc;
  }
};

struct ByResult { // whether elu_backward is given elu's
  static constexpr Pointwise first = Pointwise::elu_backward;
  static Pointwise of(
      const Tensor& /*grad*/,
      const Scalar& /*alpha*/,
      const Scalar& /*scale*/,
      const Scalar& /*input_scale*/,
      bool is_result,
      const Tensor& /*self_or_result*/) {
    return is_result ? Pointwise::elu_backward_of_result : first;
  }
};

template <Pointwise both, Pointwise low, Pointwise high>
struct ByBounds {
  static constexpr Pointwise first = both;
  template <typename Bound>
  static Pointwise of(
      const Tensor& /*self*/,
      const Bound& least,
      const Bound& most) {
    return least && most ? both : least ? low : high;
  }
};

bool isComplexTensor(const Tensor& tensor) {
  return tensor.is_complex();
}
template <typename T>
bool isComplexTensor(const T& /*no tensor*/) {
  return false;
}

/// Runs the kernel if there is one for the types. Classes here that stand for
/// meta classes may know less of complex numbers than the host, as of those
/// whose result is real.
template <class Kernel>
struct ByKernel {
  static Tensor realOf(const Tensor& self) {
    return realOfComplex(Kernel::first, self);
  }
  template <typename... Args>
  static Tensor realOf(const Args&... /*others*/) {
    return Tensor();
  }

  template <class Meta, typename... Args>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Args&... args) {
    if ((isComplexTensor(args) || ...) && !takesComplex(Kernel::first)) {
      return op.give(realOf(args...));
    }
    op.meta(metaArgument(args)...);
    Numbers numbers;
    (numbers.look(args), ...);
    return runPointwiseOrComplex(op, Kernel::of(args...), numbers.found);
  }
};

/// The operators that are registered and the types of each, for the tests. The
/// last word of those of kernels/Special.def is "special".
std::vector<std::string>& pointwiseTable() {
  static auto& lines = *new std::vector<std::string>; // never destroyed
  return lines;
}

void note(const std::string& name, Pointwise kernel) {
  auto& line = pointwiseTable().emplace_back(name);
  const auto types = pointwiseTypes(kernel);
  for (const auto i : c10::irange(kKernelTypes.size())) {
    if (types & (1 << i)) {
      line += std::string(" ") + kKernelTypes[i].name;
    }
  }
  line += types & SPECIAL & ~ALL ? " special" : "";
}

template <class Op, class Meta, class Kernel>
void addPointwise(torch::Library& library) {
  const auto name = nameOf<Op>();
  library.impl(name.c_str(), &StructuredCall<Op, Meta, ByKernel<Kernel>>::call);
  note(name, Kernel::first);
}

// Operators that are others, as PyTorch's functions for CPU and CUDA have them.

Scalar zeroOf(const Tensor& self) {
  return self.scalar_type() == kBool ? Scalar(false) : Scalar(0);
}

void addComposed(torch::Library& library) {
  library.impl("hardtanh", &at::native::hardtanh);
  library.impl("hardtanh_", &at::native::hardtanh_);
  library.impl("hardtanh.out", &at::native::hardtanh_out);
  using OptionalMode = c10::optional<c10::string_view>;
  static constexpr OptionalMode kFloor = c10::string_view("floor");
  library.impl("floor_divide", [](const Tensor& self, const Tensor& other) {
    return at::div(self, other, kFloor);
  });
  library.impl(
      "floor_divide_.Tensor", [](Tensor& self, const Tensor& other) -> Tensor& {
        return self.div_(other, kFloor);
      });
  library.impl(
      "floor_divide.out",
      [](const Tensor& self, const Tensor& other, Tensor& out) -> Tensor& {
        return at::div_out(out, self, other, kFloor);
      });
  library.impl("isnan", [](const Tensor& self) { return self.ne(self); });
  library.impl(
      "logical_not", [](const Tensor& self) { return self.eq(zeroOf(self)); });
  library.impl("logical_not_", [](Tensor& self) -> Tensor& {
    return self.eq_(zeroOf(self));
  });
  library.impl(
      "logical_not.out", [](const Tensor& self, Tensor& out) -> Tensor& {
        return at::eq_out(out, self, zeroOf(self));
      });
  library.impl("pow.Scalar", [](const Scalar& self, const Tensor& exponent) {
    return at::pow(at::native::wrapped_scalar_tensor(self), exponent);
  });
  library.impl(
      "pow.Scalar_out",
      [](const Scalar& self, const Tensor& exponent, Tensor& out) -> Tensor& {
        return at::pow_out(
            out, at::native::wrapped_scalar_tensor(self), exponent);
      });
  addOfOther<at::_ops::remainder_Scalar_Tensor>(library);
  addOfOther<at::_ops::rsub_Tensor>(library);
}

// Operators of other arguments or results.

/// The buffer is for the CPU's kernel of the gradient alone.
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    WithOutput<Plain> op(WithOutput<Plain>::Kind::New, Tensor());
    if (ByKernel<Always<Pointwise::log_sigmoid>>::run(op, *device, self)) {
      return {op.maybe_get_output(0), at::empty({0}, self.options())};
    }
  }
  return OnHost<at::_ops::log_sigmoid_forward>::call(self);
}

bool maskedFill(const Tensor& self, const Tensor& mask, const Tensor& value) {
  if (!kernelDevice(self) || !mask.is_xpu() || mask.scalar_type() != kBool ||
      value.dim() != 0 || (value.is_complex() && !self.is_complex()) ||
      at::has_internal_overlap(self) == MemOverlap::Yes) {
    return false; // the host raises, or warns
  }
  auto iter =
      TensorIteratorConfig()
          .check_all_same_dtype(false)
          .allow_cpu_scalars(true)
          .resize_outputs(false)
          .add_output(self)
          .add_owned_input(value.is_alias_of(self) ? value.clone() : value)
          .add_input(self)
          .add_input(mask)
          .build();
  return runPointwiseOrComplex(iter, Pointwise::where);
}

Tensor& masked_fill_(Tensor& self, const Tensor& mask, const Scalar& value) {
  // scalar_tensor makes infinities of what these types have not got.
  if (self.scalar_type() == kHalf) {
    (void)value.to<at::Half>();
  } else if (self.scalar_type() == kBFloat16) {
    (void)value.to<at::BFloat16>();
  }
  const auto number =
      at::scalar_tensor(value, TensorOptions(kCPU).dtype(self.scalar_type()));
  return maskedFill(self, mask, number)
      ? self
      : OnHost<at::_ops::masked_fill__Scalar>::call(self, mask, value);
}

Tensor& masked_fill_tensor_(
    Tensor& self,
    const Tensor& mask,
    const Tensor& value) {
  if (value.is_cpu() && value.dim() == 0) { // and the type may lack it
    return masked_fill_(self, mask, value.item());
  }
  return maskedFill(self, mask, value)
      ? self
      : OnHost<at::_ops::masked_fill__Tensor>::call(self, mask, value);
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_pointwise_table() -> str[]", [] { return pointwiseTable(); });
}

void registerPointwise(torch::Library& library) {
#define XPU_ADD(op, meta, ...) \
  addPointwise<at::_ops::op, meta, __VA_ARGS__>(library);
#define XPU_STRUCTURED(op, name, ...) \
  XPU_ADD(op, at::meta::structured_##name, __VA_ARGS__)
#define XPU_NEW(name, ...)                            \
  XPU_STRUCTURED(name, name, Always<Pointwise::name>) \
  XPU_STRUCTURED(name##_out, name, Always<Pointwise::name>)
#define XPU_USUAL(name, ...) \
  XPU_NEW(name)              \
  XPU_STRUCTURED(name##_, name, Always<Pointwise::name>)
#define XPU_GRADIENT(name, ...)                       \
  XPU_STRUCTURED(name, name, Always<Pointwise::name>) \
  XPU_STRUCTURED(name##_grad_input, name, Always<Pointwise::name>)
#define XPU_OVERLOAD(name, overload, out, ...)                       \
  XPU_STRUCTURED(name##_##overload, name##_##overload, __VA_ARGS__)  \
  XPU_STRUCTURED(name##__##overload, name##_##overload, __VA_ARGS__) \
  XPU_STRUCTURED(out, name##_##overload, __VA_ARGS__)
#define XPU_TENSOR(name, ...) \
  XPU_OVERLOAD(name, Tensor, name##_out, Always<Pointwise::name>)
#define XPU_TENSORS(name, ...) \
  XPU_OVERLOAD(name, Tensor, name##_Tensor_out, Always<Pointwise::name>)
#define XPU_COMPARE(name, ...) \
  XPU_TENSORS(name)            \
  XPU_OVERLOAD(name, Scalar, name##_Scalar_out, Always<Pointwise::name>)
#define XPU_IS XPU_NEW
#define XPU_WITHOUT(name, meta)                   \
  XPU_ADD(name, meta, Always<Pointwise::name>)    \
  XPU_ADD(name##_, meta, Always<Pointwise::name>) \
  XPU_ADD(name##_out, meta, Always<Pointwise::name>)
#define XPU_PLAIN(name, ...) XPU_WITHOUT(name, Plain)
#define XPU_LOGICAL(name, ...) XPU_WITHOUT(name, Logical)
#define XPU_OTHER(...)
#define XPU_MASKED(...)
  using Clamp =
      ByBounds<Pointwise::clamp, Pointwise::clamp_min, Pointwise::clamp_max>;
  using ClampTensor =
      ByBounds<Pointwise::clamp_Tensor, Pointwise::maximum, Pointwise::minimum>;
  using PowTensor = Always<Pointwise::pow_Tensor>;
  using PowScalar = Always<Pointwise::pow_Scalar>;
  XPU_STRUCTURED(clamp, clamp, Clamp)
  XPU_STRUCTURED(clamp_, clamp, Clamp)
  XPU_STRUCTURED(clamp_out, clamp, Clamp)
  XPU_OVERLOAD(clamp, Tensor, clamp_Tensor_out, ClampTensor)
  XPU_OVERLOAD(
      clamp_max, Tensor, clamp_max_Tensor_out, Always<Pointwise::minimum>)
  XPU_OVERLOAD(
      clamp_min, Tensor, clamp_min_Tensor_out, Always<Pointwise::maximum>)
  XPU_OVERLOAD(div, Tensor_mode, div_out_mode, ByRounding)
  XPU_STRUCTURED(elu_backward, elu_backward, ByResult)
  XPU_STRUCTURED(elu_backward_grad_input, elu_backward, ByResult)
  XPU_OVERLOAD(lerp, Scalar, lerp_Scalar_out, Always<Pointwise::lerp_Scalar>)
  XPU_OVERLOAD(lerp, Tensor, lerp_Tensor_out, Always<Pointwise::lerp_Tensor>)
  XPU_STRUCTURED(pow_Tensor_Scalar, pow_Tensor_Scalar, PowScalar)
  XPU_STRUCTURED(pow__Scalar, pow_Tensor_Scalar, PowScalar)
  XPU_STRUCTURED(pow_Tensor_Scalar_out, pow_Tensor_Scalar, PowScalar)
  XPU_STRUCTURED(pow_Tensor_Tensor, pow_Tensor_Tensor, PowTensor)
  XPU_STRUCTURED(pow__Tensor, pow_Tensor_Tensor, PowTensor)
  XPU_STRUCTURED(pow_Tensor_Tensor_out, pow_Tensor_Tensor, PowTensor)
  XPU_OVERLOAD(xlogy, Tensor, xlogy_OutTensor, Always<Pointwise::xlogy>)
#define XPU_UNSTRUCTURED(op, meta, name) \
  XPU_ADD(op, meta, Always<Pointwise::name>)
  XPU_UNSTRUCTURED(hardswish_backward, Plain, hardswish_backward)
  XPU_UNSTRUCTURED(hardtanh_backward, Plain, hardtanh_backward)
  XPU_UNSTRUCTURED(hardtanh_backward_grad_input, Plain, hardtanh_backward)
  XPU_OVERLOAD(
      round, decimals, round_decimals_out, Always<Pointwise::round_decimals>)
  XPU_UNSTRUCTURED(angle, PlainFloat, angle)
  XPU_WITHOUT(logit, PlainFloat)
  XPU_UNSTRUCTURED(log_sigmoid_backward, Plain, log_sigmoid_backward)
  XPU_UNSTRUCTURED(log_sigmoid_backward_grad_input, Plain, log_sigmoid_backward)
  XPU_UNSTRUCTURED(mish_backward, Plain, mish_backward)
#ifdef XPU_LATER_OPERATORS
  XPU_UNSTRUCTURED(_prelu_kernel, Plain, prelu)
#endif
  XPU_UNSTRUCTURED(_standard_gamma_grad, Plain, standard_gamma_grad)
  XPU_UNSTRUCTURED(where_self, Where, where)
  XPU_UNSTRUCTURED(where_self_out, Where, where)
  library.impl("log_sigmoid_forward", &log_sigmoid_forward);
  library.impl("masked_fill_.Scalar", &masked_fill_);
  library.impl("masked_fill_.Tensor", &masked_fill_tensor_);
  addComposed(library);
#include <ATen/xpu/kernels/Pointwise.def>
}

} // namespace at::xpu::detail
