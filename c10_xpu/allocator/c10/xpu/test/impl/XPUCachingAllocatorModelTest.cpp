// The core of the caching allocator, without SYCL, against a model.

#include <gtest/gtest.h>

#include <c10/xpu/impl/XPUMemoryPool.h>
#include <c10/xpu/test/impl/XPUAllocatorFakeBackend.h>
#include <c10/xpu/test/impl/XPUAllocatorModel.h>

using namespace c10::xpu::impl;
using namespace c10::xpu::impl::model;

namespace {

class CoreTarget {
 public:
  CoreTarget(size_t memory, const AllocatorConfig& config) : config_(config) {
    backend_.total_memory = memory;
    backend_.capacity = memory / 8 * 7; // less than the limit of fraction 1
    for (const auto device : c10::irange(kDevices)) {
      pools_.push_back(
          std::make_unique<MemoryPool<FakeBackend>>(
              backend_, table_, device, config));
    }
  }

  Traits traits() const {
    Traits traits;
    traits.devices = kDevices;
    traits.streams = {0, 7, -3};
    traits.max_size = backend_.total_memory / 8;
    traits.config = config_;
    traits.total_memory = backend_.total_memory;
    return traits;
  }

  void* allocate(int device, int64_t stream, size_t size) {
    return pools_[device]->allocate(size, stream)->ptr;
  }
  void free(void* ptr) {
    Block* block = find(ptr);
    ArenaType& arena = arenaOf(block);
    pools_[arena.stream().device]->freed(arena.free(block, ptr));
  }
  void recordStream(void* ptr, StreamTag stream) {
    Block* block = find(ptr);
    arenaOf(block).recordStream(block, ptr, stream);
  }
  void enqueue(StreamTag stream) {
    backend_.enqueue(stream);
  }
  void finish(StreamTag stream, uint64_t count) {
    backend_.finish(stream, count);
    if (count % 2 == 1) { // else the program does not know of it
      backend_.notice();
    }
  }
  bool busy(StreamTag stream) {
    return enqueued(stream) != finished(stream);
  }
  uint64_t enqueued(StreamTag stream) {
    return backend_.work(stream).first;
  }
  uint64_t finished(StreamTag stream) {
    return backend_.work(stream).second;
  }
  void emptyCache() {
    for (auto& pool : pools_) {
      pool->emptyCache();
    }
  }
  void setMemoryFraction(double fraction, int device) {
    pools_[device]->setMemoryFraction(fraction);
  }
  DeviceStats stats(int device) {
    return pools_[device]->stats();
  }
  void resetPeak(int device) {
    pools_[device]->resetPeakStats();
  }
  void resetAccumulated(int device) {
    pools_[device]->resetAccumulatedStats();
  }
  std::vector<SegmentInfo> snapshot() {
    std::vector<SegmentInfo> result;
    for (auto& pool : pools_) {
      pool->snapshot(result);
    }
    std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
      return a.address < b.address;
    });
    return result;
  }
  bool hasMemory(int device, size_t limit, size_t reserved, size_t wanted) {
    size_t used = 0;
    for (const auto& segment : backend_.segments()) {
      used += segment.second.first == device ? segment.second.second : 0;
    }
    wanted = (wanted + kLargeSegmentRound - 1) / kLargeSegmentRound *
        kLargeSegmentRound;
    return reserved + wanted <= limit && used + wanted <= backend_.capacity;
  }
  void inject(uint32_t which) {
    backend_.inject(static_cast<FakeBackend::Fault>(1 + which % 6));
  }
  bool clearFault() {
    return backend_.clearFault();
  }

  // The runtime's view is the same, and so is that of the bins.
  void verify(const std::vector<SegmentInfo>& snapshot) {
    const auto segments = backend_.segments();
    TORCH_CHECK(segments.size() == snapshot.size(), "segments are lost");
    std::vector<size_t> free(kDevices);
    std::vector<size_t> largest(kDevices);
    for (const SegmentInfo& segment : snapshot) {
      const auto it = segments.find(static_cast<uintptr_t>(segment.address));
      TORCH_CHECK(
          it != segments.end() && it->second.first == segment.device &&
              it->second.second == static_cast<size_t>(segment.total_size),
          "a segment that the runtime does not know");
      for (const auto device : c10::irange(kDevices)) {
        const auto last = static_cast<uintptr_t>(segment.address) +
            static_cast<uintptr_t>(segment.total_size) - 1;
        TORCH_CHECK(
            pools_[device]->owns(reinterpret_cast<void*>(last)) ==
            (device == segment.device));
      }
      for (const BlockInfo& block : segment.blocks) {
        if (!block.active) {
          const auto size = static_cast<size_t>(block.size);
          free[segment.device] += size;
          largest[segment.device] = std::max(largest[segment.device], size);
        }
      }
    }
    // This also sorts all free blocks into their bins. So that it hides
    // nothing, it is done now and then only.
    if (++verifications_ % 16 != 0) {
      return;
    }
    for (const auto device : c10::irange(kDevices)) {
      size_t total = 0;
      size_t top = 0;
      pools_[device]->cacheInfo(total, top);
      TORCH_CHECK(
          total == free[device] && top == largest[device],
          "free blocks and bins differ");
    }
  }

 private:
  using ArenaType = Arena<FakeBackend>;
  static constexpr int kDevices = 2;

  Block* find(void* ptr) {
    Block* block = table_.find(ptr);
    TORCH_CHECK(block != nullptr, "unknown pointer");
    return block;
  }
  static ArenaType& arenaOf(Block* block) {
    return static_cast<ArenaType&>(block->arena());
  }

  FakeBackend backend_;
  BlockTable table_;
  AllocatorConfig config_;
  uint64_t verifications_ = 0;
  std::vector<std::unique_ptr<MemoryPool<FakeBackend>>> pools_;
};

