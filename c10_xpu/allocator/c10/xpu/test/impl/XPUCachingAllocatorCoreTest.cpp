// The caching allocator over a fake runtime.

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/irange.h>
#include <c10/xpu/test/impl/XPUAllocatorFakeBackend.h>

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace c10::xpu::impl;
using namespace c10::xpu::test;
using c10::StreamId;
using c10::xpu::XPUStream;
using Fault = FakeBackend::Fault;
using namespace c10::xpu::XPUCachingAllocator;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

constexpr int64_t mib(int64_t count) {
  return count << 20;
}

AllocatorConfig splitUpTo(size_t size) {
  AllocatorConfig config;
  config.max_split_size = size;
  return config;
}

// One device over the fake runtime.
struct Device {
  explicit Device(const AllocatorConfig& config = {})
      : backend(config), core(backend, card, 0) {
    card.total = size_t{64} << 30;
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    EXPECT_EQ(backend.misuse, "");
  }

  void* allocate(size_t size, StreamId stream = 0) {
    return core.allocate(size, fakeStream(stream));
  }
  void free(void* ptr) {
    DeviceAllocator::free(find(ptr), ptr);
  }
  void recordStream(void* ptr, StreamId stream) {
    DeviceAllocator::recordStream(find(ptr), ptr, fakeStream(stream));
  }
  Block* find(void* ptr) {
    Block* const block = backend.table.find(ptr);
    TORCH_CHECK(block != nullptr, "no block");
    return block;
  }
  std::vector<SegmentInfo> snapshot() {
    std::vector<SegmentInfo> result;
    core.snapshot(result);
    return result;
  }
  // Of the segments, in MiB.
  std::vector<int64_t> sizes() {
    std::vector<int64_t> result;
    for (const SegmentInfo& segment : snapshot()) {
      result.push_back(segment.total_size >> 20);
    }
    std::sort(result.begin(), result.end());
    return result;
  }
  int64_t reserved() {
    return core.stats().reserved_bytes[0].current;
  }
  int64_t active() {
    return core.stats().active[0].current;
  }

  FakeBackend backend;
  Card card;
  DeviceAllocator core;
};

// All threads meet here, as often as they like.
class Meeting {
 public:
  explicit Meeting(size_t threads) : threads_(threads) {}

