// The parts of the caching allocator that need no SYCL.

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/irange.h>
#include <c10/xpu/impl/XPUMemoryPool.h>
#include <c10/xpu/test/impl/XPUAllocatorFakeBackend.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

using namespace c10::xpu::impl;
using c10::xpu::test::errorOf;
using c10::xpu::test::inThreads;
using c10::xpu::XPUCachingAllocator::DeviceStats;
using c10::xpu::XPUCachingAllocator::SegmentInfo;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

// One device over the fake runtime.
struct Device {
  explicit Device(const std::string& config = "")
      : pool(backend, table, 0, AllocatorConfig::parse(config)) {}

  void* allocate(size_t size, int64_t stream = 0) {
    return pool.allocate(size, stream)->ptr;
  }
  void free(void* ptr) {
    Block* block = table.find(ptr);
    ASSERT_NE(block, nullptr);
    pool.freed(arenaOf(block).free(block, ptr));
  }
  void recordStream(void* ptr, int64_t stream) {
    Block* block = table.find(ptr);
    ASSERT_NE(block, nullptr);
    arenaOf(block).recordStream(block, ptr, {stream, 0});
  }
  std::vector<SegmentInfo> snapshot() {
    std::vector<SegmentInfo> result;
    pool.snapshot(result);
    return result;
  }
  int64_t reserved() {
    return pool.stats().reserved_bytes[0].current;
  }

  static Arena<FakeBackend>& arenaOf(Block* block) {
    return static_cast<Arena<FakeBackend>&>(block->arena());
  }

  FakeBackend backend;
  BlockTable table;
  MemoryPool<FakeBackend> pool;
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

} // namespace

// ---- configuration ----

TEST(XPUCachingAllocatorCoreTest, ConfigDefaults) {
  const AllocatorConfig config = AllocatorConfig::parse("");
  EXPECT_EQ(config.max_split_size, AllocatorConfig::kUnlimited);
  EXPECT_EQ(config.roundup_power2_divisions, 0);
  EXPECT_EQ(config.garbage_collection_threshold, 0);
}

TEST(XPUCachingAllocatorCoreTest, ConfigReadsAllKeys) {
  const AllocatorConfig config = AllocatorConfig::parse(
      " max_split_size_mb:21, roundup_power2_divisions : 8,"
      "garbage_collection_threshold:0.75,");
  EXPECT_EQ(config.max_split_size, 21 * kMiB);
  EXPECT_EQ(config.roundup_power2_divisions, 8);
  EXPECT_EQ(config.garbage_collection_threshold, 0.75);
}

TEST(XPUCachingAllocatorCoreTest, ConfigNamesWhatIsAllowed) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"max_split_mb:100", "max_split_size_mb"},
      {"Max_split_size_mb:100", "roundup_power2_divisions"},
      {"backend:native", "garbage_collection_threshold"},
      {":100", "max_split_size_mb"},
      {"max_split_size_mb", "greater than 20"},
      {"max_split_size_mb:", "greater than 20"},
      {"max_split_size_mb:20", "greater than 20"},
      {"max_split_size_mb:-1", "greater than 20"},
      {"max_split_size_mb:64MB", "greater than 20"},
      {"max_split_size_mb:99999999999999999999", "greater than 20"},
      {"roundup_power2_divisions:0", "power of two"},
      {"roundup_power2_divisions:3", "power of two"},
      {"roundup_power2_divisions:4.0", "power of two"},
      {"garbage_collection_threshold:0", "less than 1"},
      {"garbage_collection_threshold:1", "less than 1"},
      {"garbage_collection_threshold:nan", "less than 1"},
      {"garbage_collection_threshold:0.5x", "less than 1"},
  };
  for (const auto& each : wrong) {
    const std::string error =
        errorOf([&] { AllocatorConfig::parse(each.first); });
    EXPECT_NE(error.find(each.second), std::string::npos)
        << each.first << ": " << error;
    EXPECT_NE(error.find("PYTORCH_XPU_ALLOC_CONF"), std::string::npos);
  }
}

