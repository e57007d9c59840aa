// Device memory that comes from the cache, beside the SYCL runtime's own.

#include "Harness.h"
#include "Raw.h"
#include "Trace.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace bench;
using c10::xpu::XPUStream;
namespace Allocator = c10::xpu::XPUCachingAllocator;

// ---- one size ----

void hits(const Options& options, size_t bytes, Bound kind, double bound) {
  const std::vector<Side> sides = {
      {"raw_alloc, raw_delete",
       [bytes](size_t n) {
         for (size_t i = 0; i < n; ++i) {
           void* const block = Allocator::raw_alloc(bytes);
           sink(block);
           Allocator::raw_delete(block);
         }
       }},
      {"sycl::malloc_device, sycl::free",
       [bytes](size_t n) {
         for (size_t i = 0; i < n; ++i) {
           void* const block =
               sycl::malloc_device(bytes, rawDevice(), rawContext());
           sink(block);
           sycl::free(block, rawContext());
         }
       }},
      {"get()->allocate, as a tensor does",
       [bytes](size_t n) {
         for (size_t i = 0; i < n; ++i) {
           sink(Allocator::get()->allocate(bytes).get());
         }
       }},
  };
  compare(
      options,
      {"allocator.hit." + std::to_string(bytes),
       "allocate and free " + sizeName(bytes),
       kind,
       bound},
      sides);
}

// ---- random sizes ----

void randomSizes(const Options& options) {
  const std::string id = "allocator.random";
  if (!wanted(options, id)) {
    return;
  }
  const auto trace = makeTrace(1, 50000, kLive, kSmallest, kLargest);
  Player ours(trace, kLive, &Allocator::raw_alloc, [](void* p) {
    Allocator::raw_delete(p);
  });
  Player raw(
      trace,
      kLive,
      [](size_t bytes) {
        return sycl::malloc_device(bytes, rawDevice(), rawContext());
      },
      [](void* p) { sycl::free(p, rawContext()); });
  ours.play(trace.size()); // until the cache has what the trace needs
  raw.play(4 * kLive);
  const std::vector<Side> sides = {
      {"replace a random block", [&](size_t n) { ours.play(n); }},
      {"sycl::free, sycl::malloc_device", [&](size_t n) { raw.play(n); }},
  };
  compare(
      options,
      {id,
       "allocate and free, 256 B to 64 MiB, 1000 live",
       Bound::RatioAtMost,
       1.0 / 15},
      sides,
      {/*seconds=*/2, /*batch_us=*/400});
  ours.clear();
  raw.clear();
  Allocator::emptyCache();
}

// ---- many blocks ----

/// `count` live blocks and as many cached ones beside them, on a stream of
/// their own. No two cached ones touch, so that they are not merged.
class Crowd {
 public:
  Crowd(XPUStream stream, size_t count) : stream_(stream), random_(count) {
    std::vector<void*> cached;
    for (size_t i = 0; i < count; ++i) {
      live_.push_back(allocate(size()));
      cached.push_back(allocate(size()));
    }
    std::shuffle(cached.begin(), cached.end(), random_);
    for (void* block : cached) {
      Allocator::raw_delete(block);
    }
    std::shuffle(live_.begin(), live_.end(), random_);
    for (size_t i = 0; i < kSizes; ++i) {
      sizes_.push_back(size());
      picks_.push_back(static_cast<uint32_t>(random_() % count));
    }
  }

  ~Crowd() {
    for (void* block : live_) {
      Allocator::raw_delete(block);
    }
  }

  /// Allocates and frees, sizes at random.
  void pairs(size_t n) {
    for (; n != 0; --n) {
      void* const block = allocate(sizes_[next()]);
      sink(block);
      Allocator::raw_delete(block);
    }
  }

  /// Replaces live blocks, chosen at random.
  void replace(size_t n) {
    for (; n != 0; --n) {
      const size_t at = next();
      void*& block = live_[picks_[at]];
      Allocator::raw_delete(block);
      block = allocate(sizes_[at]);
    }
  }

