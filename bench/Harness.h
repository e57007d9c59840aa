#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

/// Measuring a thing beside its floor.
///
/// Note [How a ratio is measured]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A figure has sides: the runtime's own ("ours"), its floor, and whatever else
/// is worth seeing beside them. The sides take turns in one process, a small
/// batch each, and a turn of all of them is a round. The order of the sides
/// changes from round to round. A ratio is taken per round, of batches that are
/// some 100 microseconds apart, so that what changes slowly (the frequency of
/// the core, the load of the machine, the state of the heap) is the same for
/// both. What is reported is the median of the ratios, the range of the middle
/// 80 %, and the confidence interval of the median.
///
/// A round in which the scheduler took the core away from a measured thread
/// tells of the machine and not of the program: it is left out, and counted.
/// Waiting for a lock or for the device is not such a case and stays in.
///
/// A batch is timed as a whole; its loop is part of the side, so that nothing
/// but the side is between the two readings of the clock.

namespace bench {

struct Options {
  bool quick = false;
  std::string only; // measure figures whose id starts with this
};

/// What the command line says: [--quick] [--only PREFIX] [words...].
Options parseOptions(int argc, char** argv, std::vector<std::string>* words);

/// One of the things that a figure compares.
struct Side {
  std::string name;
  /// Does the thing `n` times.
  std::function<void(size_t n)> run;
  /// Before and after each batch, outside of the measured time.
  std::function<void(size_t n)> before = nullptr;
  std::function<void(size_t n)> after = nullptr;
};

/// What the verdict on a figure is about.
enum class Bound {
  None, // shown, not judged
  RatioAtMost, // ours / floor
  ValueAtMost, // ours, in the figure's unit
  ValueAtLeast,
};

struct Figure {
  std::string id; // "allocator.hit.512"
  std::string title; // "allocate and free 512 B"
  Bound kind = Bound::None;
  double bound = 0;
  std::string unit = "ns";
  std::string note = {};
};

/// How a figure is measured.
struct Plan {
  /// Time for all rounds together in the full run; a quick one takes a sixth.
  double seconds = 1.0;
  /// About how long a batch takes, unless `batch` says how much it does.
  double batch_us = 100;
  size_t batch = 0;
  size_t max_rounds = 4000;
};

/// Measures sides against each other and prints the figure as a line of JSON.
/// sides[0] is ours, sides[1] the floor. `need` names a side that does the
/// least which every implementation must do (-1: none): a bound that even this
/// side misses is one that the floor forbids.
void compare(
    const Options& options,
    const Figure& figure,
    const std::vector<Side>& sides,
    const Plan& plan = {},
    int need = -1);

/// Prints a figure whose rounds were measured elsewhere. `values[i]` are those
/// of `names[i]`, one per round; equal lengths.
void report(
    const Options& options,
    const Figure& figure,
    const std::vector<std::string>& names,
    const std::vector<std::vector<double>>& values,
    size_t left_out = 0,
    int need = -1);

/// Prints a fact that holds or does not hold.
void check(const std::string& id, const std::string& title, bool holds);

/// Whether a figure is to be measured at all.
bool wanted(const Options& options, const std::string& id);

/// Seconds of a monotonic clock.
double now();

/// How often the calling thread has lost its core to another one.
uint64_t preemptions();

/// The value was used, as far as the compiler knows; a number is then in a
/// register, and what was known of memory is not known any more.
template <typename T>
inline __attribute__((always_inline)) void sink(const T& value) {
  if constexpr (std::is_scalar<T>::value) {
    asm volatile("" : : "r"(value) : "memory");
  } else {
    asm volatile("" : : "m"(value) : "memory");
  }
}

/// Repeats a body `n` times, sixteen to a turn so that the loop is no part of
/// what is measured.
template <typename Body>
inline __attribute__((always_inline)) void repeat(size_t n, Body body) {
  for (; n >= 16; n -= 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      body();
    }
  }
  for (; n != 0; --n) {
    body();
  }
}

} // namespace bench