TEST(XPUCachingAllocatorCoreTest, RoundsSizes) {
  const AllocatorConfig plain;
  EXPECT_EQ(plain.roundSize(1), 512);
  EXPECT_EQ(plain.roundSize(512), 512);
  EXPECT_EQ(plain.roundSize(513), 1024);
  EXPECT_EQ(plain.roundSize(64 * kMiB), 64 * kMiB);
  const AllocatorConfig quarters =
      AllocatorConfig::parse("roundup_power2_divisions:4");
  EXPECT_EQ(quarters.roundSize(1200), 1536); // too small for divisions
  EXPECT_EQ(quarters.roundSize(4096), 4096);
  EXPECT_EQ(quarters.roundSize(4097), 5120);
  EXPECT_EQ(quarters.roundSize(7169), 8192);
  const AllocatorConfig whole =
      AllocatorConfig::parse("roundup_power2_divisions:1");
  EXPECT_EQ(whole.roundSize(3 * kMiB), 4 * kMiB);
}

TEST(XPUCachingAllocatorCoreTest, FormatsSizes) {
  EXPECT_EQ(formatSize(0), "0 bytes");
  EXPECT_EQ(formatSize(1023), "1023 bytes");
  EXPECT_EQ(formatSize(1536), "1.50 KiB");
  EXPECT_EQ(formatSize(3 * kMiB), "3.00 MiB");
  EXPECT_EQ(formatSize(size_t{5} << 40), "5120.00 GiB");
}

// ---- structures ----

TEST(XPUCachingAllocatorCoreTest, BinsGrowWithSizes) {
  size_t last = LargeBinMap::bin(kBlockGranularity);
  for (size_t units = 2; units < 100000; ++units) {
    const size_t bin = LargeBinMap::bin(units * kBlockGranularity);
    EXPECT_TRUE(bin == last || bin == last + 1) << units;
    last = bin;
  }
  EXPECT_EQ(LargeBinMap::bin(kMaxBlockSize - kBlockGranularity), 4095);
  EXPECT_EQ(SmallBinMap::bin(kBlockGranularity), 0);
  EXPECT_EQ(SmallBinMap::bin(kSmallSegment), 4095);
}

template <class BinMap>
void compareBinsWithList(size_t top, double slack) {
  std::mt19937_64 random(5);
  BlockBins<BinMap> bins;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Block*> in;
  const auto size = [&] {
    return (1 + random() % (top / kBlockGranularity)) * kBlockGranularity;
  };
  for (int i = 0; i < 20000; ++i) {
    if (in.size() < 100 && random() % 2 == 0) {
      blocks.push_back(std::make_unique<Block>());
      blocks.back()->size = size();
      bins.insert(blocks.back().get());
      in.push_back(blocks.back().get());
    } else if (!in.empty() && random() % 4 == 0) {
      const size_t at = random() % in.size();
      bins.remove(in[at]);
      in.erase(in.begin() + static_cast<ptrdiff_t>(at));
    }
    const size_t wanted = size();
    size_t best = 0;
    for (const Block* block : in) {
      if (block->size >= wanted && (best == 0 || block->size < best)) {
        best = block->size;
      }
    }
    const Block* found = bins.bestFit(wanted);
    ASSERT_EQ(found == nullptr, best == 0);
    if (found != nullptr) {
      ASSERT_GE(found->size, wanted);
      ASSERT_LE(
          static_cast<double>(found->size),
          static_cast<double>(best) * (1 + slack));
    }
  }
}

TEST(XPUCachingAllocatorCoreTest, SmallBinsFindTheBestFit) {
  compareBinsWithList<SmallBinMap>(kSmallSegment, 0);
}

TEST(XPUCachingAllocatorCoreTest, LargeBinsFindTheBestFit) {
  compareBinsWithList<LargeBinMap>(200 * kMiB, 1. / 64);
  compareBinsWithList<LargeBinMap>(2 * kMiB, 1. / 64);
}

