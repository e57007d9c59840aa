#pragma once

#include "Harness.h"

#include <c10/core/Allocator.h>
#include <c10/core/Event.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>

/// The figures, for any runtime of this shape: c10/xpu in xpu.cpp, PyTorch's
/// c10/cuda in cuda.cpp. `Runtime` names its types and calls, and has for some
/// figures the calls of the layer below it, Runtime::raw(id).

namespace bench {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;

/// Frees what a slot holds and allocates that many bytes in its place.
struct Step {
  uint32_t slot;
  size_t bytes;
};

/// Sizes are log-uniform: each power of two is as likely as any other.
inline std::vector<Step> randomSteps(
    uint32_t seed,
    size_t count,
    size_t slots,
    size_t largest) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<uint32_t> slot(
      0, static_cast<uint32_t>(slots - 1));
  std::uniform_real_distribution<double> exponent(
      std::log(256.0), std::log(static_cast<double>(largest)));
  std::vector<Step> steps;
  for (size_t i = 0; i < count; ++i) {
    steps.push_back(
        {slot(random), static_cast<size_t>(std::exp(exponent(random)))});
  }
  return steps;
}

using Allocate = void* (*)(size_t);
using Free = void (*)(void*);

/// Blocks that are replaced one after the other, as steps say, without end.
class Trace {
 public:
  static constexpr size_t kSlots = 1000;

  Trace(uint32_t seed, size_t largest, Allocate allocate, Free free)
      : steps_(randomSteps(seed, 50000, kSlots, largest)),
        blocks_(kSlots, nullptr),
        allocate_(allocate),
        free_(free) {}
  ~Trace() {
    for (void* block : blocks_) {
      if (block) {
        free_(block);
      }
    }
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void play(size_t n) {
    for (; n != 0; --n) {
      const Step& step = steps_[next_];
      next_ = next_ + 1 == steps_.size() ? 0 : next_ + 1;
      void*& block = blocks_[step.slot];
      if (block) {
        free_(block);
      }
      block = allocate_(step.bytes);
    }
  }

  size_t length() const {
    return steps_.size();
  }

 private:
  std::vector<Step> steps_;
  std::vector<void*> blocks_;
  size_t next_ = 0;
  Allocate allocate_;
  Free free_;
};

template <typename Runtime>
class Figures {
 public:
  using Stream = typename Runtime::Stream;

  explicit Figures(Options options) : options_(std::move(options)) {}

  void run() {
    calls();
    synchronizing();
    allocating();
    memory();
    threads();
    events();
    copies();
  }

 private:
  /// Beside the layer below, where the runtime has such a side for it.
  void measure(const std::string& id, Side ours, const Plan& plan = {}) {
    if (!wanted(options_, id)) {
      return;
    }
    std::vector<Side> sides{std::move(ours)};
    std::optional<Side> raw = Runtime::raw(id);
    if (raw) {
      sides.push_back(*raw);
    }
    compare(options_, id, sides, plan);
  }

  void calls() {
    const Stream stream = Runtime::poolStream();
    const c10::Stream unwrapped = stream.unwrap();
    measure(
        "device.current",
        {"", repeated([] { sink(Runtime::currentDevice()); })});
    measure(
        "stream.current",
        {"", repeated([] { sink(Runtime::currentStream()); })});
    measure("stream.pool", {"", repeated([] { sink(Runtime::poolStream()); })});
    measure("guard.device", {"", repeated([] {
                               typename Runtime::DeviceGuard guard(0);
                               sink(guard);
                             })});
    measure("guard.stream", {"", repeated([unwrapped] {
                               typename Runtime::StreamGuard guard(unwrapped);
                               sink(guard);
                             })});
  }

  void synchronizing() {
    const Stream stream = Runtime::currentStream();
    typename Runtime::Event event;
    event.record(stream); // idle, after some work
    stream.synchronize();
    measure("stream.query", {"", repeated([stream] { sink(stream.query()); })});
    measure("stream.sync", {"", repeated([stream] { stream.synchronize(); })});
    measure("device.sync", {"", repeated([] { Runtime::syncDevice(); })});
  }

