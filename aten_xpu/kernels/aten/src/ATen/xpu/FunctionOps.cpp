#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/xpu/XPUGuard.h>

#include <limits>
#include <tuple>

// Pointwise operators with several results, or of several kernels.

namespace at::xpu::detail {

namespace {

/// Whether kernels compute with it, and the others are on its device.
template <typename... Others>
bool areReal(const Tensor& self, const Others&... others) {
  return kernelDevice(self) && self.is_floating_point() &&
      (... && (others.device() == self.device()));
}

bool frexpOut(const Tensor& self, Tensor& mantissa, const Tensor& exponent) {
  if (!areReal(self, mantissa, exponent) ||
      mantissa.scalar_type() != self.scalar_type() ||
      exponent.scalar_type() != kInt) {
    return false;
  }
  auto exponents = at::empty_like(self);
  auto first = TensorIterator::unary_op(exponents, self);
  if (!runPointwise(first, Pointwise::frexp_exponent)) {
    return false;
  }
  auto second = TensorIterator::unary_op(mantissa, self);
  if (!runPointwise(second, Pointwise::frexp_mantissa)) {
    return false;
  }
  resizeAs(exponent, self);
  exponent.copy_(exponents);
  return true;
}

bool nanToNum(
    const Tensor& self,
    c10::optional<double> nan,
    c10::optional<double> positive,
    c10::optional<double> negative,
    Tensor& out) {
  const auto type = self.scalar_type();
  if (self.device() != out.device() || type != out.scalar_type()) {
    return false;
  }
  if (isIntegralType(type, /*includeBool=*/true)) {
    at::native::resize_output(out, self.sizes());
    out.copy_(self);
    return true;
  }
  if (!self.is_floating_point()) {
    return false;
  }
  const double most =
      AT_DISPATCH_FLOATING_TYPES_AND2(kHalf, kBFloat16, type, "nan_to_num", [] {
        return double(std::numeric_limits<scalar_t>::max());
      });
  auto iter = TensorIterator::unary_op(out, self);
  return runPointwise(
      iter,
      Pointwise::nan_to_num,
      {nan.value_or(0), positive.value_or(most), negative.value_or(-most)});
}

/// Gives the output its shape if it is the complex tensor of both.
bool isComplexOf(const Tensor& a, const Tensor& b, const Tensor& out) {
  if (!areReal(a, b, out) || a.scalar_type() != b.scalar_type() ||
      out.scalar_type() != toComplexType(a.scalar_type()) || out.is_conj()) {
    return false;
  }
  const auto sizes = at::infer_size(a.sizes(), b.sizes());
  resizeAs(out, (a.sizes() == sizes ? a : b).expand(sizes));
  return true;
}

bool complexOf(const Tensor& real, const Tensor& imaginary, const Tensor& out) {
  if (!isComplexOf(real, imaginary, out)) {
    return false;
  }
  const auto parts = at::view_as_real(out);
  parts.select(-1, 0).copy_(real);
  parts.select(-1, 1).copy_(imaginary);
  return true;
}

bool polarOf(const Tensor& size, const Tensor& angle, const Tensor& out) {
  if (!isComplexOf(size, angle, out)) {
    return false;
  }
  const auto parts = at::view_as_real(out);
  parts.select(-1, 0).copy_(at::cos(angle).mul(size));
  parts.select(-1, 1).copy_(at::sin(angle).mul(size));
  return true;
}

#ifdef XPU_LATER_OPERATORS
// PyTorch's function calls a kernel of the CPU or CUDA where the exponent is an
// integer.
Tensor ldexpOf(const Tensor& self, const Tensor& other) {
  if (!self.is_floating_point() ||
      !isIntegralType(other.scalar_type(), /*includeBool=*/true)) {
    return at::mul(self, at::pow(2.0, other));
  }
  if (areReal(self, other)) {
    const c10::xpu::XPUGuard guard(self.device());
    auto iter = TensorIteratorConfig()
                    .add_owned_output(Tensor())
                    .add_input(self)
                    .add_owned_input(other.to(self.scalar_type()))
                    .build();
    if (runPointwise(iter, Pointwise::ldexp)) {
      return iter.output();
    }
  }
  return at::mul(self, at::pow(2.0, other)).to(self.scalar_type());
}
/// A result that can be written to the tensor.
Tensor ldexpFor(const Tensor& self, const Tensor& other, const Tensor& out) {
  auto result = ldexpOf(self, other);
  TORCH_CHECK(
      out.device() == result.device(),
      "Expected all tensors to be on the same device, but found at least two "
      "devices, ",
      result.device(),
      " and ",
      out.device(),
      "!");
  TORCH_CHECK(
      canCast(result.scalar_type(), out.scalar_type()),
      "result type ",
      result.scalar_type(),
      " can't be cast to the desired output type ",
      out.scalar_type());
  return result;
}
Tensor& ldexpInPlace(Tensor& self, const Tensor& other) {
  return self.copy_(ldexpFor(self, other, self));
}
Tensor& ldexpOut(const Tensor& self, const Tensor& other, Tensor& out) {
  const auto result = ldexpFor(self, other, out);
  resizeAs(out, result);
  return out.copy_(result);
}

std::tuple<Tensor, Tensor> preluBackward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& weight) {
  if (!areReal(grad, self, weight)) {
    return {};
  }
  auto of_self = TensorIteratorConfig()
                     .add_owned_output(Tensor())
                     .add_input(grad)
                     .add_input(self)
                     .add_input(weight)
                     .build();
  auto of_weight = TensorIteratorConfig()
                       .add_owned_output(Tensor())
                       .add_input(grad)
                       .add_input(self)
                       .build();
  if (!runPointwise(of_self, Pointwise::prelu_grad) ||
      !runPointwise(of_weight, Pointwise::prelu_weight_grad)) {
    return {};
  }
  return {of_self.output(), of_weight.output()};
}
#endif

void registerLdexp([[maybe_unused]] torch::Library& library) {
#ifdef XPU_LATER_OPERATORS
  library.impl("ldexp.Tensor", &ldexpOf);
  library.impl("ldexp_", &ldexpInPlace);
  library.impl("ldexp.out", &ldexpOut);
#endif
}

void registerSpecial(torch::Library& library) {
  addFunction<at::_ops::frexp_Tensor_out, &frexpOut>(library);
  addFunction<at::_ops::nan_to_num_out, &nanToNum>(library);
  addFunction<at::_ops::complex_out, &complexOf>(library);
  addFunction<at::_ops::polar_out, &polarOf>(library);
  library.impl("view_as_real", &at::native::view_as_real);
#ifdef XPU_LATER_OPERATORS
  addFunction<at::_ops::_prelu_kernel_backward, &preluBackward>(library);
#endif
}

[[maybe_unused]] const bool kSpecialAdded = addKernels(&registerSpecial);
[[maybe_unused]] const bool kLdexpAdded =
    addKernels(&registerLdexp, /*always=*/true);

} // namespace

} // namespace at::xpu::detail