TEST(XPUCachingAllocatorCoreTest, BlockTable) {
  BlockTable table;
  std::vector<Block> blocks(8, Block{});
  const std::vector<uintptr_t> addresses = {
      512,
      (uintptr_t{1} << 40) - 512,
      uintptr_t{1} << 47,
      (uintptr_t{1} << 56) - 512,
      ~uintptr_t{0} << 47,
      ~uintptr_t{0} << 50};
  const auto at = [](uintptr_t address) {
    return reinterpret_cast<void*>(address);
  };
  EXPECT_EQ(table.find(nullptr), nullptr);
  for (const auto i : c10::irange(addresses.size())) {
    EXPECT_EQ(table.find(at(addresses[i])), nullptr);
    table.setSmall(at(addresses[i]), &blocks[i]);
  }
  for (const auto i : c10::irange(addresses.size())) {
    const uintptr_t address = addresses[i];
    EXPECT_EQ(table.find(at(address)), &blocks[i]);
    EXPECT_EQ(table.find(at(address + 1)), nullptr);
    EXPECT_EQ(table.find(at(address + 512)), nullptr);
    // A large block beside it, in the same window.
    table.setLarge(at(address + 1024), &blocks[7]);
    EXPECT_EQ(table.find(at(address + 1024)), &blocks[7]);
    EXPECT_EQ(table.find(at(address)), &blocks[i]);
    table.eraseLarge(at(address), 1024);
    EXPECT_EQ(table.find(at(address + 1024)), &blocks[7]);
    table.eraseLarge(at(address + 512), kMiB);
    EXPECT_EQ(table.find(at(address + 1024)), nullptr);
    EXPECT_EQ(table.find(at(address)), &blocks[i]);
  }
}

// Addresses that were those of large blocks become those of small ones, and the
// other way round.
TEST(XPUCachingAllocatorCoreTest, AddressesChangePools) {
  Device device;
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> large;
    large.reserve(8);
    for (int i = 0; i < 8; ++i) {
      large.push_back(device.allocate(2 * kMiB));
    }
    for (void* ptr : large) {
      device.free(ptr);
    }
    device.pool.emptyCache();
    std::vector<void*> small;
    small.reserve(64);
    for (int i = 0; i < 64; ++i) {
      small.push_back(device.allocate(kMiB / 4));
    }
    EXPECT_EQ(small[0], large[0]);
    for (void* ptr : small) {
      device.free(ptr);
    }
    device.pool.emptyCache();
  }
  EXPECT_EQ(device.pool.stats().allocation[0].freed, 3 * 72);
}

TEST(XPUCachingAllocatorCoreTest, StreamMap) {
  struct Entry {
    explicit Entry(int64_t id) : tag{id, 0} {}
    const StreamTag& stream() const {
      return tag;
    }
    StreamTag tag;
  };
  StreamMap<Entry> map;
  EXPECT_EQ(map.find(0), nullptr);
  inThreads(4, [&](size_t) {
    for (int64_t id = -500; id < 500; ++id) {
      Entry& made =
          map.findOrMake(id, [&] { return std::make_unique<Entry>(id); });
      EXPECT_EQ(made.tag.id, id);
      EXPECT_EQ(map.find(id), &made);
    }
  });
  EXPECT_EQ(map.all().size(), 1000);
  EXPECT_EQ(map.find(1000), nullptr);
}

// ---- sizes ----

TEST(XPUCachingAllocatorCoreTest, PowersOfTwoCostWhatTheyAre) {
  for (size_t size = 2 * kMiB; size <= 1024 * kMiB; size *= 2) {
    Device device;
    device.allocate(size);
    EXPECT_EQ(device.reserved(), static_cast<int64_t>(size));
    EXPECT_EQ(
        device.pool.stats().allocated_bytes[2].current,
        static_cast<int64_t>(size));
  }
  for (size_t size = 512; size <= kMiB; size *= 2) {
    Device device;
    for (size_t sum = 0; sum < 8 * kMiB; sum += size) {
      device.allocate(size);
    }
    EXPECT_EQ(device.reserved(), static_cast<int64_t>(8 * kMiB));
  }
}

