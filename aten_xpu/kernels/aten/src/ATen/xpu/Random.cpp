#include <ATen/xpu/detail/Random.h>

#include <ATen/ATen.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/MathConstants.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>

#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

// Random numbers, by kernels/Random.sycl or by the same functions on the host,
// see Note [Random numbers].

namespace at::xpu::detail {

namespace {

namespace philox {

using u32 = uint32_t;
using u64 = uint64_t;
using i64 = int64_t;
using std::ceil;
using std::exp;
using std::fabs;
using std::floor;
using std::fma;
using std::log;
using std::log1p;
using std::sqrt;

template <typename V>
V sinpi(V x) {
  return static_cast<V>(std::sin(c10::pi<double> * x));
}
template <typename V>
V cospi(V x) {
  return static_cast<V>(std::cos(c10::pi<double> * x));
}

#define XPU_UNROLL
#define XPU_CODE(...) __VA_ARGS__
#include <ATen/xpu/kernels/Philox.def>

#include <ATen/xpu/kernels/Gamma.def>
#include <ATen/xpu/kernels/Random.def>
#undef XPU_UNROLL

} // namespace philox

static_assert(uint32_t(Distribution::Geometric) == philox::kGeometric);
static_assert(uint32_t(Sampler::LogGamma) == philox::kLogGamma);

// Kernels

std::string randomSourceOf(int type) {
#define XPU_CODE(...) #__VA_ARGS__
  static constexpr const char* kMaking =
#include <ATen/xpu/kernels/Philox.def>

#include <ATen/xpu/kernels/Gamma.def>
#include <ATen/xpu/kernels/Random.def>
      ;
  static constexpr const char* kSource =
#include <ATen/xpu/kernels/Random.sycl>
      ;
  return typedSource(type) + replaced(kSource, "XPU_MAKING", kMaking);
}

const KernelFamily kRandomFamily("random", &randomSourceOf);
const NamedKernel kNumbers(kRandomFamily, "numbers");
const NamedKernel kIntegers(kRandomFamily, "integers");
const NamedKernel kDropout(kRandomFamily, "dropout");
const NamedKernel kSamples(kRandomFamily, "samples");

/// The kernel for a tensor, if it has one.
const Kernel* findRandom(const NamedKernel& kernel, const Tensor& tensor) {
  constexpr int64_t kMost = int64_t(1) << 33; // four for each item
  const auto type = kernelTypeOf(tensor, ALL);
  return type && tensor.numel() < kMost
      ? kernel.find(*type, tensor.device().index())
      : nullptr;
}

/// What takePhilox gives for n elements.
PhiloxState takeFrom(
    const c10::optional<Generator>& given,
    DeviceIndex device,
    int64_t n,
    uint32_t in_group) {
  return takePhilox(given, device, 4 * philox::roundsOf(n, in_group));
}

/// Writes n numbers to the memory of a tensor without gaps: those that
/// `make(words, k)` gives.
template <uint32_t in_group, typename Element, typename Make>
void writeOnHost(
    Element* out,
    const PhiloxState& state,
    int64_t n,
    const Make& make) {
  for (const auto group : c10::irange(philox::groupsOf(n, in_group))) {
    philox::eachOfGroup<in_group>(
        group,
        state.seed,
        state.offset,
        n,
        [&](uint64_t i, const philox::Words& words, uint32_t k) {
          out[i] = make(words, k);
        });
  }
}

/// Calls `write` with the memory of a tensor without gaps on the host in place
/// of this one.
template <typename Write>
void onHost(const std::string& op, const Tensor& out, const Write& write) {
  c10::xpu::warn_or_error_on_sync();
  HostCall call(out.device().index(), op.c_str());
  const auto host = call.toHost(out, /*written=*/true);
  const auto to = writable(host, host.scalar_type());
  {
    const RecordWork record(
        RecordWork::By::Host,
        op,
        c10::xpu::getCurrentXPUStream(out.device().index()));
    AT_DISPATCH_ALL_TYPES_AND3(
        kHalf, kBFloat16, kBool, to.scalar_type(), "random", [&] {
          write(to.data_ptr<scalar_t>());
        });
    copyUnlessSame(host, to);
  }
  call.finish();
}

/// The arguments of kernels that all of them have, before their own.
c10::SmallVector<KernelArgument, 12> argumentsOf(
    std::initializer_list<KernelArgument> pointers,
    const PhiloxState& state,
    int64_t n) {
  c10::SmallVector<KernelArgument, 12> arguments(pointers);
  arguments.append(
      {state.seed, state.offset, state.seed_at, state.offset_at, uint64_t(n)});
  return arguments;
}

/// Launches a kernel that writes a tensor, which may have gaps.
void launchRandom(
    const Kernel& kernel,
    const std::string& op,
    const Tensor& out,
    const PhiloxState& state,
    uint32_t in_group,
    std::initializer_list<KernelArgument> own) {
  const auto to = writable(out, out.scalar_type());
  auto arguments = argumentsOf({to.data_ptr()}, state, to.numel());
  arguments.append(own.begin(), own.end());
  launchKernel(
      kernel,
      c10::xpu::getCurrentXPUStream(out.device().index()),
      op,
      philox::groupsOf(to.numel(), in_group),
      arguments);
  copyUnlessSame(out, to);
}

// Numbers of a distribution

/// What is computed in double: of a floating type that no float has.
bool inDouble(const Tensor& out) {
  return out.scalar_type() == kDouble;
}
template <typename T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// As a kernel stores it.
template <typename T, typename From>
T converted(From number) {
  if constexpr (std::is_same_v<T, bool>) {
    return number != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(number));
  } else if constexpr (std::is_same_v<T, double>) {
    return static_cast<double>(number);
  } else {
    return static_cast<T>(static_cast<float>(number));
  }
}

} // namespace

