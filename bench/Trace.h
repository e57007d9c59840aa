#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace bench {

inline std::string sizeName(size_t bytes) {
  return bytes < (size_t{1} << 10) ? std::to_string(bytes) + " B"
      : bytes < (size_t{1} << 20)  ? std::to_string(bytes >> 10) + " KiB"
                                   : std::to_string(bytes >> 20) + " MiB";
}

/// What one step of a random trace does: frees what the slot holds and
/// allocates that many bytes in its place.
struct Step {
  uint32_t slot;
  size_t bytes;
};

/// Steps on `slots` slots with sizes that are log-uniform: each power of two
/// between the two ends is as likely as any other.
inline std::vector<Step> makeTrace(
    uint32_t seed,
    size_t steps,
    size_t slots,
    size_t smallest,
    size_t largest) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<uint32_t> slot(
      0, static_cast<uint32_t>(slots - 1));
  std::uniform_real_distribution<double> exponent(
      std::log(static_cast<double>(smallest)),
      std::log(static_cast<double>(largest)));
  std::vector<Step> trace;
  trace.reserve(steps);
  for (size_t i = 0; i < steps; ++i) {
    trace.push_back(
        {slot(random), static_cast<size_t>(std::exp(exponent(random)))});
  }
  return trace;
}

/// The trace that the figures are about: 256 B to 64 MiB, 1,000 live blocks.
constexpr size_t kLive = 1000;
constexpr size_t kSmallest = 256;
constexpr size_t kLargest = size_t{64} << 20;

/// Live blocks, replaced one after the other as a trace says, without end. On
/// cache lines of its own, since two threads may play beside each other.
template <typename Allocate, typename Free>
class alignas(128) Player {
 public:
  Player(std::vector<Step> trace, size_t slots, Allocate allocate, Free free)
      : trace_(std::move(trace)),
        blocks_(slots, nullptr),
        allocate_(allocate),
        free_(free) {}

  void play(size_t steps) {
    for (; steps != 0; --steps) {
      const Step step = trace_[next_];
      next_ = next_ + 1 == trace_.size() ? 0 : next_ + 1;
      void*& block = blocks_[step.slot];
      if (block) {
        free_(block);
      }
      block = allocate_(step.bytes);
    }
  }

  void clear() {
    for (void*& block : blocks_) {
      if (block) {
        free_(block);
        block = nullptr;
      }
    }
  }

 private:
  std::vector<Step> trace_;
  std::vector<void*> blocks_;
  size_t next_ = 0;
  Allocate allocate_;
  Free free_;
};

template <typename Allocate, typename Free>
Player(std::vector<Step>, size_t, Allocate, Free) -> Player<Allocate, Free>;

} // namespace bench