TEST(XPUCachingAllocatorCoreTest, ReservesLittleMoreThanIsAsked) {
  Device device;
  device.backend.total_memory = device.backend.capacity = size_t{1} << 40;
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(
      std::log(256.), std::log(static_cast<double>(64 * kMiB)));
  std::vector<std::pair<void*, size_t>> live;
  size_t asked = 0;
  size_t peak = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() == 1000) {
      std::swap(live[random() % live.size()], live.back());
      device.free(live.back().first);
      asked -= live.back().second;
      live.pop_back();
    }
    const auto size = static_cast<size_t>(std::exp(exponent(random)));
    live.emplace_back(device.allocate(size), size);
    asked += size;
    peak = std::max(peak, asked);
  }
  const DeviceStats stats = device.pool.stats();
  EXPECT_LE(
      static_cast<double>(stats.reserved_bytes[0].peak),
      1.15 * static_cast<double>(peak));
}

TEST(XPUCachingAllocatorCoreTest, RepeatedRequestsAskTheRuntimeOnce) {
  Device device;
  std::mt19937_64 random(3);
  std::vector<size_t> sizes(100);
  for (size_t& size : sizes) {
    size = 1 + random() % (40 * kMiB);
  }
  std::vector<int64_t> segments;
  for (int round = 0; round < 5; ++round) {
    std::vector<void*> live;
    live.reserve(sizes.size());
    for (const size_t size : sizes) {
      live.push_back(device.allocate(size));
    }
    for (void* ptr : live) {
      device.free(ptr);
    }
    segments.push_back(device.pool.stats().segment[0].allocated);
  }
  EXPECT_EQ(segments[1], segments[4]);
}

TEST(XPUCachingAllocatorCoreTest, AbsurdSizesAreOutOfMemory) {
  Device device;
  for (const size_t size :
       {~size_t{0}, ~size_t{0} - 511, size_t{1} << 60, kMaxBlockSize}) {
    EXPECT_THROW(device.allocate(size), c10::OutOfMemoryError) << size;
  }
  EXPECT_EQ(device.pool.stats().num_ooms, 4);
  EXPECT_EQ(device.reserved(), 0);
}

// ---- cross-stream use, errors of the runtime ----

TEST(XPUCachingAllocatorCoreTest, IdleStreamsGetNoBarrier) {
  Device device;
  void* ptr = device.allocate(3 * kMiB);
  device.recordStream(ptr, 5);
  device.free(ptr);
  EXPECT_EQ(device.allocate(3 * kMiB), ptr);
  EXPECT_EQ(device.backend.barriers(), 0);
}

TEST(XPUCachingAllocatorCoreTest, BusyStreamsHoldBlocksBack) {
  Device device;
  void* ptr = device.allocate(3 * kMiB);
  device.recordStream(ptr, 5);
  device.recordStream(ptr, 5);
  device.recordStream(ptr, 6);
  device.recordStream(ptr, 0); // its own
  for (const int64_t stream : {0, 5, 6}) {
    device.backend.enqueue({stream, 0});
  }
  device.free(ptr);
  EXPECT_THROW(device.free(ptr), c10::Error);
  EXPECT_THROW(device.recordStream(ptr, 5), c10::Error);
  const DeviceStats stats = device.pool.stats();
  EXPECT_EQ(stats.allocation[0].current, 0);
  EXPECT_EQ(stats.active[0].current, 1);
  EXPECT_NE(device.allocate(3 * kMiB), ptr);
  EXPECT_EQ(device.backend.barriers(), 2);
  device.backend.finish({5, 0}, 2);
  EXPECT_NE(device.allocate(3 * kMiB), ptr);
  device.backend.finish({6, 0}, 2);
  EXPECT_EQ(device.allocate(3 * kMiB), ptr);
}

TEST(XPUCachingAllocatorCoreTest, BlocksOfTheSameStreamsShareAFence) {
  Device device;
  device.backend.enqueue({5, 0});
  device.backend.enqueue({6, 0});
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(device.allocate(512));
    device.recordStream(blocks.back(), i == 3 ? 6 : 5);
  }
  for (void* ptr : blocks) {
    EXPECT_EQ(device.backend.barriers(), 0);
    device.free(ptr);
  }
  EXPECT_EQ(device.backend.barriers(), 2);
  EXPECT_EQ(device.pool.stats().active[0].current, 8);
  device.backend.finish({5, 0}, 2);
  device.backend.notice();
  device.allocate(512);
  EXPECT_EQ(device.pool.stats().active[0].current, 2); // that, and one held
}