PhiloxState takePhilox(
    const c10::optional<Generator>& given,
    DeviceIndex device,
    uint64_t count) {
  auto* const generator = at::get_generator_or_default<XPUGeneratorImpl>(
      given, getDefaultXPUGenerator(device));
  const std::lock_guard<std::mutex> lock(generator->mutex_);
#if __has_include(<ATen/xpu/PhiloxXpuState.h>)
  const auto state = generator->philox_xpu_state(count);
  if (state.captured_) {
    return {0, state.offset_intragraph_, state.seed_.ptr, state.offset_.ptr};
  }
  return {state.seed_.val, state.offset_.val};
#else
  const auto state = generator->philox_engine_inputs(count);
  return {state.first, state.second};
#endif
}

void drawNumbers(
    const std::string& op,
    const Tensor& out,
    const c10::optional<Generator>& generator,
    Distribution distribution,
    const std::array<double, 3>& given) {
  const auto n = out.numel();
  if (n == 0) {
    return;
  }
  const auto device = out.device().index();
  const c10::xpu::XPUGuard guard(device);
  const bool is_double = inDouble(out);
  const auto in_group =
      is_double ? philox::kInGroup<double> : philox::kInGroup<float>;
  const auto state = takeFrom(generator, device, n, in_group);
  if (const auto* const kernel = findRandom(kNumbers, out)) {
    const auto number = [&](double x) {
      return is_double ? KernelArgument(x) : static_cast<float>(x);
    };
    launchRandom(
        *kernel,
        op,
        out,
        state,
        in_group,
        {uint32_t(distribution),
         number(given[0]),
         number(given[1]),
         number(given[2])});
    return;
  }
  onHost(op, out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    using V = Computed<T>;
    const auto a = static_cast<V>(given[0]);
    const auto b = static_cast<V>(given[1]);
    const auto c = static_cast<V>(given[2]);
    const auto make = [=](const philox::Words& words, uint32_t k) {
      const auto x = converted<T>(
          philox::number<V>(uint32_t(distribution), words, k, a, b, c));
      return distribution == Distribution::Uniform && !(static_cast<V>(x) < b)
          ? converted<T>(a)
          : x;
    };
    writeOnHost<philox::kInGroup<V>>(to, state, n, make);
  });
}