  void wait() {
    std::unique_lock<std::mutex> guard(mutex_);
    const size_t round = round_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++round_;
      condition_.notify_all();
    } else {
      condition_.wait(guard, [&] { return round != round_; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  const size_t threads_;
  size_t arrived_ = 0;
  size_t round_ = 0;
};

// Sizes from 256 bytes to 64 MiB, all orders of magnitude alike.
size_t randomSize(std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(8, 26);
  return static_cast<size_t>(std::exp2(exponent(random)));
}

} // namespace

// ---- configuration ----

TEST(XPUCachingAllocatorCoreTest, RoundsSizes) {
  const AllocatorConfig plain;
  EXPECT_EQ(plain.roundSize(1), 512);
  EXPECT_EQ(plain.roundSize(512), 512);
  EXPECT_EQ(plain.roundSize(513), 1024);
  EXPECT_EQ(plain.roundSize(64 * kMiB), 64 * kMiB);
  AllocatorConfig quarters;
  quarters.roundup_power2_divisions = 4;
  EXPECT_EQ(quarters.roundSize(1200), 1536); // too small for divisions
  EXPECT_EQ(quarters.roundSize(4096), 4096);
  EXPECT_EQ(quarters.roundSize(4097), 5120);
  EXPECT_EQ(quarters.roundSize(7169), 8192);
  AllocatorConfig powers;
  powers.roundup_power2_divisions = 1;
  EXPECT_EQ(powers.roundSize(3 * kMiB), 4 * kMiB);
}

// ---- structures ----

// The best fit is exact, however many blocks share a bin or are beyond the last
// one. (A search that gives up after some probes misses the only one that
// fits.)
TEST(XPUCachingAllocatorCoreTest, FreeBlocksFindTheBestFit) {
  std::mt19937_64 random(5);
  for (const auto& [shift, top] : std::vector<std::pair<int, size_t>>{
           {9, 2 * kMiB}, {16, 512 * kMiB}, {16, kMiB / 4}, {20, kMiB}}) {
    FreeBlocks bins(shift);
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<Block*> in;
    const auto size = [&random, units = top / kMinBlockSize] {
      return (1 + random() % units) * kMinBlockSize;
    };
    for (int i = 0; i < 6000; ++i) {
      if (in.size() < 200 && random() % 2 == 0) {
        blocks.push_back(std::make_unique<Block>());
        blocks.back()->size = size();
        bins.insert(blocks.back().get());
        in.push_back(blocks.back().get());
      } else if (!in.empty() && random() % 4 == 0) {
        std::swap(in[random() % in.size()], in.back());
        bins.erase(in.back());
        in.pop_back();
      }
      const size_t wanted = size();
      size_t best = 0;
      for (const Block* block : in) {
        if (block->size >= wanted && (best == 0 || block->size < best)) {
          best = block->size;
        }
      }
      const Block* const found = bins.find(wanted);
      ASSERT_EQ(found == nullptr ? 0 : found->size, best);
    }
  }
}

TEST(XPUCachingAllocatorCoreTest, BlockTable) {
  BlockTable table;
  const std::vector<uintptr_t> addresses = {
      512,
      (uintptr_t{1} << 40) - 512,
      uintptr_t{1} << 47,
      (uintptr_t{1} << 56) - 512,
      ~uintptr_t{0} << 47};
  std::vector<Block> blocks(addresses.size());
  const auto at = [](uintptr_t address) {
    return reinterpret_cast<void*>(address);
  };
  EXPECT_EQ(table.find(nullptr), nullptr);
  for (const auto i : c10::irange(addresses.size())) {
    EXPECT_EQ(table.find(at(addresses[i])), nullptr);
    blocks[i].ptr = static_cast<char*>(at(addresses[i]));
    table.insert(&blocks[i]);
  }
  for (const auto i : c10::irange(addresses.size())) {
    EXPECT_EQ(table.find(at(addresses[i])), &blocks[i]);
    EXPECT_EQ(table.find(at(addresses[i] + 512)), nullptr);
  }
}

// ---- sizes ----

TEST(XPUCachingAllocatorCoreTest, PowersOfTwoCostWhatTheyAre) {
  for (size_t size = 2 * kMiB; size <= 1024 * kMiB; size *= 2) {
    Device device;
    device.allocate(size);
    EXPECT_EQ(device.reserved(), static_cast<int64_t>(size));
  }
  for (size_t size = 512; size <= 1024 * kMiB; size *= 2) {
    Device device;
    size_t asked = 0;
    const size_t count = std::max<size_t>(8 * kMiB / size, 20);
    for (size_t i = 0; i < count; ++i) {
      device.allocate(size);
      asked += size;
      if (size > kMiB || asked % (2 * kMiB) == 0) {
        ASSERT_LE(
            static_cast<double>(device.reserved()),
            1.13 * static_cast<double>(asked))
            << i << " of " << size;
      }
    }
  }
}

TEST(XPUCachingAllocatorCoreTest, ReservesLittleMoreThanIsAsked) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7}) {
    Device device;
    device.card.total = device.backend.capacity = size_t{1} << 40;
    std::mt19937_64 random(seed);
    std::vector<std::pair<void*, size_t>> live(1000);
    size_t asked = 0;
    size_t peak = 0;
    for (int i = 0; i < 100000; ++i) {
      auto& [ptr, size] = live[random() % live.size()];
      if (ptr != nullptr) {
        device.free(ptr);
        asked -= size;
      }
      size = randomSize(random);
      ptr = device.allocate(size);
      asked += size;
      peak = std::max(peak, asked);
    }
    const auto reserved = device.core.stats().reserved_bytes[0].peak;
    const double ratio =
        static_cast<double>(reserved) / static_cast<double>(peak);
    RecordProperty("seed_" + std::to_string(seed), std::to_string(ratio));
    EXPECT_LE(ratio, 1.2) << "seed " << seed;
  }
}