TEST(XPUCachingAllocatorCoreTest, MuchMemoryDoesNotWaitForAFence) {
  Device device;
  device.backend.enqueue({5, 0});
  void* ptr = device.allocate(16 * kMiB);
  device.recordStream(ptr, 5);
  device.free(ptr);
  EXPECT_EQ(device.backend.barriers(), 1);
}

TEST(XPUCachingAllocatorCoreTest, StreamsThatMayGoAreFencedAtOnce) {
  Device device;
  const int64_t stream = FakeBackend::kExternalStream;
  device.backend.enqueue({stream, 0});
  void* ptr = device.allocate(512);
  device.recordStream(ptr, stream);
  device.free(ptr);
  EXPECT_EQ(device.backend.barriers(), 1);
}

TEST(XPUCachingAllocatorCoreTest, HeldBlocksComeBackInTime) {
  Device device;
  const auto hold = [&] {
    void* ptr = device.allocate(512);
    device.recordStream(ptr, 5);
    device.backend.enqueue({5, 0});
    device.free(ptr);
    return ptr;
  };
  // The program waits for its work, and asks for memory of that size.
  void* ptr = hold();
  device.backend.finish({5, 0}, 1);
  device.backend.notice();
  EXPECT_EQ(device.allocate(512), ptr);
  device.free(ptr);
  // It does not wait.
  EXPECT_EQ(hold(), ptr);
  device.backend.finish({5, 0}, 1);
  std::vector<void*> later;
  later.reserve(16);
  for (int i = 0; i < 16; ++i) {
    later.push_back(device.allocate(512));
  }
  EXPECT_EQ(std::count(later.begin(), later.end(), ptr), 1);
}

TEST(XPUCachingAllocatorCoreTest, EmptyCacheWaitsForHeldBlocks) {
  Device device;
  void* ptr = device.allocate(512);
  device.recordStream(ptr, 5);
  device.backend.enqueue({5, 0});
  device.free(ptr);
  device.pool.emptyCache();
  EXPECT_TRUE(device.snapshot().empty());
  EXPECT_TRUE(device.backend.segments().empty());
}

TEST(XPUCachingAllocatorCoreTest, FencesThatFailAreTriedAgain) {
  for (const auto fault :
       {FakeBackend::Fault::Idle, FakeBackend::Fault::Record}) {
    Device device;
    void* ptr = device.allocate(20 * kMiB);
    device.recordStream(ptr, 5);
    device.recordStream(ptr, 6);
    device.backend.enqueue({5, 0});
    device.backend.enqueue({6, 0});
    const auto fail = [&] {
      device.backend.inject(fault, /*after=*/1); // that of the second stream
    };
    fail();
    device.free(ptr); // is done all the same
    EXPECT_FALSE(device.backend.clearFault());
    EXPECT_THROW(device.free(ptr), c10::Error);
    EXPECT_EQ(device.pool.stats().allocation[0].current, 0);
    EXPECT_EQ(device.pool.stats().active[0].current, 1);
    fail();
    EXPECT_THROW(device.allocate(20 * kMiB), c10::Error);
    fail();
    EXPECT_THROW(device.pool.emptyCache(), c10::Error);
    EXPECT_EQ(device.pool.stats().active[0].current, 1);
    device.pool.emptyCache();
    EXPECT_TRUE(device.snapshot().empty());
  }
}

