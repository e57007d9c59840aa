#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

/// Note [How a ratio is measured]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A figure has sides: ours and, where there is one, the raw SYCL calls that do
/// the same. The sides take turns in one process, a small batch each; a turn of
/// all of them is a round, and the order changes from round to round. A ratio
/// is taken per round, so that whatever changes slowly (the core's frequency,
/// the load of the machine) is the same for both. The median of the ratios is
/// reported, with the range of the middle 80 % and the confidence interval of
/// the median.
///
/// A round in which the scheduler took the core away from the measuring thread
/// is left out and counted.

namespace bench {

struct Options {
  bool quick = false; // a sixth of the time
  std::string only; // figures whose id starts with this
};

/// [--quick] [--only PREFIX]
Options parseOptions(int argc, char** argv);

/// One of the things that a figure compares.
struct Side {
  std::string name;
  /// Does the thing `n` times.
  std::function<void(size_t n)> run;
  /// Before and after each batch, outside of the measured time.
  std::function<void()> before = nullptr;
  std::function<void()> after = nullptr;
};

struct Plan {
  double seconds = 0.8; // for all rounds
  double batch_us = 100; // about how long a batch takes,
  size_t batch = 0; // unless this says how much it does
};

bool wanted(const Options& options, const std::string& id);

/// Measures the sides against each other, in ns, and prints a line of JSON.
/// sides[0] is ours; sides[1], if there is one, what it is compared with.
void compare(
    const Options& options,
    const std::string& id,
    const std::vector<Side>& sides,
    const Plan& plan = {});

/// Prints a figure that was measured elsewhere, `values` by round.
void report(const std::string& id, const std::vector<double>& values);

/// Prints what was measured: the runtime, the device, its backend.
void header(
    const std::string& runtime,
    const std::string& device,
    const std::string& backend);

/// Seconds of a monotonic clock.
double now();

/// How often the calling thread has lost its core to another one.
size_t preemptions();

/// The value was used, as far as the compiler knows, and memory was read and
/// written.
template <typename T>
inline __attribute__((always_inline)) void sink(const T& value) {
  if constexpr (std::is_scalar<T>::value) {
    asm volatile("" : : "r"(value) : "memory");
  } else {
    asm volatile("" : : "m"(value) : "memory");
  }
}

/// A body that is run `n` times.
template <typename Body>
std::function<void(size_t)> repeated(Body body) {
  return [body](size_t n) mutable {
    for (; n != 0; --n) {
      body();
    }
  };
}

} // namespace bench