void drawIntegers(
    const Tensor& out,
    const c10::optional<Generator>& generator,
    bool is_long,
    uint64_t range,
    int64_t base) {
  static const std::string op = "aten::random_";
  const auto n = out.numel();
  if (n == 0) {
    return;
  }
  const auto device = out.device().index();
  const c10::xpu::XPUGuard guard(device);
  const auto in_group =
      is_long ? philox::kInGroup<uint64_t> : philox::kInGroup<uint32_t>;
  const auto state = takeFrom(generator, device, n, in_group);
  if (const auto* const kernel = findRandom(kIntegers, out)) {
    launchRandom(
        *kernel, op, out, state, in_group, {uint32_t(is_long), range, base});
    return;
  }
  onHost(op, out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const auto make = [=](const philox::Words& words, uint32_t k) {
      return converted<T>(philox::integer(words, k, is_long, range, base));
    };
    if (is_long) {
      writeOnHost<philox::kInGroup<uint64_t>>(to, state, n, make);
    } else {
      writeOnHost<philox::kInGroup<uint32_t>>(to, state, n, make);
    }
  });
}

Tensor drawSamples(
    const std::string& op,
    const Tensor& a,
    const Tensor& b,
    const c10::optional<Generator>& generator,
    Sampler sampler) {
  const auto out = at::empty(a.sizes(), a.options());
  const auto n = out.numel();
  if (n == 0) {
    return out;
  }
  const auto device = out.device().index();
  const c10::xpu::XPUGuard guard(device);
  const auto state = takePhilox(generator, device, philox::kOfSample);
  const auto first = a.contiguous();
  const auto second = b.contiguous();
  const double least = AT_DISPATCH_FLOATING_TYPES_AND2(
      kHalf, kBFloat16, a.scalar_type(), "random", [] {
        return double(std::numeric_limits<scalar_t>::min());
      });
  const auto* const kernel =
      n < (int64_t(1) << 31) ? findRandom(kSamples, out) : nullptr;
  if (kernel) {
    launchRandom(
        *kernel,
        op,
        out,
        state,
        1,
        {first.data_ptr(),
         second.data_ptr(),
         uint32_t(sampler),
         inDouble(out) ? KernelArgument(least) : static_cast<float>(least)});
    return out;
  }
  const auto of_first = first.cpu();
  const auto of_second = second.cpu();
  onHost(op, out, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    using V = Computed<T>;
    const auto* const x = of_first.data_ptr<T>();
    const auto* const y = of_second.data_ptr<T>();
    for (const auto i : c10::irange(n)) {
      to[i] = converted<T>(philox::sample<V>(
          uint32_t(sampler),
          state.seed,
          state.offset,
          i,
          static_cast<V>(x[i]),
          static_cast<V>(y[i]),
          static_cast<V>(least)));
    }
  });
  return out;
}

std::optional<std::tuple<Tensor, Tensor>> drawDropout(
    const Tensor& input,
    double p) {
  static const std::string op = "aten::native_dropout";
  const auto n = input.numel();
  const auto* const kernel = n > 0 ? findRandom(kDropout, input) : nullptr;
  if (!kernel) {
    return std::nullopt;
  }
  const auto device = input.device().index();
  const c10::xpu::XPUGuard guard(device);
  const auto result = at::empty_like(input);
  const auto mask = at::empty_like(input, input.options().dtype(kBool));
  const auto in = input.contiguous();
  const auto to = writable(result, result.scalar_type());
  const auto to_mask = writable(mask, kBool);
  constexpr auto kOfFloat = philox::kInGroup<float>;
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  auto arguments = argumentsOf(
      {to.data_ptr(), to_mask.data_ptr(), in.data_ptr()},
      takeFrom(c10::nullopt, device, n, kOfFloat),
      n);
  arguments.emplace_back(static_cast<float>(1 - p));
  arguments.push_back(
      inDouble(input) ? KernelArgument(scale) : static_cast<float>(scale));
  launchKernel(
      *kernel,
      c10::xpu::getCurrentXPUStream(device),
      op,
      philox::groupsOf(n, kOfFloat),
      arguments);
  if (!to.is_same(result)) {
    result.copy_(to);
    mask.copy_(to_mask);
  }
  return std::make_tuple(result, mask);
}

} // namespace at::xpu::detail