  void allocating() {
    for (const size_t bytes : {size_t{512}, kMiB, 64 * kMiB}) {
      measure(
          "allocator.hit." + std::to_string(bytes),
          {"", repeated([bytes] {
             void* const block = Runtime::allocate(bytes);
             sink(block);
             Runtime::free(block);
           })});
    }
    const Stream other = Runtime::poolStream();
    measure(
        "allocator.recorded",
        {"",
         repeated([other] {
           const c10::DataPtr block = Runtime::allocator()->allocate(4 * kKiB);
           Runtime::recordStream(block, other);
         }),
         nullptr,
         [other] { other.synchronize(); }});
    trace("allocator.trace.small", kMiB);
    trace("allocator.trace.large", 64 * kMiB);
    // Each is more than a segment of the cache holds, so that it goes to the
    // driver.
    constexpr size_t count = 8;
    auto blocks = std::make_shared<std::vector<void*>>();
    measure(
        "allocator.miss",
        {"",
         repeated(
             [blocks] { blocks->push_back(Runtime::allocate(32 * kMiB)); }),
         nullptr,
         // Given back at once, as by the other side: to map memory takes longer
         // right after some was unmapped.
         [blocks] {
           for (void* block : *blocks) {
             Runtime::free(block);
           }
           blocks->clear();
           Runtime::emptyCache();
         }},
        {/*seconds=*/0.8, /*batch_us=*/0, count});
    Runtime::emptyCache();
    if (wanted(options_, "allocator.growth")) {
      const auto few = std::make_shared<Crowd>(1000);
      const auto many = std::make_shared<Crowd>(100000);
      compare(
          options_,
          "allocator.growth",
          {{"among 100,000", [many](size_t n) { many->pairs(n); }},
           {"among 1,000", [few](size_t n) { few->pairs(n); }}});
    }
    Runtime::emptyCache();
    measure("allocator.empty", {"", repeated([] { Runtime::emptyCache(); })});
  }

  void trace(const std::string& id, size_t largest) {
    const std::string segments = id + ".segments";
    if (!wanted(options_, id) && !wanted(options_, segments)) {
      return;
    }
    Trace ours(1, largest, &Runtime::allocate, &Runtime::free);
    ours.play(10 * ours.length()); // warm
    const int64_t before = Runtime::segmentsMade();
    measure(
        id,
        {"", [&ours](size_t n) { ours.play(n); }},
        {/*seconds=*/2, /*batch_us=*/400});
    ours.play(ours.length());
    if (wanted(options_, segments)) {
      report(segments, {static_cast<double>(Runtime::segmentsMade() - before)});
    }
  }

  /// `count` live blocks and as many cached ones between them, which therefore
  /// are not merged.
  class Crowd {
   public:
    explicit Crowd(size_t count) : random_(count) {
      std::vector<void*> cached;
      for (size_t i = 0; i < count; ++i) {
        live_.push_back(Runtime::allocate(size()));
        cached.push_back(Runtime::allocate(size()));
      }
      std::shuffle(cached.begin(), cached.end(), random_);
      for (void* block : cached) {
        Runtime::free(block);
      }
      for (size_t i = 0; i < kSizes; ++i) {
        sizes_.push_back(size());
      }
    }
    ~Crowd() {
      for (void* block : live_) {
        Runtime::free(block);
      }
    }
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    void pairs(size_t n) {
      for (; n != 0; --n) {
        next_ = (next_ + 1) % kSizes;
        void* const block = Runtime::allocate(sizes_[next_]);
        sink(block);
        Runtime::free(block);
      }
    }

   private:
    static constexpr size_t kSizes = size_t{1} << 16;
    size_t size() {
      return 512 + random_() % 1536;
    }
    std::mt19937_64 random_;
    std::vector<void*> live_;
    std::vector<size_t> sizes_;
    size_t next_ = 0;
  };

  /// What is reserved over what was asked for.
  void memory() {
    if (wanted(options_, "allocator.reserved.trace")) {
      std::vector<double> ratios;
      for (uint32_t seed = 1; seed <= (options_.quick ? 1 : 3); ++seed) {
        ratios.push_back(reservedByTrace(seed));
      }
      report(
          "allocator.reserved.trace",
          {*std::max_element(ratios.begin(), ratios.end())});
    }
    if (wanted(options_, "allocator.reserved.powers")) {
      double worst = 0;
      for (size_t bytes = kMiB; bytes <= 256 * kMiB; bytes *= 2) {
        worst = std::max(worst, reservedBy(bytes));
      }
      report("allocator.reserved.powers", {worst});
    }
    Runtime::emptyCache();
  }

  double reservedByTrace(uint32_t seed) {
    Runtime::emptyCache();
    Runtime::resetPeak();
    std::vector<void*> blocks(Trace::kSlots, nullptr);
    std::vector<size_t> sizes(Trace::kSlots, 0);
    size_t asked = 0;
    size_t most = 0;
    for (const Step& step : randomSteps(
             seed, options_.quick ? 20000 : 100000, Trace::kSlots, 64 * kMiB)) {
      if (blocks[step.slot]) {
        Runtime::free(blocks[step.slot]);
      }
      asked += step.bytes - sizes[step.slot];
      most = std::max(most, asked);
      sizes[step.slot] = step.bytes;
      blocks[step.slot] = Runtime::allocate(step.bytes);
    }
    const auto peak = static_cast<double>(Runtime::reserved().peak);
    for (void* block : blocks) {
      if (block) {
        Runtime::free(block);
      }
    }
    return peak / static_cast<double>(most);
  }

