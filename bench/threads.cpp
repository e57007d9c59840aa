// Two threads on streams of their own against one.

#include "Floor.h"
#include "Harness.h"
#include "Raw.h"
#include "Trace.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace bench;
using c10::xpu::XPUStream;
namespace Allocator = c10::xpu::XPUCachingAllocator;

using Work = std::function<void(size_t)>;

/// How long each of two threads was at work, and whether it lost its core.
struct Spell {
  double start = 0;
  double end = 0;
  bool disturbed = false;
};

Spell timed(const Work& work, size_t n) {
  Spell spell;
  const uint64_t before = preemptions();
  spell.start = now();
  work(n);
  spell.end = now();
  spell.disturbed = preemptions() != before;
  return spell;
}

/// Keeps the calling thread on the `which`-th of the cores that it may use, so
/// that two threads are never made to take turns on one of two cores.
void stayOn(size_t which) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && which-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one); // of the calling thread
      return;
    }
  }
}

/// A second thread that does something at the same time as the first. It
/// sleeps when it has nothing to do, so that one thread alone is alone.
class Partner {
 public:
  Partner() : thread_([this] { serve(); }) {
    stayOn(0);
  }
  ~Partner() {
    give(nullptr, 0);
    thread_.join();
  }

  /// Both start together, each on a core and with its caches warm: while one
  /// thread works alone, other programs may have used the other core.
  std::pair<Spell, Spell> together(
      const Work& mine,
      const Work& theirs,
      size_t n) {
    here_ = false;
    give(&theirs, n);
    while (!here_) {
      std::this_thread::yield();
    }
    start_ = true;
    const Spell first = warmTimed(mine, n);
    while (!done_) {
      std::this_thread::yield();
    }
    return {first, spell_};
  }

 private:
  void give(const Work* work, size_t n) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = work;
      n_ = n;
      given_ = true;
      start_ = done_ = false;
      warm_ = 0;
    }
    wake_.notify_one();
  }

  void serve() {
    stayOn(1);
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return given_; });
      given_ = false;
      if (!work_) {
        return;
      }
      here_ = true;
      while (!start_) {
      }
      spell_ = warmTimed(*work_, n_);
      done_ = true;
    }
  }

  Spell warmTimed(const Work& work, size_t n) {
    const uint64_t before = preemptions();
    work(n);
    ++warm_;
    while (warm_ != 2) {
    }
    Spell spell = timed(work, n);
    spell.disturbed = preemptions() != before;
    return spell;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  const Work* work_ = nullptr;
  size_t n_ = 0;
  bool given_ = false;
  std::atomic<bool> here_{false};
  std::atomic<bool> start_{false};
  std::atomic<int> warm_{0};
  std::atomic<bool> done_{false};
  Spell spell_;
  std::thread thread_;
};

/// The same work for each of the two threads, on objects of its own.
struct Pair {
  std::string name;
  Work first;
  Work second;
  size_t batch = 0;
};

/// A batch that takes about that long.
void calibrate(Pair& pair, double seconds) {
  for (size_t n = 16;; n *= 2) {
    // Both, so that each has what it needs; and twice, to warm up.
    timed(pair.second, n);
    timed(pair.first, n);
    const Spell spell = timed(pair.first, n);
    const double took = spell.end - spell.start;
    if (took > seconds / 2) {
      pair.batch = static_cast<size_t>(static_cast<double>(n) * seconds / took);
      return;
    }
  }
}

/// Throughput of two threads over that of one.
struct Scaling {
  double value;
  bool disturbed;
};

Scaling measure(Partner& partner, const Pair& pair) {
  // One thread first and last, since a core's frequency changes.
  pair.first(pair.batch); // warms the caches
  const Spell before = timed(pair.first, pair.batch);
  const auto both = partner.together(pair.first, pair.second, pair.batch);
  const Spell after = timed(pair.first, pair.batch);
  const double alone =
      (before.end - before.start + after.end - after.start) / 2;
  const double shared = std::max(both.first.end, both.second.end) -
      std::min(both.first.start, both.second.start);
  return {
      2 * alone / shared,
      before.disturbed || after.disturbed || both.first.disturbed ||
          both.second.disturbed};
}

void scaling(
    const Options& options,
    const Figure& figure,
    std::vector<Pair> pairs,
    int need = 1) {
  if (!wanted(options, figure.id)) {
    return;
  }
  constexpr size_t fewest = 9;
  Partner partner;
  std::vector<std::string> names;
  for (Pair& pair : pairs) {
    calibrate(pair, 300e-6);
    names.push_back(pair.name);
  }
  std::vector<std::vector<double>> values(pairs.size());
  const double end = now() + (options.quick ? 0.6 : 3);
  size_t left_out = 0;
  while (values[0].size() < fewest || now() < end) {
    std::vector<double> round;
    for (const Pair& pair : pairs) {
      Scaling one = measure(partner, pair);
      for (int tries = 0; one.disturbed && tries < 50; ++tries) {
        ++left_out;
        one = measure(partner, pair);
      }
      round.push_back(one.value);
    }
    for (size_t i = 0; i < round.size(); ++i) {
      values[i].push_back(round[i]);
    }
  }
  report(options, figure, names, values, left_out, need);
}

