#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

// Random numbers, by kernels of a device or by the host: the same ones, see
// Note [Random numbers] in kernels/Random.def.

namespace at::xpu::detail {

/// Where a generator stands. What the pointers are at is in the device's
/// memory: for a graph.
struct PhiloxState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  const int64_t* seed_at = nullptr;
  const int64_t* offset_at = nullptr;
};

/// Has the generator, or the device's own, give it and move on by `count`,
/// which it rounds up to a multiple of 4: each subsequence has so many words.
PhiloxState takePhilox(
    const c10::optional<Generator>& given,
    DeviceIndex device,
    uint64_t count);

/// As in kernels/Random.def, with their numbers there.
enum class Distribution : uint32_t {
  Uniform,
  Bernoulli,
  Normal,
  LogNormal,
  Exponential,
  Cauchy,
  Geometric
};

/// Writes numbers to a tensor of any strides, from the generator or the
/// device's own. Its type is double, float, half, bfloat16, bool or an integer.
/// The name is for the profiler.
void drawNumbers(
    const std::string& op,
    const Tensor& out,
    const c10::optional<Generator>& generator,
    Distribution distribution,
    const std::array<double, 3>& given);

/// The same with integers of [base, base + range), or with a range of 0 of all
/// 64 bits. `is_long` has each made of 64 bits, else of 32.
void drawIntegers(
    const Tensor& out,
    const c10::optional<Generator>& generator,
    bool is_long,
    uint64_t range,
    int64_t base);

/// As in kernels/Random.def, with their numbers there.
enum class Sampler : uint32_t { Poisson, Binomial, Gamma, LogGamma };

/// Numbers of distributions that each element of `a`, and of `b` for binomial
/// ones, says. Both are of the same shape, floating type and device.
Tensor drawSamples(
    const std::string& op,
    const Tensor& a,
    const Tensor& b,
    const c10::optional<Generator>& generator,
    Sampler sampler);

/// The elements that are kept, divided by the probability of that, and a mask
/// of them. Empty if no kernel fits.
std::optional<std::tuple<Tensor, Tensor>> drawDropout(
    const Tensor& input,
    double p);

} // namespace at::xpu::detail