// Ten iterations of changing shapes are a warm-up, after which no call of the
// runtime is needed.
TEST(XPUCachingAllocatorCoreTest, SteadyStateAsksForNothing) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7}) {
    Device device;
    const auto iterate = [&](uint64_t shape) {
      std::mt19937_64 layers(seed); // the same ones for all shapes
      std::vector<void*> saved;
      for (int layer = 0; layer < 60; ++layer) {
        const size_t size = randomSize(layers) / 32 * (32 - shape);
        void* const temporary = device.allocate(2 * size + 1);
        saved.push_back(device.allocate(size + 1));
        device.free(temporary);
      }
      for (; !saved.empty(); saved.pop_back()) {
        device.free(
            device.allocate(1 + randomSize(layers) / 32 * (32 - shape)));
        device.free(saved.back());
      }
    };
    for (uint64_t i = 0; i < 10; ++i) {
      iterate(2 * (i % 5));
    }
    const int64_t warm = device.core.stats().num_device_alloc;
    for (uint64_t i = 0; i < 100; ++i) {
      iterate(2 * (i % 5));
    }
    const DeviceStats stats = device.core.stats();
    EXPECT_EQ(stats.num_device_alloc, warm) << "seed " << seed;
    EXPECT_EQ(stats.num_device_free, 0);
  }
}

TEST(XPUCachingAllocatorCoreTest, AbsurdSizesAreOutOfMemory) {
  Device device;
  for (const size_t size :
       {~size_t{0}, ~size_t{0} - 511, size_t{1} << 60, size_t{1} << 41}) {
    EXPECT_THROW(device.allocate(size), c10::OutOfMemoryError) << size;
  }
  EXPECT_EQ(device.core.stats().num_ooms, 4);
  EXPECT_EQ(device.reserved(), 0);
}

// ---- pending work ----

TEST(XPUCachingAllocatorCoreTest, IdleStreamsGetNoFence) {
  Device device;
  void* ptr = device.allocate(20 * kMiB);
  device.recordStream(ptr, 5);
  device.free(ptr);
  EXPECT_EQ(device.allocate(20 * kMiB), ptr);
  EXPECT_EQ(device.backend.numFences(), 0);
}

TEST(XPUCachingAllocatorCoreTest, BusyStreamsHoldBlocksBack) {
  Device device;
  void* ptr = device.allocate(20 * kMiB);
  for (const StreamId stream : {5, 5, 6, 0}) { // 0 is its own
    device.recordStream(ptr, stream);
    device.backend.enqueue(fakeStream(stream), ptr);
  }
  device.free(ptr);
  EXPECT_THROW(device.free(ptr), c10::Error);
  EXPECT_THROW(device.recordStream(ptr, 5), c10::Error);
  const DeviceStats stats = device.core.stats();
  EXPECT_EQ(stats.allocation[0].current, 0);
  EXPECT_EQ(stats.requested_bytes[0].current, 0);
  EXPECT_EQ(stats.active[0].current, 1);
  EXPECT_EQ(device.backend.numFences(), 2);
  EXPECT_NE(device.allocate(20 * kMiB), ptr);
  device.backend.finish(fakeStream(5));
  EXPECT_NE(device.allocate(20 * kMiB), ptr);
  device.backend.finish(fakeStream(6));
  EXPECT_EQ(device.allocate(20 * kMiB), ptr);
}

TEST(XPUCachingAllocatorCoreTest, HeldBlocksComeBackWithinEightAllocations) {
  Device device;
  void* ptr = device.allocate(512);
  device.recordStream(ptr, 5);
  device.backend.enqueue(fakeStream(5), ptr);
  device.free(ptr);
  std::vector<void*> later;
  for (int i = 0; i < 16; ++i) {
    later.push_back(device.allocate(512));
    if (i == 7) {
      EXPECT_EQ(std::count(later.begin(), later.end(), ptr), 0);
      device.backend.finish(fakeStream(5));
    }
  }
  EXPECT_EQ(std::count(later.begin(), later.end(), ptr), 1);
}

// A block is free for reuse on its stream at once, but goes back to the runtime
// only after the stream has passed a fence.
TEST(XPUCachingAllocatorCoreTest, SegmentsGoBackAfterTheWorkOfTheirStream) {
  Device device;
  void* own = device.allocate(8 * kMiB, 1);
  device.backend.enqueue(fakeStream(1), own);
  device.free(own);
  EXPECT_EQ(device.active(), 0);
  void* recorded = device.allocate(512, 2);
  device.recordStream(recorded, 3);
  device.backend.enqueue(fakeStream(3), recorded);
  device.free(recorded);
  device.core.emptyCache(); // waits for both
  EXPECT_TRUE(device.backend.segments().empty());
}