  /// For 256 MiB in blocks of a power of two.
  double reservedBy(size_t bytes) {
    constexpr size_t total = 256 * kMiB;
    Runtime::emptyCache();
    const auto before = Runtime::reserved().current;
    std::vector<void*> blocks;
    for (size_t held = 0; held < total; held += bytes) {
      blocks.push_back(Runtime::allocate(bytes));
    }
    const auto after = Runtime::reserved().current;
    for (void* block : blocks) {
      Runtime::free(block);
    }
    return static_cast<double>(after - before) / static_cast<double>(total);
  }

  /// Hits of two threads on streams of their own, over those of one: 2 where
  /// nothing is shared.
  void threads() {
    const std::string id = "allocator.threads";
    if (!wanted(options_, id)) {
      return;
    }
    const Stream streams[] = {Runtime::poolStream(), Runtime::poolStream()};
    const auto work = [](Stream stream, size_t n) {
      for (; n != 0; --n) {
        void* const block = Runtime::allocateOn(512, stream);
        sink(block);
        Runtime::free(block);
      }
    };
    constexpr size_t batch = 5000;
    std::vector<double> clean;
    std::vector<double> all;
    const double end = now() + (options_.quick ? 0.5 : 3);
    while (all.size() < 9 || now() < end) {
      std::atomic<int> ready{0};
      std::atomic<size_t> lost{0};
      double alone = 0;
      double ends[2] = {};
      double starts[2] = {};
      const auto side = [&](int which) {
        work(streams[which], batch); // warm
        const size_t before = preemptions();
        if (which == 0) {
          const double start = now();
          work(streams[0], batch);
          alone = now() - start;
        }
        ++ready;
        while (ready != 2) {
        }
        starts[which] = now();
        work(streams[which], batch);
        ends[which] = now();
        lost += preemptions() - before;
      };
      std::thread second(side, 1);
      side(0);
      second.join();
      const double together =
          std::max(ends[0], ends[1]) - std::min(starts[0], starts[1]);
      all.push_back(2 * alone / together);
      if (lost == 0) {
        clean.push_back(all.back());
      }
    }
    report(id, clean.size() < 9 ? all : clean);
  }

  void events() {
    const Stream stream = Runtime::poolStream();
    const Stream second = Runtime::poolStream();
    const auto drain = [stream, second] {
      stream.synchronize();
      second.synchronize();
    };
    const Plan plan{/*seconds=*/1.5};
    typename Runtime::Event event = Runtime::event(/*timing=*/false);
    measure(
        "event.record",
        {"", repeated([&] { event.record(stream); }), nullptr, drain},
        plan);
    c10::Event generic(Runtime::kDevice);
    const c10::Stream unwrapped = stream.unwrap();
    measure(
        "event.record.c10",
        {"", repeated([&] { generic.record(unwrapped); }), nullptr, drain},
        plan);
    typename Runtime::Event timed = Runtime::event(/*timing=*/true);
    measure(
        "event.record.timing",
        {"", repeated([&] { timed.record(stream); }), nullptr, drain},
        plan);
    event.record(stream);
    measure(
        "event.block",
        {"", repeated([&] { event.block(second); }), nullptr, drain},
        plan);
    event.synchronize();
    measure("event.query", {"", repeated([&] { sink(event.query()); })});
  }

  void copies() {
    const Stream stream = Runtime::poolStream();
    const auto copy = [&](const std::string& id,
                          size_t bytes,
                          bool from_host,
                          const Plan& plan) {
      if (!wanted(options_, id)) {
        return;
      }
      void* const to = Runtime::allocate(bytes);
      void* const from =
          from_host ? Runtime::allocateHost(bytes) : Runtime::allocate(bytes);
      Runtime::copyEnds = {to, from, bytes};
      measure(
          id,
          {"", repeated([&] { Runtime::copy(to, from, bytes, stream); })},
          plan);
      Runtime::free(to);
      from_host ? Runtime::freeHost(from) : Runtime::free(from);
    };
    const Plan large{/*seconds=*/4, /*batch_us=*/0, /*batch=*/1};
    copy("stream.copy.small", 4 * kKiB, false, {/*seconds=*/1.5, 300});
    copy("stream.copy.large", 256 * kMiB, false, large);
    copy("stream.copy.host", 256 * kMiB, true, large);
  }

  Options options_;
};

/// What a copy is between; the raw side uses the same memory.
struct CopyEnds {
  void* to = nullptr;
  void* from = nullptr;
  size_t bytes = 0;
};

} // namespace bench
