#include <ATen/xpu/detail/Complex.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/util/irange.h>

#include <array>
#include <cmath>

// Operators on complex numbers, made of operators on their real and imaginary
// parts. Kernels have no complex types: each would be in the package for each
// operator.

namespace at::xpu::detail {

// Files are compiled together, and others have such names.
namespace parts {

namespace {

/// The parts of a tensor. A result that is real has no imaginary one.
struct Complex {
  Tensor re;
  Tensor im;
};

Complex partsOf(const Scalar& number, const TensorOptions& real) {
  const auto value = number.toComplexDouble();
  return {
      at::scalar_tensor(value.real(), real),
      at::scalar_tensor(value.imag(), real)};
}
/// Views of a complex tensor. A real one has an imaginary part of 0, and one
/// that is not on the device is a number.
Complex partsOf(const Tensor& tensor, ScalarType type, const Device& device) {
  const auto real = TensorOptions(device).dtype(toRealValueType(type));
  if (tensor.device() != device) {
    return partsOf(tensor.item(), real);
  }
  if (!tensor.is_complex()) {
    return {
        tensor.to(real.dtype()), at::zeros({}, real).expand(tensor.sizes())};
  }
  const auto converted = tensor.to(type);
  return {at::real(converted), at::imag(converted)};
}

Complex operator-(const Complex& a) {
  return {-a.re, -a.im};
}
Complex operator+(const Complex& a, const Complex& b) {
  return {a.re + b.re, a.im + b.im};
}
Complex operator-(const Complex& a, const Complex& b) {
  return {a.re - b.re, a.im - b.im};
}
Complex operator*(const Complex& a, const Complex& b) {
  return {(a.re * b.re).sub_(a.im * b.im), (a.re * b.im).add_(a.im * b.re)};
}
Complex operator*(const Complex& a, const Scalar& number) {
  if (number.equal(1)) {
    return a;
  }
  return number.isComplex() ? a * partsOf(number, a.re.options())
                            : Complex{a.re * number, a.im * number};
}
Complex operator+(const Scalar& number, const Complex& a) {
  const auto value = number.toComplexDouble();
  return {a.re + value.real(), number.isComplex() ? a.im + value.imag() : a.im};
}

Tensor magnitude(const Complex& a) {
  return at::hypot(a.re, a.im);
}
Complex conjugate(const Complex& a) {
  return {a.re, -a.im};
}
Complex choose(const Tensor& first, const Complex& a, const Complex& b) {
  return {at::where(first, a.re, b.re), at::where(first, a.im, b.im)};
}
Tensor areEqual(const Complex& a, const Complex& b) {
  return a.re.eq(b.re).logical_and(a.im.eq(b.im));
}
Tensor isZero(const Complex& a) {
  return a.re.eq(0).logical_and_(a.im.eq(0));
}

/// By the larger part, so that no square overflows.
Complex operator/(const Complex& a, const Complex& b) {
  const auto by_re = b.re.abs().ge(b.im.abs());
  const auto large = at::where(by_re, b.re, b.im);
  const auto small = at::where(by_re, b.im, b.re);
  const auto ratio = small / large;
  const auto factor = (large + small * ratio).reciprocal_();
  const auto p = at::where(by_re, a.re, a.im);
  const auto q = at::where(by_re, a.im, a.re);
  const auto im = (q - p * ratio).mul_(factor);
  const auto zero = large.abs(); // divides as for real numbers
  return choose(
      zero.eq(0),
      {a.re / zero, a.im / zero},
      {(p + q * ratio).mul_(factor), at::where(by_re, im, -im)});
}
Complex reciprocal(const Complex& a) {
  return partsOf(1, a.re.options()) / a;
}
/// Of magnitude 1, or 0.
Complex direction(const Complex& a) {
  const auto size = magnitude(a);
  return choose(isZero(a), a, {a.re / size, a.im / size});
}

/// a * b; where `zero` is 0, one of both is, and the other may be infinite.
Tensor productOrZero(const Tensor& zero, const Tensor& a, const Tensor& b) {
  const auto product = a * b;
  return at::where(zero.eq(0).logical_and_(product.isnan()), zero, product);
}
Complex exponential(const Complex& a) {
  const auto size = a.re.exp();
  return {size * a.im.cos(), productOrZero(a.im, size, a.im.sin())};
}
Complex logarithm(const Complex& a) {
  return {magnitude(a).log_(), at::atan2(a.im, a.re)};
}
Complex root(const Complex& a) {
  const auto large = (magnitude(a).add_(a.re.abs())).div_(2).sqrt_();
  const auto small = at::where(large.eq(0), a.im, a.im / (large * 2));
  const auto right = a.re.ge(0);
  return choose(
      a.im.isinf(),
      {a.im.abs(), a.im},
      {at::where(right, large, small.abs()),
       at::where(right, small, at::copysign(large, a.im))});
}
Complex sigmoid(const Complex& a) {
  return reciprocal(1 + exponential(-a));
}
Complex hyperbolicSine(const Complex& a) {
  return {
      productOrZero(a.re, a.re.sinh(), a.im.cos()),
      productOrZero(a.im, a.re.cosh(), a.im.sin())};
}
Complex hyperbolicCosine(const Complex& a) {
  const auto sign = a.re.clamp(-1, 1).mul_(a.im.clamp(-1, 1));
  return {
      a.re.cosh() * a.im.cos(), productOrZero(sign, a.re.sinh(), a.im.sin())};
}
Complex hyperbolicTangent(const Complex& a) {
  const auto t = a.re.tanh();
  const auto u = a.im.tan();
  const auto below = (t * u).square_().add_(1);
  return {t * (u.square() + 1) / below, u * (1 - t.square()).div_(below)};
}
/// i · a, which turns it by a quarter.
Complex turned(const Complex& a) {
  return {-a.im, a.re};
}
/// Next to -1 by the number itself, as then nothing cancels.
Complex logarithmOfOneMore(const Complex& a) {
  const auto log = logarithm(1 + a);
  const auto more = a.re * (a.re + 2) + a.im.square();
  return {
      at::where(log.re.abs().gt(0.5), log.re, more.log1p().div_(2)), log.im};
}
Complex unlessInfinite(
    const Complex& a,
    const Complex& result,
    const Complex& limit) {
  return choose(a.re.isinf().logical_or_(a.im.isinf()), limit, result);
}
Tensor withSignOf(const Tensor& a, double number) {
  return at::full_like(a, number).copysign_(a);
}
// By roots of 1 - a and 1 + a, so that nothing cancels where the result is
// small (Kahan, Branch Cuts for Complex Elementary Functions, 1987).
Complex inverseSine(const Complex& a) {
  const auto below = root(1 + -a);
  const auto above = root(1 + a);
  return unlessInfinite(
      a,
      {at::atan2(a.re, (below * above).re),
       (conjugate(below) * above).im.asinh_()},
      {at::atan2(a.re, a.im.abs()), withSignOf(a.im, HUGE_VAL)});
}
Complex inverseCosine(const Complex& a) {
  const auto below = root(1 + -a);
  const auto above = root(1 + a);
  return unlessInfinite(
      a,
      {at::atan2(below.re, above.re).mul_(2),
       (conjugate(above) * below).im.asinh_()},
      {at::atan2(a.im.abs(), a.re), -withSignOf(a.im, HUGE_VAL)});
}
Complex inverseHyperbolicCosine(const Complex& a) {
  const auto below = root(-1 + a);
  const auto above = root(1 + a);
  return unlessInfinite(
      a,
      {(conjugate(below) * above).re.asinh_(),
       at::atan2(below.im, above.re).mul_(2)},
      {at::full_like(a.re, HUGE_VAL), at::atan2(a.im, a.re)});
}
Complex inverseHyperbolicTangent(const Complex& a) {
  const auto size = a.re.abs();
  const auto square = a.im.square();
  const auto from_one = (1 - size).square_().add_(square);
  return unlessInfinite(
      a,
      {at::copysign((size * 4 / from_one).log1p_().div_(4), a.re),
       at::atan2(a.im * 2, (1 - size) * (size + 1) - square).div_(2)},
      {withSignOf(a.re, 0), withSignOf(a.im, M_PI_2)});
}
Complex power(const Complex& a, const Complex& b) {
  return choose(
      isZero(a).logical_and(b.re.gt(0)),
      partsOf(0, a.re.options()),
      exponential(b * logarithm(a)));
}
Complex powerByNumber(const Complex& a, const Scalar& number) {
  const auto p = number.toComplexDouble();
  const auto is = [&](double value) {
    return p == c10::complex<double>(value);
  };
  return is(0)  ? Complex{at::ones_like(a.re), at::zeros_like(a.re)}
      : is(1)   ? a
      : is(2)   ? a * a
      : is(3)   ? a * a * a
      : is(-1)  ? reciprocal(a)
      : is(0.5) ? root(a)
                : power(a, partsOf(number, a.re.options()));
}
/// 1 if there is none.
Scalar numberOf(const PointwiseNumbers& numbers) {
  return numbers.empty() ? Scalar(1) : numbers[0];
}

using Function = Complex (*)(
    const Complex& a,
    const Complex& b,
    const Complex& c,
    const PointwiseNumbers& n);

/// Null if there is none.
Function functionOf(Pointwise kernel) {
#define XPU_CASE(name, ...)                                 \
  case Pointwise::name:                                     \
    return []([[maybe_unused]] const Complex& a,            \
              [[maybe_unused]] const Complex& b,            \
              [[maybe_unused]] const Complex& c,            \
              [[maybe_unused]] const PointwiseNumbers& n) { \
      return Complex(__VA_ARGS__);                          \
    };
  // clang-format off
  switch (kernel) {
    XPU_CASE(acos, inverseCosine(a))
    XPU_CASE(acosh, inverseHyperbolicCosine(a))
    XPU_CASE(add, a + b * numberOf(n))
    XPU_CASE(addcdiv, a + b / c * numberOf(n))
    XPU_CASE(addcmul, a + b * c * numberOf(n))
    XPU_CASE(asin, inverseSine(a))
    XPU_CASE(asinh, -turned(inverseSine(turned(a))))
    XPU_CASE(atan, -turned(inverseHyperbolicTangent(turned(a))))
    XPU_CASE(atanh, inverseHyperbolicTangent(a))
    XPU_CASE(cos, hyperbolicCosine(turned(a)))
    XPU_CASE(cosh, hyperbolicCosine(a))
    XPU_CASE(div, a / b)
    XPU_CASE(eq, {areEqual(a, b), {}})
    XPU_CASE(exp, exponential(a))
    XPU_CASE(exp2, exponential(a * Scalar(std::log(2.0))))
    XPU_CASE(expm1, {a.re.expm1() * a.im.cos() - 2 * (a.im / 2).sin().square(), a.re.exp() * a.im.sin()})
    XPU_CASE(lerp_Scalar, std::abs(n[0].toComplexDouble()) < 0.5 ? a + (b - a) * n[0] : b - (b - a) * (1 - n[0].toComplexDouble()))
    XPU_CASE(lerp_Tensor, choose(magnitude(c) < 0.5, a + c * (b - a), b - (b - a) * (1 + -c)))
    XPU_CASE(log, logarithm(a))
    XPU_CASE(log10, logarithm(a) * Scalar(1 / std::log(10.0)))
    XPU_CASE(log1p, logarithmOfOneMore(a))
    XPU_CASE(log2, logarithm(a) * Scalar(1 / std::log(2.0)))
    XPU_CASE(logical_and, {isZero(a).logical_or(isZero(b)).logical_not_(), {}})
    XPU_CASE(logical_or, {isZero(a).logical_and(isZero(b)).logical_not_(), {}})
    XPU_CASE(logical_xor, {isZero(a).logical_xor(isZero(b)), {}})
    XPU_CASE(mul, a * b)
    XPU_CASE(ne, {areEqual(a, b).logical_not_(), {}})
    XPU_CASE(neg, -a)
    XPU_CASE(pow_Scalar, powerByNumber(a, n[0]))
    XPU_CASE(pow_Tensor, power(a, b))
    XPU_CASE(reciprocal, reciprocal(a))
    XPU_CASE(rsqrt, reciprocal(root(a)))
    XPU_CASE(sgn, direction(a))
    XPU_CASE(sigmoid, sigmoid(a))
    XPU_CASE(sigmoid_backward, a * conjugate(b - b * b))
    XPU_CASE(silu, a * sigmoid(a))
    XPU_CASE(sin, -turned(hyperbolicSine(turned(a))))
    XPU_CASE(sinh, hyperbolicSine(a))
    XPU_CASE(sqrt, root(a))
    XPU_CASE(sub, a - b * numberOf(n))
    XPU_CASE(tan, -turned(hyperbolicTangent(turned(a))))
    XPU_CASE(tanh, hyperbolicTangent(a))
    XPU_CASE(tanh_backward, a * conjugate(1 + -(b * b)))
    XPU_CASE(where, choose(c.re, a, b))
    default:
      return nullptr;
  }
    // clang-format on
#undef XPU_CASE
}

} // namespace

} // namespace parts

bool takesComplex(Pointwise kernel) {
  return parts::functionOf(kernel);
}

bool runPointwiseOrComplex(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const PointwiseNumbers& numbers) {
  const auto type =
      kernel == Pointwise::where ? iter.dtype(0) : iter.common_dtype();
  if (!isComplexType(type)) {
    return runPointwise(iter, kernel, numbers);
  }
  const auto& result = iter.tensor(0);
  const auto function = parts::functionOf(kernel);
  if (!function || !kernelTypeOfParts(type, result.device().index())) {
    return false;
  }
  std::array<parts::Complex, 3> inputs;
  for (const auto i : c10::irange(iter.ntensors() - 1)) {
    const auto& argument = iter.tensor(i + 1);
    inputs.at(i) = kernel == Pointwise::where && i == 2
        ? parts::Complex{argument, {}}
        : parts::partsOf(argument, type, result.device());
  }
  const auto computed = function(inputs[0], inputs[1], inputs[2], numbers);
  if (!computed.im.defined()) {
    result.copy_(computed.re);
    return true;
  }
  at::real(result).copy_(computed.re);
  at::imag(result).copy_(computed.im);
  return true;
}

Tensor realOfComplex(Pointwise kernel, const Tensor& self) {
  if (self.scalar_type() == kComplexHalf) {
    return Tensor();
  }
  const auto both = parts::partsOf(self, self.scalar_type(), self.device());
  return kernel == Pointwise::abs  ? parts::magnitude(both)
      : kernel == Pointwise::angle ? at::atan2(both.im, both.re)
                                   : Tensor();
}

} // namespace at::xpu::detail