TEST(XPUCachingAllocatorCoreTest, NothingWaitsForAHostTask) {
  Device device;
  device.backend.capacity = 64 * kMiB;
  void* held = device.allocate(20 * kMiB, 1);
  device.backend.enqueue(fakeStream(1), nullptr, /*host_task=*/true);
  device.backend.enqueue(fakeStream(1), held);
  device.free(held);
  void* recorded = device.allocate(20 * kMiB, 2);
  device.recordStream(recorded, 1);
  device.backend.enqueue(fakeStream(1), recorded);
  device.free(recorded);
  device.free(device.allocate(20 * kMiB, 3));
  device.core.emptyCache();
  EXPECT_EQ(device.reserved(), mib(40));
  EXPECT_THROW(device.allocate(50 * kMiB, 3), c10::OutOfMemoryError);
  EXPECT_EQ(device.backend.segments().size(), 2);
  device.backend.finish(fakeStream(1));
  EXPECT_NE(device.allocate(50 * kMiB, 3), nullptr);
  EXPECT_EQ(device.backend.segments().size(), 1);
}

// ---- errors of the runtime ----

TEST(XPUCachingAllocatorCoreTest, FencesThatFailAreTriedAgain) {
  Device device;
  void* ptr = device.allocate(20 * kMiB);
  for (const StreamId stream : {5, 6}) {
    device.recordStream(ptr, stream);
    device.backend.enqueue(fakeStream(stream), ptr);
  }
  device.backend.inject(Fault::Fence, /*after=*/1); // that of the second stream
  device.free(ptr); // is done all the same
  EXPECT_FALSE(device.backend.clearFault());
  EXPECT_THROW(device.free(ptr), c10::Error);
  EXPECT_EQ(device.core.stats().allocation[0].current, 0);
  for (const Fault fault : {Fault::Fence, Fault::Complete}) {
    device.backend.inject(fault);
    EXPECT_THROW(device.allocate(20 * kMiB), c10::Error);
  }
  device.backend.inject(Fault::Wait);
  EXPECT_THROW(device.core.emptyCache(), c10::Error);
  EXPECT_EQ(device.active(), 1);
  device.core.emptyCache();
  EXPECT_TRUE(device.snapshot().empty());
}

TEST(XPUCachingAllocatorCoreTest, FailedReleaseKeepsTheSegment) {
  Device device;
  for (const Fault fault : {Fault::Deallocate, Fault::Fence, Fault::Wait}) {
    void* ptr = device.allocate(8 * kMiB);
    device.backend.enqueue(fakeStream(0), ptr);
    device.free(ptr);
    device.backend.inject(fault);
    EXPECT_THROW(device.core.emptyCache(), c10::Error);
    EXPECT_EQ(device.reserved(), mib(8));
    EXPECT_EQ(device.card.reserved, 8 * kMiB);
    EXPECT_EQ(device.snapshot().size(), 1);
    EXPECT_EQ(device.allocate(8 * kMiB), ptr);
    device.free(ptr);
    device.core.emptyCache();
    EXPECT_EQ(device.reserved(), 0);
    EXPECT_TRUE(device.backend.segments().empty());
  }
}

TEST(XPUCachingAllocatorCoreTest, FailedAllocationChangesNothing) {
  Device device;
  device.backend.inject(Fault::Allocate);
  EXPECT_CONTAINS(errorOf([&] { device.allocate(512); }), "injected");
  EXPECT_EQ(device.reserved(), 0);
  EXPECT_EQ(device.card.reserved, 0);
  EXPECT_EQ(device.core.stats().num_ooms, 0);
  EXPECT_NE(device.allocate(512), nullptr);
}

// ---- lack of memory ----

TEST(XPUCachingAllocatorCoreTest, OutOfMemoryTakesFromOtherStreams) {
  Device device;
  device.backend.capacity = 64 * kMiB;
  void* cached = device.allocate(40 * kMiB, 1);
  device.backend.enqueue(fakeStream(1), cached);
  device.free(cached);
  void* held = device.allocate(8 * kMiB, 2);
  device.recordStream(held, 3);
  device.backend.enqueue(fakeStream(3), held);
  device.free(held);
  void* ptr = device.allocate(60 * kMiB, 0);
  EXPECT_EQ(device.core.stats().num_alloc_retries, 1);
  EXPECT_EQ(device.core.stats().num_ooms, 0);
  const std::string error = errorOf([&] { device.allocate(8 * kMiB, 0); });
  EXPECT_CONTAINS(error, "out of memory");
  EXPECT_EQ(device.core.stats().num_ooms, 1);
  device.free(ptr);
  EXPECT_NE(device.allocate(8 * kMiB, 0), nullptr);
}