TEST(XPUCachingAllocatorCoreTest, FailedReleaseKeepsTheSegment) {
  Device device;
  device.free(device.allocate(8 * kMiB));
  device.backend.inject(FakeBackend::Fault::Deallocate);
  EXPECT_THROW(device.pool.emptyCache(), c10::Error);
  EXPECT_EQ(device.reserved(), static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(device.snapshot().size(), 1);
  device.pool.emptyCache();
  EXPECT_EQ(device.reserved(), 0);
  EXPECT_TRUE(device.backend.segments().empty());
}

TEST(XPUCachingAllocatorCoreTest, FailedAllocationChangesNothing) {
  Device device;
  device.backend.inject(FakeBackend::Fault::Allocate);
  const std::string error = errorOf([&] { device.allocate(512); });
  EXPECT_NE(error.find("injected"), std::string::npos);
  EXPECT_EQ(device.reserved(), 0);
  EXPECT_EQ(device.pool.stats().num_ooms, 0);
  EXPECT_NE(device.allocate(512), nullptr);
}

TEST(XPUCachingAllocatorCoreTest, OutOfMemoryTakesFromOtherStreams) {
  Device device;
  device.backend.capacity = 64 * kMiB;
  device.free(device.allocate(40 * kMiB, 1)); // cached for stream 1
  void* held = device.allocate(8 * kMiB, 2);
  device.recordStream(held, 3);
  device.backend.enqueue({3, 0});
  device.free(held);
  void* ptr = device.allocate(60 * kMiB, 0);
  EXPECT_NE(ptr, nullptr);
  EXPECT_EQ(device.pool.stats().num_alloc_retries, 1);
  EXPECT_EQ(device.pool.stats().num_ooms, 0);
  const std::string error = errorOf([&] { device.allocate(8 * kMiB, 0); });
  EXPECT_CONTAINS(error, "Tried to allocate 8.00 MiB");
  EXPECT_NE(error.find("60.00 MiB already allocated"), std::string::npos);
  EXPECT_NE(error.find("no limit set"), std::string::npos);
  EXPECT_NE(error.find("60.00 MiB reserved"), std::string::npos);
  device.free(ptr);
  EXPECT_NE(device.allocate(8 * kMiB, 0), nullptr);
}

TEST(XPUCachingAllocatorCoreTest, OversizeBlocksAreReleasedFirst) {
  Device device("max_split_size_mb:30");
  device.backend.capacity = 160 * kMiB;
  void* a = device.allocate(40 * kMiB);
  void* b = device.allocate(50 * kMiB);
  void* small = device.allocate(60 * kMiB);
  const DeviceStats before = device.pool.stats();
  EXPECT_EQ(before.oversize_allocations.current, 3);
  EXPECT_EQ(before.oversize_segments.current, 3);
  EXPECT_EQ(before.max_split_size, static_cast<int64_t>(30 * kMiB));
  device.free(a);
  device.free(b);
  device.free(small);
  // 20 MiB or less may be wasted on a request of that kind, nothing on others.
  void* reused = device.allocate(35 * kMiB);
  EXPECT_EQ(reused, a);
  EXPECT_EQ(
      device.pool.stats().allocated_bytes[0].current,
      static_cast<int64_t>(40 * kMiB));
  void* split = device.allocate(10 * kMiB);
  EXPECT_NE(split, b);
  EXPECT_NE(split, small);
}

TEST(XPUCachingAllocatorCoreTest, GarbageIsCollectedOldestFirst) {
  Device device("garbage_collection_threshold:0.5");
  device.backend.total_memory = device.backend.capacity = 100 * kMiB;
  void* old_block = device.allocate(20 * kMiB);
  void* young_block = device.allocate(18 * kMiB);
  void* live = device.allocate(16 * kMiB);
  device.free(old_block);
  device.allocate(3 * kMiB, 9); // time passes
  device.free(young_block);
  // 57 of 100 MiB are reserved: down to 50 before more is asked for.
  device.allocate(24 * kMiB);
  std::vector<int64_t> sizes;
  for (const SegmentInfo& segment : device.snapshot()) {
    sizes.push_back(segment.total_size / static_cast<int64_t>(kMiB));
  }
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, (std::vector<int64_t>{3, 16, 18, 24}));
  EXPECT_NE(live, nullptr);
}

// ---- statistics ----

TEST(XPUCachingAllocatorCoreTest, PeaksAreExactOverThreads) {
  constexpr size_t kThreads = 4;
  Device device;
  Meeting meeting(kThreads);
  for (const size_t blocks : {1, 2, 3, 40}) {
    device.pool.resetPeakStats();
    inThreads(kThreads, [&](size_t thread) {
      for (int round = 0; round < 50; ++round) {
        std::vector<void*> live;
        live.reserve(blocks);
        for (size_t i = 0; i < blocks; ++i) {
          live.push_back(device.allocate(512, static_cast<int64_t>(thread)));
        }
        meeting.wait(); // now all of them have all of theirs
        for (void* ptr : live) {
          device.free(ptr);
        }
        meeting.wait();
      }
    });
    const DeviceStats stats = device.pool.stats();
    const auto peak = static_cast<int64_t>(kThreads * blocks);
    EXPECT_EQ(stats.allocation[0].peak, peak);
    EXPECT_EQ(stats.allocated_bytes[1].peak, 512 * peak);
    EXPECT_EQ(stats.active[1].peak, peak);
    EXPECT_EQ(stats.allocation[0].current, 0);
  }
}

