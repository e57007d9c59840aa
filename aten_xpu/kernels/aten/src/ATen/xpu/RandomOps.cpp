#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/core/DistributionsHelper.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/Random.h>
#include <c10/xpu/XPUGuard.h>

#include <cmath>
#include <limits>
#include <tuple>

// Random operators. Checks, compositions and error texts are PyTorch's.

namespace at::xpu::detail {

namespace {

/// The number that the type has.
double rounded(double number, ScalarType type) {
  return type == kHalf ? double(static_cast<Half>(static_cast<float>(number)))
      : type == kBFloat16
      ? double(static_cast<BFloat16>(static_cast<float>(number)))
      : type == kFloat ? double(static_cast<float>(number))
                       : number;
}

// What PyTorch's templates call: with an iterator over the output.

using OptionalGenerator = c10::optional<Generator>;

#define XPU_DRAWS(name, op, distribution, ...)              \
  template <typename>                                       \
  struct name {                                             \
    void operator()(                                        \
        const TensorIteratorBase& iter,                     \
        double a,                                           \
        const OptionalGenerator& generator) const {         \
      (*this)(iter, a, 0, generator);                       \
    }                                                       \
    void operator()(                                        \
        const TensorIteratorBase& iter,                     \
        double a,                                           \
        double b,                                           \
        const OptionalGenerator& generator) const {         \
      (*this)(iter.tensor(0), a, b, generator);             \
    }                                                       \
    void operator()(                                        \
        const Tensor& out,                                  \
        double a,                                           \
        [[maybe_unused]] double b,                          \
        const OptionalGenerator& generator) const {         \
      static const std::string name_of_op = op;             \
      [[maybe_unused]] const auto type = out.scalar_type(); \
      drawNumbers(                                          \
          name_of_op,                                       \
          out,                                              \
          generator,                                        \
          Distribution::distribution,                       \
          __VA_ARGS__);                                     \
    }                                                       \
  };
// clang-format off
XPU_DRAWS(Uniform, "aten::uniform_", Uniform, {rounded(a, type), rounded(b, type), rounded(rounded(b, type) - rounded(a, type), type)})
XPU_DRAWS(Normal, "aten::normal_", Normal, {a, b})
XPU_DRAWS(LogNormal, "aten::log_normal_", LogNormal, {a, b})
XPU_DRAWS(Exponential, "aten::exponential_", Exponential, {-1 / a})
XPU_DRAWS(Cauchy, "aten::cauchy_", Cauchy, {a, b})
XPU_DRAWS(Geometric, "aten::geometric_", Geometric, {std::log1p(-a)})
// clang-format on
#undef XPU_DRAWS

template <typename>
struct Bernoulli {
  void operator()(
      const Tensor& out,
      double p,
      const OptionalGenerator& generator) const {
    static const std::string op = "aten::bernoulli_";
    drawNumbers(op, out, generator, Distribution::Bernoulli, {p});
  }