 private:
  static constexpr size_t kSizes = size_t{1} << 16;

  void* allocate(size_t bytes) {
    return Allocator::raw_alloc_with_stream(bytes, stream_);
  }
  size_t size() {
    return 512 + random_() % 1536;
  }
  size_t next() {
    return next_ = (next_ + 1) % kSizes;
  }

  XPUStream stream_;
  std::mt19937_64 random_;
  std::vector<void*> live_;
  std::vector<size_t> sizes_;
  std::vector<uint32_t> picks_;
  size_t next_ = 0;
};

/// What must be looked at to free one of so many blocks, by its address, and to
/// allocate another: the entry of a table that leads to its record, the record,
/// those of its two neighbours in memory, which are free and become one block
/// with it, and the record of a cached block that is handed out. (The crowd's
/// blocks were freed in random order, so that one is anywhere.)
class Records {
 public:
  explicit Records(size_t count) : table_(count), records_(count) {
    std::mt19937_64 random(count);
    const auto any = [&] { return &records_[random() % count]; };
    for (size_t i = 0; i < count; ++i) {
      table_[i].record = any();
      records_[i].neighbours[0] = any();
      records_[i].neighbours[1] = any();
    }
    for (size_t i = 0; i < kPicks; ++i) {
      picks_.push_back(static_cast<uint32_t>(random() % count));
    }
  }
  void touch() {
    Record* freed = table_[pick()].record;
    ++freed->uses;
    for (Record* neighbour : freed->neighbours) {
      ++neighbour->uses;
    }
    ++records_[pick()].uses;
  }

 private:
  static constexpr size_t kPicks = size_t{1} << 16;
  struct alignas(64) Record {
    size_t uses = 0;
    Record* neighbours[2];
  };
  size_t pick() {
    next_ = (next_ + 1) % kPicks;
    return picks_[next_];
  }

  // Blocks of 1.25 KiB on average: an entry for each 512 B takes this much.
  struct Entry {
    Record* record;
    void* others[2];
  };
  std::vector<Entry> table_;
  std::vector<Record> records_;
  std::vector<uint32_t> picks_;
  size_t next_ = 0;
};

void growth(const Options& options) {
  if (!wanted(options, "allocator.growth") &&
      options.only.rfind("allocator.growth", 0) != 0) {
    return;
  }
  constexpr size_t few = 1000;
  constexpr size_t many = 100000;
  {
    Crowd small(c10::xpu::getStreamFromPool(), few);
    Crowd large(c10::xpu::getStreamFromPool(), many);
    compare(
        options,
        {"allocator.growth.pair",
         "a hit, 100,000 live and cached blocks against 1,000",
         Bound::RatioAtMost,
         1.2},
        {{"among 100,000", [&](size_t n) { large.pairs(n); }},
         {"among 1,000", [&](size_t n) { small.pairs(n); }}});
    Records records(2 * many);
    compare(
        options,
        {"allocator.growth.replace",
         "the same, freeing live blocks at random",
         Bound::RatioAtMost,
         1.2},
        {{"among 100,000", [&](size_t n) { large.replace(n); }},
         {"among 1,000", [&](size_t n) { small.replace(n); }},
         {"among 1,000, and the records of 100,000 blocks looked up",
          [&](size_t n) {
            for (; n != 0; --n) {
              small.replace(1);
              records.touch();
            }
          }}},
        {},
        /*need=*/2);
  }
  Allocator::emptyCache();
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  Allocator::init(c10::xpu::device_count_ensure_non_zero());
  hits(options, 512, Bound::RatioAtMost, 1.0 / 15);
  hits(options, size_t{1} << 20, Bound::RatioAtMost, 1.0 / 15);
  hits(options, size_t{64} << 20, Bound::RatioAtMost, 1.0 / 100);
  randomSizes(options);
  growth(options);
  return 0;
}
