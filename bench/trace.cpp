// How much memory the cache takes for what a program asks for. Each trace is
// played in a process of its own: what was there before would be cached.
//
// Usage: as the other programs; or `trace SEED` and `sizes`, which print what
// this program reads from itself.

#include "Trace.h"
#include "Child.h"
#include "Harness.h"
#include "Raw.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace bench;
namespace Allocator = c10::xpu::XPUCachingAllocator;

size_t reserved(bool peak) {
  const auto stat = Allocator::getDeviceStats(0).reserved_bytes[0];
  return static_cast<size_t>(peak ? stat.peak : stat.current);
}

/// The largest number of bytes reserved at once over the largest number asked
/// for at once.
double playTrace(uint32_t seed, size_t steps) {
  const auto trace = makeTrace(seed, steps, kLive, kSmallest, kLargest);
  std::vector<void*> blocks(kLive, nullptr);
  std::vector<size_t> sizes(kLive, 0);
  size_t asked = 0;
  size_t most = 0;
  for (const Step& step : trace) {
    Allocator::raw_delete(blocks[step.slot]);
    asked += step.bytes - sizes[step.slot];
    most = std::max(most, asked);
    sizes[step.slot] = step.bytes;
    blocks[step.slot] = Allocator::raw_alloc(step.bytes);
  }
  return static_cast<double>(reserved(/*peak=*/true)) /
      static_cast<double>(most);
}

/// For each power of two: what is reserved for 256 MiB in blocks of that size,
/// over those 256 MiB. The worst of them.
double powersOfTwo() {
  constexpr size_t total = size_t{256} << 20;
  double worst = 0;
  for (size_t bytes = 512; bytes <= total; bytes *= 2) {
    Allocator::emptyCache();
    const size_t before = reserved(/*peak=*/false);
    // Tiny ones are many; 32 MiB of them say the same.
    const size_t wanted = bytes < 65536 ? total / 8 : total;
    std::vector<void*> blocks;
    for (size_t held = 0; held < wanted; held += bytes) {
      blocks.push_back(Allocator::raw_alloc(bytes));
    }
    worst = std::max(
        worst,
        static_cast<double>(reserved(/*peak=*/false) - before) /
            static_cast<double>(wanted));
    for (void* block : blocks) {
      Allocator::raw_delete(block);
    }
  }
  return worst;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  const Options options = parseOptions(argc, argv, &words);
  if (!words.empty()) {
    Allocator::init(c10::xpu::device_count_ensure_non_zero());
    std::cout << (words[0] == "trace"
                      ? playTrace(
                            static_cast<uint32_t>(std::stoul(words.at(1))),
                            options.quick ? 20000 : 100000)
                      : powersOfTwo())
              << "\n";
    return 0;
  }
  const auto ask = [&options](std::vector<std::string> arguments) {
    if (options.quick) {
      arguments.push_back("--quick");
    }
    return std::stod(runSelf(arguments));
  };
  if (wanted(options, "memory.trace")) {
    std::vector<double> ratios;
    for (int seed = 1; seed <= (options.quick ? 2 : 7); ++seed) {
      ratios.push_back(ask({"trace", std::to_string(seed)}));
    }
    report(
        options,
        {"memory.trace",
         "reserved at the peak of the random trace over asked for",
         Bound::ValueAtMost,
         1.15,
         "x",
         "the worst of " + std::to_string(ratios.size()) + " traces"},
        {"reserved / asked for"},
        {{*std::max_element(ratios.begin(), ratios.end())}});
  }
  if (wanted(options, "memory.powers")) {
    report(
        options,
        {"memory.powers",
         "reserved for powers of two over asked for, the worst",
         Bound::ValueAtMost,
         1.15,
         "x"},
        {"reserved / asked for"},
        {{ask({"sizes"})}});
  }
  return 0;
}