// Each gives back what the other has cached, and must not hold its own lock.
TEST(XPUCachingAllocatorCoreTest, OrdinalsOfOneCardRunOutOfMemoryAtOnce) {
  FakeBackend backend;
  Card card;
  card.limit = card.total = 64 * kMiB;
  DeviceAllocator first(backend, card, 0);
  DeviceAllocator second(backend, card, 1);
  for (DeviceAllocator* const core : {&first, &second}) {
    // With a filter, an allocation looks up its blocks under the lock.
    core->beginAllocateToPool({1, 0}, [](XPUStream) { return false; });
  }
  inThreads(2, [&](size_t thread) {
    DeviceAllocator& core = thread == 0 ? first : second;
    const auto stream = fakeStream(0, core.device);
    for (int i = 0; i < 3000; ++i) {
      EXPECT_THROW(core.allocate(80 * kMiB, stream), c10::OutOfMemoryError);
    }
  });
  EXPECT_EQ(first.stats().num_ooms + second.stats().num_ooms, 6000);
}

TEST(XPUCachingAllocatorCoreTest, OutOfMemoryTakesFromItsStreamFirst) {
  Device device;
  device.backend.capacity = 160 * kMiB;
  device.free(device.allocate(40 * kMiB, 0));
  device.free(device.allocate(60 * kMiB, 1));
  device.allocate(90 * kMiB, 0);
  EXPECT_EQ(device.sizes(), (std::vector<int64_t>{60, 90}));
}

TEST(XPUCachingAllocatorCoreTest, OversizeBlocksAreNotSplit) {
  Device device(splitUpTo(30 * kMiB));
  void* a = device.allocate(40 * kMiB);
  void* b = device.allocate(50 * kMiB);
  const DeviceStats before = device.core.stats();
  EXPECT_EQ(before.oversize_allocations.current, 2);
  EXPECT_EQ(before.oversize_segments.current, 2);
  EXPECT_EQ(before.max_split_size, mib(30));
  device.free(a);
  device.free(b);
  // 20 MiB or less may be wasted on a request of that kind, nothing on others.
  EXPECT_EQ(device.allocate(35 * kMiB), a);
  EXPECT_EQ(device.core.stats().allocated_bytes[0].current, mib(40));
  EXPECT_NE(device.allocate(10 * kMiB), b);
}

// A segment is larger than the request, and so may be oversize although the
// request is not.
TEST(XPUCachingAllocatorCoreTest, RequestsJustBelowOversizeAreServed) {
  Device device(splitUpTo(21 * kMiB));
  void* ptr = device.allocate(20 * kMiB + kMiB / 2);
  device.free(ptr);
  EXPECT_EQ(device.allocate(20 * kMiB + kMiB / 2), ptr);
  EXPECT_EQ(device.core.stats().num_device_alloc, 1);
}

TEST(XPUCachingAllocatorCoreTest, GarbageIsCollectedOldestFirst) {
  AllocatorConfig config;
  config.garbage_collection_threshold = 0.5;
  Device device(config);
  device.card.total = 100 * kMiB;
  void* old_block = device.allocate(20 * kMiB, 1);
  void* young_block = device.allocate(18 * kMiB, 2);
  device.allocate(16 * kMiB, 3);
  device.free(old_block);
  device.allocate(4 * kMiB, 4); // time passes
  device.free(young_block);
  device.backend.enqueue(fakeStream(1), old_block);
  // 58 of 100 MiB are reserved: down to 50 before more is asked for.
  device.allocate(24 * kMiB, 5);
  EXPECT_EQ(device.sizes(), (std::vector<int64_t>{4, 16, 18, 24}));
}

// ---- private pools ----