void expectModel(
    size_t memory,
    const char* config,
    uint64_t seed,
    size_t runs,
    size_t length) {
  const auto parsed = AllocatorConfig::parse(config);
  const auto error = runModel(
      [&] { return std::make_unique<CoreTarget>(memory, parsed); },
      seed,
      runs,
      length);
  EXPECT_FALSE(error.has_value()) << *error;
}

constexpr size_t kMiB = size_t{1} << 20;

} // namespace

TEST(XPUCachingAllocatorModelTest, AmpleMemory) {
  expectModel(16384 * kMiB, "", 1000, 6, 1200);
}

TEST(XPUCachingAllocatorModelTest, ScarceMemory) {
  expectModel(96 * kMiB, "", 2000, 12, 800);
}

TEST(XPUCachingAllocatorModelTest, OversizeBlocks) {
  expectModel(1024 * kMiB, "max_split_size_mb:21", 3000, 8, 800);
}

TEST(XPUCachingAllocatorModelTest, RoundedSizesAndGarbageCollection) {
  expectModel(
      512 * kMiB,
      "roundup_power2_divisions:4,garbage_collection_threshold:0.3",
      4000,
      8,
      800);
}

// The model finds faults: a run in which the allocator is given a wrong book
// must fail, and be shortened.
TEST(XPUCachingAllocatorModelTest, FindsAWrongStatistic) {
  struct Wrong : CoreTarget {
    using CoreTarget::CoreTarget;
    DeviceStats stats(int device) {
      DeviceStats stats = CoreTarget::stats(device);
      Stat& stat = stats.allocated_bytes[0];
      stat.peak -= stat.peak > int64_t{1} << 20;
      return stats;
    }
  };
  const auto error = runModel(
      [] { return std::make_unique<Wrong>(512 * kMiB, AllocatorConfig()); },
      1,
      1,
      200);
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->find("allocated_bytes[0].peak"), std::string::npos);
  const auto at = error->find("REPLAY='");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(fromString(error->substr(at + 8)).size(), 1);
}