Work pairsOn(XPUStream stream, size_t bytes) {
  return [stream, bytes](size_t n) {
    for (; n != 0; --n) {
      void* const block = Allocator::raw_alloc_with_stream(bytes, stream);
      sink(block);
      Allocator::raw_delete(block);
    }
  };
}

Work traceOn(XPUStream stream, uint32_t seed, size_t largest) {
  const auto allocate = [stream](size_t bytes) {
    return Allocator::raw_alloc_with_stream(bytes, stream);
  };
  const auto free = [](void* block) { Allocator::raw_delete(block); };
  auto player = std::make_shared<Player<decltype(allocate), decltype(free)>>(
      makeTrace(seed, 20000, kLive, kSmallest, largest), kLive, allocate, free);
  player->play(60000); // until the cache has what the trace needs
  return [player](size_t n) { player->play(n); };
}

Work rawPairs() {
  return [](size_t n) {
    for (; n != 0; --n) {
      void* const block = sycl::malloc_device(512, rawDevice(), rawContext());
      sink(block);
      sycl::free(block, rawContext());
    }
  };
}

/// Asks SYCL for memory of the trace's average size once in `every` steps, and
/// does arithmetic for about as long as a hit takes in the others.
Work rawMisses(size_t every) {
  return [every](size_t n) {
    for (size_t i = 0; i < n; ++i) {
      if (i % every == 0) {
        void* const block =
            sycl::malloc_device(size_t{1} << 20, rawDevice(), rawContext());
        sink(block);
        sycl::free(block, rawContext());
      }
      sink(arithmetic(100));
    }
  };
}

int64_t segmentsMade() {
  return Allocator::getDeviceStats(0).segment[0].allocated;
}

Work steps() {
  return [](size_t n) { sink(arithmetic(n)); };
}

/// Blocks of up to 16 MiB: here the bound of the cache has the allocator give
/// segments back and ask for others, and SYCL does not scale.
void largeTrace(
    const Options& options,
    XPUStream first,
    XPUStream second,
    const Pair& machine) {
  const std::string id = "threads.large";
  if (!wanted(options, id)) {
    return;
  }
  constexpr size_t largest = size_t{16} << 20;
  const Work one = traceOn(first, 1, largest);
  const Work other = traceOn(second, 2, largest);
  constexpr size_t steps_each = 20000;
  const int64_t before = segmentsMade();
  for (size_t i = 0; i < steps_each; i += 100) {
    one(100);
    other(100);
  }
  const auto made =
      static_cast<size_t>(std::max<int64_t>(segmentsMade() - before, 1));
  const size_t every = 2 * steps_each / made;
  scaling(
      options,
      {id,
       "two threads on their own streams, 256 B to " + sizeName(largest),
       Bound::ValueAtLeast,
       1.7,
       "x",
       "SYCL is asked for a segment once in " + std::to_string(every) +
           " steps, since the cache is bounded"},
      {{"replace a random block", one, other},
       machine,
       {"arithmetic, and SYCL asked as often",
        rawMisses(every),
        rawMisses(every)}},
      /*need=*/2);
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  Allocator::init(c10::xpu::device_count_ensure_non_zero());
  const XPUStream first = c10::xpu::getStreamFromPool();
  const XPUStream second = c10::xpu::getStreamFromPool();
  const Pair machine{"arithmetic", steps(), steps()};
  const Pair sycl{"sycl::malloc_device, sycl::free", rawPairs(), rawPairs()};
  scaling(
      options,
      {"threads.pair",
       "two threads on their own streams, 512 B",
       Bound::ValueAtLeast,
       1.7,
       "x"},
      {{"allocate and free", pairsOn(first, 512), pairsOn(second, 512)},
       machine,
       sycl});
  if (wanted(options, "threads.small")) {
    constexpr size_t largest = size_t{64} << 10;
    scaling(
        options,
        {"threads.small",
         "two threads on their own streams, 256 B to " + sizeName(largest),
         Bound::ValueAtLeast,
         1.7,
         "x"},
        {{"replace a random block",
          traceOn(first, 1, largest),
          traceOn(second, 2, largest)},
         machine});
  }
  largeTrace(options, first, second, machine);
  return 0;
}