  void operator()(
      const Tensor& out,
      const Tensor& p,
      const OptionalGenerator& generator) const {
    static const std::string op = "aten::bernoulli_";
    assertBetween(p, 0, 1, "Expected p_in >= 0 && p_in <= 1 to be true");
    const auto numbers = at::empty(
        out.sizes(),
        out.options().dtype(p.scalar_type() == kDouble ? kDouble : kFloat));
    drawNumbers(op, numbers, generator, Distribution::Uniform, {0, 1, 1});
    out.copy_(numbers.lt(*at::expand_inplace(out, p, "bernoulli_")));
  }
};

template <typename>
struct Random {
  void operator()(
      const TensorIteratorBase& iter,
      const OptionalGenerator& generator) const {
    const auto& out = iter.tensor(0);
    const auto type = out.scalar_type();
    uint64_t range = 0;
    AT_DISPATCH_ALL_TYPES_AND3(kHalf, kBFloat16, kBool, type, "random_", [&] {
      constexpr int kDigits = std::numeric_limits<scalar_t>::digits;
      range = (uint64_t(1) << kDigits) + (isFloatingType(type) ? 1 : 0);
    });
    drawIntegers(out, generator, type == kDouble || type == kLong, range, 0);
  }
};

template <typename>
struct RandomFromTo {
  void operator()(
      const TensorIteratorBase& iter,
      uint64_t range,
      int64_t base,
      const OptionalGenerator& generator) const {
    constexpr uint64_t kLong = uint64_t(1) << 28; // above, % is too uneven
    drawIntegers(iter.tensor(0), generator, range >= kLong, range, base);
  }
  void operator()(
      const TensorIteratorBase& iter,
      const OptionalGenerator& generator) const {
    drawIntegers(iter.tensor(0), generator, /*is_long=*/true, 0, 0);
  }
};

// Operators. What is not drawn here goes to the host, which raises.

using Takes = bool (*)(ScalarType type);

bool isReal(ScalarType type) {
  return type == kFloat || type == kDouble || type == kHalf ||
      type == kBFloat16;
}
bool isRealOrComplex(ScalarType type) {
  return isReal(c10::toRealValueType(type));
}
bool isNumber(ScalarType type) {
  return isReal(type) || type == kLong || type == kInt || type == kShort ||
      type == kChar || type == kByte;
}
bool isAny(ScalarType type) {
  return isNumber(type) || type == kBool;
}

bool isDrawn(const Tensor& self, Takes takes) {
  return self.is_xpu() && self.layout() == kStrided &&
      takes(self.scalar_type());
}

namespace templates = at::native::templates;

Tensor& uniform(Tensor& self, double from, double to, OptionalGenerator g) {
  return templates::uniform_impl_<Uniform, XPUGeneratorImpl>(self, from, to, g);
}
Tensor& normal(Tensor& self, double mean, double std, OptionalGenerator g) {
  return templates::normal_impl_<Normal, XPUGeneratorImpl>(self, mean, std, g);
}
Tensor& logNormal(Tensor& self, double mean, double std, OptionalGenerator g) {
  return templates::log_normal_impl_<LogNormal, XPUGeneratorImpl>(
      self, mean, std, g);
}
Tensor& cauchy(Tensor& self, double median, double sigma, OptionalGenerator g) {
  return templates::cauchy_impl_<Cauchy, XPUGeneratorImpl>(
      self, median, sigma, g);
}
Tensor& exponential(Tensor& self, double lambda, OptionalGenerator g) {
  return templates::exponential_impl_<Exponential, XPUGeneratorImpl>(
      self, lambda, g);
}
Tensor& geometric(Tensor& self, double p, OptionalGenerator g) {
  return templates::geometric_impl_<Geometric, XPUGeneratorImpl>(self, p, g);
}
Tensor& bernoulli(Tensor& self, double p, OptionalGenerator g) {
  return templates::bernoulli_impl_<Bernoulli, XPUGeneratorImpl>(self, p, g);
}
Tensor& random(Tensor& self, OptionalGenerator g) {
  return templates::random_impl<Random, XPUGeneratorImpl>(self, g);
}
Tensor& randomFrom(
    Tensor& self,
    int64_t from,
    c10::optional<int64_t> to,
    OptionalGenerator g) {
  return templates::random_from_to_impl<RandomFromTo, XPUGeneratorImpl>(
      self, from, to, g);
}
Tensor& randomTo(Tensor& self, int64_t to, OptionalGenerator g) {
  return randomFrom(self, 0, to, std::move(g));
}

/// An operator in place.
template <class Op, auto run, Takes takes, class Schema = typename Op::schema>
struct InPlace;

template <class Op, auto run, Takes takes, class... Args>
struct InPlace<Op, run, takes, Tensor&(Tensor&, Args...)> {
  static Tensor& call(Tensor& self, Args... args) {
    return isDrawn(self, takes) ? run(self, args...)
                                : OnHost<Op>::call(self, args...);
  }
};

template <class Op, auto run, Takes takes>
void addInPlace(torch::Library& library) {
  library.impl(nameOf<Op>().c_str(), &InPlace<Op, run, takes>::call);
}

Tensor& bernoulliOf(
    Tensor& self,
    const Tensor& p,
    OptionalGenerator generator) {
  return isDrawn(self, &isAny) && isDrawn(p, &isReal) &&
          p.device() == self.device()
      ? templates::bernoulli_impl_<Bernoulli, XPUGeneratorImpl>(
            self, p, generator)
      : OnHost<at::_ops::bernoulli__Tensor>::call(self, p, generator);
}

Tensor& bernoulliOut(
    const Tensor& p,
    OptionalGenerator generator,
    Tensor& out) {
  return isDrawn(out, &isAny) && isDrawn(p, &isReal) &&
          p.device() == out.device()
      ? templates::bernoulli_out_impl<Bernoulli, XPUGeneratorImpl>(
            out, p, generator)
      : OnHost<at::_ops::bernoulli_out>::call(p, generator, out);
}

/// Mean and standard deviation, one of which may be a number.
bool isNormalDrawn(const Tensor& tensor) {
  return isDrawn(tensor, &isReal);
}
bool isNormalDrawn(double /*number*/) {
  return true;
}

template <class Op, class OutOp, typename Mean, typename Std>
struct NormalOf {
  static Tensor call(Mean mean, Std std, OptionalGenerator generator) {
    return isNormalDrawn(mean) && isNormalDrawn(std)
        ? templates::normal_impl<Normal, XPUGeneratorImpl>(mean, std, generator)
        : OnHost<Op>::call(mean, std, generator);
  }
  static Tensor& out(
      Mean mean,
      Std std,
      OptionalGenerator generator,
      Tensor& out) {
    return isNormalDrawn(mean) && isNormalDrawn(std) && isNormalDrawn(out)
        ? templates::normal_out_impl<Normal, XPUGeneratorImpl>(
              out, mean, std, generator)
        : OnHost<OutOp>::call(mean, std, generator, out);
  }
};

template <class Op, class OutOp, typename Mean, typename Std>
void addNormal(torch::Library& library) {
  using Both = NormalOf<Op, OutOp, Mean, Std>;
  library.impl(nameOf<Op>().c_str(), &Both::call);
  library.impl(nameOf<OutOp>().c_str(), &Both::out);
}

/// A number below the sum of all is of the first that the sum up to it is
/// above. Raises where the device is waited for.
Tensor drawReplaced(
    const Tensor& self,
    int64_t count,
    OptionalGenerator generator) {
  const c10::xpu::XPUGuard guard(self.device());
  const auto last = self.size(-1) - 1;
  const auto weights =
      self.to(self.scalar_type() == kDouble ? kDouble : kFloat);
  const auto sums = weights.cumsum(-1);
  const auto all = sums.narrow(-1, last, 1);
  assertOn(
      weights.ge(0)
          .all()
          .logical_and_(all.isfinite().all())
          .logical_and_(all.gt(0).all()),
      "invalid multinomial distribution (an entry is below 0, infinite or "
      "NaN, or the sum is 0)");
  DimVector sizes(self.sizes());
  sizes.back() = count;
  const auto numbers = at::empty(sizes, sums.options())
                           .uniform_(0, 1, std::move(generator))
                           .mul_(all);
  const auto found =
      at::searchsorted(sums, numbers, /*out_int32=*/false, /*right=*/true)
          .clamp_max_(last);
  // Sums are rounded, and may differ where nothing is added: what can be drawn
  // is the last before that is not 0.
  const auto drawable = std::get<0>(at::where(
                                        weights > 0,
                                        at::arange(last + 1, found.options()),
                                        at::zeros({}, found.options()))
                                        .cummax(-1));
  return drawable.gather(-1, found);
}

/// PyTorch's composition has the most of exponential numbers. It raises what is
/// wrong with the arguments, too.
Tensor multinomial(
    const Tensor& self,
    int64_t count,
    bool replacement,
    OptionalGenerator generator) {
  constexpr int64_t kMost = 1 << 24; // of PyTorch
  const bool many = replacement && count > 1;
  if (!isDrawn(self, &isReal) ||
      (many &&
       (self.numel() == 0 || self.dim() < 1 || self.dim() > 2 ||
        self.size(-1) > kMost))) {
    return OnHost<at::_ops::multinomial>::call(
        self, count, replacement, generator);
  }
  return many ? drawReplaced(self, count, std::move(generator))
              : at::native::multinomial(self, count, replacement, generator);
}

Tensor poisson(const Tensor& self, OptionalGenerator generator) {
  static const std::string op = "aten::poisson";
  if (!isDrawn(self, &isReal)) {
    return OnHost<at::_ops::poisson>::call(self, generator);
  }
  assertBetween(
      self,
      0,
      c10::nullopt,
      "invalid Poisson rate, expected rate to be non-negative");
  return drawSamples(op, self, self, generator, Sampler::Poisson);
}

Tensor binomial(
    const Tensor& count,
    const Tensor& p,
    OptionalGenerator generator) {
  static const std::string op = "aten::binomial";
  return isDrawn(count, &isReal) && isDrawn(p, &isReal) &&
          count.scalar_type() == p.scalar_type() &&
          count.device() == p.device() && count.sizes() == p.sizes()
      ? drawSamples(op, count, p, generator, Sampler::Binomial)
      : OnHost<at::_ops::binomial>::call(count, p, generator);
}

Tensor standardGamma(const Tensor& self, OptionalGenerator generator) {
  static const std::string op = "aten::_standard_gamma";
  return isDrawn(self, &isReal)
      ? drawSamples(op, self, self, generator, Sampler::Gamma)
      : OnHost<at::_ops::_standard_gamma>::call(self, generator);
}

/// Gamma numbers by their sum, from their logarithms: of small shapes all may
/// be nearer to 0 than the type has numbers.
Tensor dirichlet(const Tensor& self, OptionalGenerator generator) {
  static const std::string op = "aten::_sample_dirichlet";
  return isDrawn(self, &isReal) && self.dim() > 0
      ? at::softmax(
            drawSamples(op, self, self, generator, Sampler::LogGamma), -1)
      : OnHost<at::_ops::_sample_dirichlet>::call(self, generator);
}

/// The slope of each element that is not above 0 is drawn, and kept as noise.
/// In PyTorch 1.13 that is const.
bool drawSlopes(
    const Tensor& self,
    const Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    OptionalGenerator generator) {
  if (!isDrawn(self, &isReal) || !isDrawn(noise, &isReal) ||
      self.sizes() != noise.sizes() || self.device() != noise.device()) {
    return false;
  }
  noise.uniform_(lower.toDouble(), upper.toDouble(), std::move(generator));
  noise.masked_fill_(self.le(0).logical_not_(), 1);
  return true;
}

/// Without training it is one slope.
double meanOf(const Scalar& lower, const Scalar& upper) {
  return (lower.toDouble() + upper.toDouble()) / 2;
}

template <class Op, class Schema = typename Op::schema>
struct Rrelu;

#define XPU_SLOPES                                                      \
  Noise noise, const Scalar &lower, const Scalar &upper, bool training, \
      OptionalGenerator generator
#define XPU_SLOPES_GIVEN noise, lower, upper, training, generator
#define XPU_DRAW drawSlopes(self, noise, lower, upper, generator)

template <class Op, class Noise>
struct Rrelu<
    Op,
    Tensor(
        const Tensor&,
        Noise,
        const Scalar&,
        const Scalar&,
        bool,
        OptionalGenerator)> {
  static Tensor call(const Tensor& self, XPU_SLOPES) {
    return !training ? at::leaky_relu(self, meanOf(lower, upper))
        : XPU_DRAW   ? self.mul(noise)
                     : OnHost<Op>::call(self, XPU_SLOPES_GIVEN);
  }
};
template <class Op, class Noise>
struct Rrelu<
    Op,
    Tensor&(
        Tensor&,
        Noise,
        const Scalar&,
        const Scalar&,
        bool,
        OptionalGenerator)> {
  static Tensor& call(Tensor& self, XPU_SLOPES) {
    return !training ? at::leaky_relu_(self, meanOf(lower, upper))
        : XPU_DRAW   ? self.mul_(noise)
                     : OnHost<Op>::call(self, XPU_SLOPES_GIVEN);
  }
};
template <class Op, class Noise>
struct Rrelu<
    Op,
    Tensor&(
        const Tensor&,
        Noise,
        const Scalar&,
        const Scalar&,
        bool,
        OptionalGenerator,
        Tensor&)> {
  static Tensor& call(const Tensor& self, XPU_SLOPES, Tensor& out) {
    return !training ? at::leaky_relu_out(out, self, meanOf(lower, upper))
        : XPU_DRAW   ? at::mul_out(out, self, noise)
                     : OnHost<Op>::call(self, XPU_SLOPES_GIVEN, out);
  }
};
#undef XPU_SLOPES
#undef XPU_SLOPES_GIVEN
#undef XPU_DRAW

template <class Op>
void addRrelu(torch::Library& library) {
  library.impl(nameOf<Op>().c_str(), &Rrelu<Op>::call);
}

std::tuple<Tensor, Tensor> dropout(
    const Tensor& input,
    double p,
    c10::optional<bool> train) {
  if (train.value_or(true) && p >= 0 && p <= 1 && isDrawn(input, &isReal)) {
    if (auto drawn = drawDropout(input, p)) {
      return *std::move(drawn);
    }
  }
  return at::native::native_dropout_cpu(input, p, train);
}

Tensor dropoutBackward(const Tensor& grad, const Tensor& mask, double scale) {
  if (kernelDevice(grad) && isDrawn(grad, &isReal) && mask.is_xpu() &&
      mask.scalar_type() == kBool) {
    const c10::xpu::XPUGuard guard(grad.device());
    auto iter = TensorIteratorConfig()
                    .check_all_same_dtype(false)
                    .allow_cpu_scalars(true)
                    .declare_static_dtype(grad.scalar_type())
                    .add_owned_output(Tensor())
                    .add_input(grad)
                    .add_owned_input(at::scalar_tensor(0, kCPU))
                    .add_input(mask)
                    .build();
    if (runPointwise(iter, Pointwise::masked_scale, {scale})) {
      return iter.output();
    }
  }
  return OnHost<at::_ops::native_dropout_backward>::call(grad, mask, scale);
}

void registerRandom(torch::Library& library) {
  using namespace at::_ops;
  addInPlace<uniform_, &uniform, &isRealOrComplex>(library);
  addInPlace<normal_, &normal, &isRealOrComplex>(library);
  addInPlace<log_normal_, &logNormal, &isReal>(library);
  addInPlace<cauchy_, &cauchy, &isReal>(library);
  addInPlace<exponential_, &exponential, &isReal>(library);
  addInPlace<geometric_, &geometric, &isNumber>(library);
  addInPlace<bernoulli__float, &bernoulli, &isAny>(library);
  addInPlace<random_, &random, &isAny>(library);
  addInPlace<random__from, &randomFrom, &isAny>(library);
  addInPlace<random__to, &randomTo, &isAny>(library);
  addNormal<
      normal_Tensor_float,
      normal_Tensor_float_out,
      const Tensor&,
      double>(library);
  addNormal<
      normal_float_Tensor,
      normal_float_Tensor_out,
      double,
      const Tensor&>(library);
  addNormal<
      normal_Tensor_Tensor,
      normal_Tensor_Tensor_out,
      const Tensor&,
      const Tensor&>(library);
  library.impl("bernoulli_.Tensor", &bernoulliOf);
  library.impl("bernoulli.out", &bernoulliOut);
  library.impl("multinomial", &multinomial);
  library.impl("poisson", &poisson);
  library.impl("binomial", &binomial);
  library.impl("_standard_gamma", &standardGamma);
  library.impl("_sample_dirichlet", &dirichlet);
  addRrelu<at::_ops::rrelu_with_noise>(library);
  addRrelu<at::_ops::rrelu_with_noise_>(library);
  addRrelu<at::_ops::rrelu_with_noise_out>(library);
  library.impl("native_dropout", &dropout);
  library.impl("native_dropout_backward", &dropoutBackward);
}

[[maybe_unused]] const bool kRandomAdded =
    addKernels(&registerRandom, /*always=*/true);

} // namespace

} // namespace at::xpu::detail