TEST(XPUCachingAllocatorCoreTest, PrivatePoolsHaveMemoryOfTheirOwn) {
  Device device;
  const auto always = [](XPUStream) { return true; };
  void* const outside = device.allocate(512);
  device.core.beginAllocateToPool({0, 1}, always);
  void* const inside = device.allocate(512);
  device.core.beginAllocateToPool({0, 2}, always);
  void* const inner = device.allocate(512);
  device.core.endAllocateToPool({0, 2});
  void* const again = device.allocate(512);
  device.core.endAllocateToPool({0, 1});
  std::vector<c10::xpu::MempoolId_t> ids;
  for (const SegmentInfo& segment : device.snapshot()) {
    ids.push_back(segment.owner_private_pool_id);
  }
  EXPECT_EQ(ids, (decltype(ids){{0, 0}, {0, 1}, {0, 2}}));
  EXPECT_EQ(again, static_cast<char*>(inside) + 512);
  for (void* const ptr : {outside, inside, inner, again}) {
    device.free(ptr);
  }
  device.core.releasePool({0, 2});
  device.core.emptyCache({0, 1}); // in use
  EXPECT_EQ(device.sizes().size(), 3);
  device.core.emptyCache({0, 2});
  EXPECT_EQ(device.sizes().size(), 2);
  device.core.releasePool({0, 1});
  device.core.emptyCache();
  EXPECT_EQ(device.sizes().size(), 0);
}

TEST(XPUCachingAllocatorCoreTest, MisuseOfPrivatePoolsIsAnError) {
  Device device;
  auto& core = device.core;
  const auto never = [](XPUStream) { return false; };
  EXPECT_CONTAINS(
      errorOf([&] { core.releasePool({0, 1}); }), "(0, 1) is not in use");
  EXPECT_CONTAINS(
      errorOf([&] { core.endAllocateToPool({0, 1}); }), "is not in use");
  EXPECT_CONTAINS(
      errorOf([&] { core.createOrIncrefPool({0, 0}); }), "is not private");
  core.createOrIncrefPool({0, 1});
  EXPECT_CONTAINS(
      errorOf([&] { core.endAllocateToPool({0, 1}); }),
      "is not being allocated to");
  core.beginAllocateToPool({0, 1}, never);
  EXPECT_CONTAINS(
      errorOf([&] { core.beginAllocateToPool({0, 1}, never); }),
      "is being allocated to already");
  EXPECT_EQ(core.getPoolUseCount({0, 1}), 2);
  core.releasePool({0, 1});
  EXPECT_CONTAINS(
      errorOf([&] { core.releasePool({0, 1}); }), "is being allocated to");
  core.endAllocateToPool({0, 1});
  core.releasePool({0, 1});
  EXPECT_EQ(core.getPoolUseCount({0, 1}), 0);
  EXPECT_CONTAINS(errorOf([&] { core.releasePool({0, 1}); }), "is not in use");
}

TEST(XPUCachingAllocatorCoreTest, PrivatePoolsThatAreGoneLeaveNothing) {
  Device device;
  const auto usePool = [&](c10::xpu::CaptureId_t number) {
    device.core.beginAllocateToPool({0, number}, [](auto) { return true; });
    device.free(device.allocate(512));
    device.core.endAllocateToPool({0, number});
    device.core.releasePool({0, number});
    device.core.emptyCache();
  };
  usePool(1);
  const size_t before = mallinfo2().uordblks;
  for (const auto i : c10::irange(200)) {
    usePool(2 + i);
  }
  EXPECT_LT(mallinfo2().uordblks, before + kMiB);
}

// ---- threads ----

TEST(XPUCachingAllocatorCoreTest, PeaksAreExactOverThreads) {
  constexpr size_t kThreads = 4;
  Device device;
  Meeting meeting(kThreads);
  for (const size_t blocks : {1, 2, 3, 40}) {
    device.core.resetPeakStats();
    inThreads(kThreads, [&](size_t thread) {
      for (int round = 0; round < 50; ++round) {
        std::vector<void*> live;
        live.reserve(blocks);
        for (size_t i = 0; i < blocks; ++i) {
          live.push_back(device.allocate(400, static_cast<StreamId>(thread)));
        }
        meeting.wait(); // now all of them have all of theirs
        for (void* ptr : live) {
          device.free(ptr);
        }
        meeting.wait();
      }
    });
    const DeviceStats stats = device.core.stats();
    const auto peak = static_cast<int64_t>(kThreads * blocks);
    EXPECT_EQ(stats.allocation[0].peak, peak);
    EXPECT_EQ(stats.allocated_bytes[1].peak, 512 * peak);
    EXPECT_EQ(stats.requested_bytes[1].peak, 400 * peak);
    EXPECT_EQ(stats.active[1].peak, peak);
    EXPECT_EQ(stats.allocation[0].current, 0);
  }
}