// ---- threads ----

namespace {

// Threads allocate on their own and on shared streams, free what others have
// allocated, record streams, and every now and then somebody empties the cache,
// reads everything or shrinks the limit. In the end nothing may remain.
void stress(size_t threads, bool shared_streams, const char* config) {
  Device device(config);
  device.backend.total_memory = 256 * kMiB;
  device.backend.capacity = 200 * kMiB;
  std::mutex mutex;
  std::vector<void*> live;
  std::atomic<int64_t> allocations{0};
  inThreads(threads, [&](size_t thread) {
    std::mt19937_64 random(thread);
    for (int i = 0; i < 1500; ++i) {
      const auto stream =
          static_cast<int64_t>(shared_streams ? random() % 3 : thread);
      const size_t size = size_t{1}
          << (random() % (random() % 8 == 0 ? 25 : 15));
      try {
        void* ptr = device.allocate(size, stream);
        ++allocations;
        if (random() % 4 == 0) {
          device.recordStream(ptr, static_cast<int64_t>(random() % 5));
          device.backend.enqueue({static_cast<int64_t>(random() % 5), 0});
        }
        const std::lock_guard<std::mutex> guard(mutex);
        live.push_back(ptr);
      } catch (const c10::OutOfMemoryError&) { // NOLINT(bugprone-empty-catch)
        // the others have it all
      }
      device.backend.finish({static_cast<int64_t>(random() % 5), 0}, 2);
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
          device.pool.emptyCache();
          break;
        case 1:
          EXPECT_GE(device.pool.stats().active[0].current, 0);
          break;
        case 2:
          device.snapshot();
          break;
        case 3:
          device.pool.resetPeakStats();
          break;
        case 4: {
          size_t total = 0;
          size_t largest = 0;
          device.pool.cacheInfo(total, largest);
          EXPECT_GE(total, largest);
          break;
        }
        case 5:
          device.pool.setMemoryFraction(random() % 2 == 0 ? 0.5 : 1);
          break;
        default:
          break;
      }
    }
  });
  for (void* ptr : live) {
    device.free(ptr);
  }
  device.pool.emptyCache();
  const DeviceStats stats = device.pool.stats();
  EXPECT_EQ(stats.allocation[0].allocated, allocations);
  EXPECT_EQ(stats.allocation[0].freed, allocations);
  for (const auto* array :
       {&stats.allocation,
        &stats.segment,
        &stats.active,
        &stats.inactive_split,
        &stats.allocated_bytes,
        &stats.reserved_bytes,
        &stats.active_bytes,
        &stats.inactive_split_bytes}) {
    for (const auto& stat : *array) {
      EXPECT_EQ(stat.current, 0);
      EXPECT_EQ(stat.allocated, stat.freed);
      EXPECT_GE(stat.peak, 0);
    }
  }
  EXPECT_TRUE(device.snapshot().empty());
  EXPECT_TRUE(device.backend.segments().empty());
}

} // namespace

TEST(XPUCachingAllocatorCoreTest, StressOwnStreams) {
  for (const size_t threads : {2, 8}) {
    stress(threads, /*shared_streams=*/false, "");
  }
}

TEST(XPUCachingAllocatorCoreTest, StressSharedStreams) {
  for (const size_t threads : {2, 8}) {
    stress(threads, /*shared_streams=*/true, "");
  }
}

TEST(XPUCachingAllocatorCoreTest, StressAllOptions) {
  stress(
      4,
      /*shared_streams=*/true,
      "max_split_size_mb:21,garbage_collection_threshold:0.4,"
      "roundup_power2_divisions:2");
}