namespace {

// Threads allocate on their own and on shared streams, free what others have
// allocated, record streams, and every now and then somebody empties the cache,
// reads everything or shrinks the limit. In the end nothing may remain.
void stress(
    size_t threads,
    bool shared_streams,
    const AllocatorConfig& config = {}) {
  Device device(config);
  device.card.total = 256 * kMiB;
  device.backend.capacity = 200 * kMiB;
  std::mutex mutex;
  std::vector<void*> live;
  std::atomic<int64_t> allocations{0};
  inThreads(threads, [&](size_t thread) {
    std::mt19937_64 random(thread);
    const auto anyStream = [&] { return static_cast<StreamId>(random() % 5); };
    // Again and again, a new private pool for this thread.
    c10::xpu::MempoolId_t pool{thread + 1, 0};
    bool uses_pool = false;
    const auto togglePool = [&] {
      uses_pool = !uses_pool;
      if (uses_pool) {
        ++pool.second;
        const auto self = std::this_thread::get_id();
        device.core.beginAllocateToPool(pool, [self](XPUStream) {
          return std::this_thread::get_id() == self;
        });
      } else {
        device.core.endAllocateToPool(pool);
        device.core.releasePool(pool);
      }
    };
    for (int i = 0; i < 1500; ++i) {
      const auto stream =
          static_cast<StreamId>(shared_streams ? random() % 3 : thread);
      const size_t size = size_t{1}
          << (random() % (random() % 8 == 0 ? 25 : 15));
      try {
        void* ptr = device.allocate(size, stream);
        ++allocations;
        if (random() % 2 == 0) {
          device.backend.enqueue(fakeStream(stream), ptr);
        }
        if (random() % 4 == 0) {
          const StreamId side = anyStream();
          device.recordStream(ptr, side);
          device.backend.enqueue(fakeStream(side), ptr);
        }
        const std::lock_guard<std::mutex> guard(mutex);
        live.push_back(ptr);
      } catch (const c10::OutOfMemoryError&) { // NOLINT(bugprone-empty-catch)
        // the others have it all
      }
      device.backend.finish(fakeStream(anyStream()), 2);
      if (random() % 8 != 0) {
        void* ptr = nullptr;
        {
          const std::lock_guard<std::mutex> guard(mutex);
          if (!live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            ptr = live.back();
            live.pop_back();
          }
        }
        if (ptr != nullptr) {
          device.free(ptr);
        }
      }
      switch (random() % 128) {
        case 0:
          device.core.emptyCache();
          break;
        case 1:
          EXPECT_GE(device.active(), 0);
          break;
        case 2:
          device.snapshot();
          break;
        case 3:
          device.core.resetPeakStats();
          break;
        case 4:
          device.card.limit = random() % 2 == 0 ? 128 * kMiB : 256 * kMiB;
          break;
        case 5:
          togglePool();
          break;
        default:
          break;
      }
    }
    if (uses_pool) {
      togglePool();
    }
  });
  for (void* ptr : live) {
    device.free(ptr);
  }
  device.core.emptyCache();
  const DeviceStats stats = device.core.stats();
  EXPECT_EQ(stats.allocation[0].allocated, allocations);
  for (const StatArray* array :
       {&stats.allocation,
        &stats.segment,
        &stats.active,
        &stats.inactive_split,
        &stats.allocated_bytes,
        &stats.reserved_bytes,
        &stats.active_bytes,
        &stats.inactive_split_bytes,
        &stats.requested_bytes}) {
    for (const Stat& stat : *array) {
      EXPECT_EQ(stat.current, 0);
      EXPECT_EQ(stat.allocated, stat.freed);
      EXPECT_GE(stat.peak, 0);
    }
  }
  EXPECT_EQ(stats.num_device_alloc, stats.num_device_free);
  EXPECT_TRUE(device.snapshot().empty());
  EXPECT_TRUE(device.backend.segments().empty());
}

} // namespace

TEST(XPUCachingAllocatorCoreTest, Stress) {
  for (const bool shared_streams : {false, true}) {
    for (const size_t threads : {2, 8}) {
      stress(threads, shared_streams);
    }
  }
  AllocatorConfig config = splitUpTo(21 * kMiB);
  config.garbage_collection_threshold = 0.4;
  config.roundup_power2_divisions = 2;
  stress(4, /*shared_streams=*/true, config);
}
