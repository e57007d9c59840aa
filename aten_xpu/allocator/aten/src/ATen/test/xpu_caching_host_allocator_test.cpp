#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUStreamTestUtil.h>

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/PinnedMemoryAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/handler.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace at::xpu;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::xpu::device_count;
using c10::xpu::getStreamFromPool;
using c10::xpu::XPUStream;
using namespace c10::xpu::test;

namespace {

constexpr size_t kMiB = size_t(1) << 20;

bool isPinned(const void* ptr) {
  return at::detail::getXPUHooks().isPinnedPtr(ptr);
}

bool recordOn(const DataPtr& data, XPUStream stream) {
  return CachingHostAllocator_recordEvent(
      data.get(), data.get_context(), stream);
}

// Nothing cached, nothing waiting and nothing in use, before and after.
class XPUCachingHostAllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    expectEmpty();
  }

  void TearDown() override {
    expectEmpty();
  }

 private:
  static void expectEmpty() {
    CachingHostAllocator_emptyCache();
    const auto stats = CachingHostAllocator_getStats();
    EXPECT_EQ(stats.reserved_bytes, 0);
    EXPECT_EQ(stats.cached_bytes, 0);
    EXPECT_EQ(stats.waiting_bytes, 0);
    EXPECT_EQ(stats.num_host_alloc, stats.num_host_free);
  }
};

} // namespace

TEST_F(XPUCachingHostAllocatorTest, ZeroSize) {
  const DataPtr data = HostAlloc(0);
  EXPECT_EQ(data.get(), nullptr);
  EXPECT_EQ(data.get_context(), nullptr);
  EXPECT_TRUE(data.device().is_cpu());
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 0);
}

TEST_F(XPUCachingHostAllocatorTest, NoDeviceRaises) {
  if (device_count() != 0) {
    GTEST_SKIP() << "there are devices";
  }
  EXPECT_THROW(HostAlloc(16), c10::Error);
  int on_the_stack = 0;
  EXPECT_FALSE(isPinned(&on_the_stack));
}

TEST_F(XPUCachingHostAllocatorTest, OneAllocatorUnderAllNames) {
  EXPECT_EQ(getPinnedMemoryAllocator(), getCachingHostAllocator());
  EXPECT_EQ(
      at::detail::getXPUHooks().getPinnedMemoryAllocator(),
      getCachingHostAllocator());
  EXPECT_EQ(getCachingHostAllocator()->raw_deleter(), nullptr);
}

TEST_F(XPUCachingHostAllocatorTest, MemoryIsUsable) {
  C10_XPU_NEEDS_DEVICES(1);
  for (size_t size : {size_t(1), size_t(511), size_t(513), 3 * kMiB + 1}) {
    const DataPtr data = HostAlloc(size);
    ASSERT_NE(data.get(), nullptr);
    EXPECT_TRUE(data.device().is_cpu());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data.get()) % 64, 0);
    std::memset(data.get(), 0x5a, size);
    EXPECT_EQ(static_cast<char*>(data.get())[size - 1], 0x5a);
  }
}

TEST_F(XPUCachingHostAllocatorTest, RoundingWastesAtMostAQuarter) {
  C10_XPU_NEEDS_DEVICES(1);
  size_t previous = 0;
  for (size_t size = 1; size < 100000; size = size * 9 / 8 + 1) {
    const DataPtr data = HostAlloc(size);
    const size_t got = CachingHostAllocator_getStats().in_use_bytes();
    EXPECT_GE(got, size);
    EXPECT_LE(got, std::max(size_t(512), size + size / 4));
    EXPECT_GE(got, previous);
    previous = got;
    CachingHostAllocator_emptyCache();
  }
  for (size_t size = 512; size <= 4 * kMiB; size *= 2) {
    const DataPtr data = HostAlloc(size);
    EXPECT_EQ(CachingHostAllocator_getStats().in_use_bytes(), size)
        << "a power of two needs no rounding";
    CachingHostAllocator_emptyCache();
  }
}

TEST_F(XPUCachingHostAllocatorTest, FreedBlocksAreReused) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(kMiB);
  void* const address = data.get();
  const auto allocations = CachingHostAllocator_getStats().num_host_alloc;
  data.clear();
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, kMiB);
  data = HostAlloc(kMiB - 5);
  EXPECT_EQ(data.get(), address);
  data.clear();
  // A block of less than twice the size serves as well, a larger one does not.
  data = HostAlloc(kMiB / 2 + kMiB / 8 + 1);
  EXPECT_EQ(data.get(), address);
  data.clear();
  data = HostAlloc(kMiB / 2);
  EXPECT_NE(data.get(), address);
  EXPECT_EQ(CachingHostAllocator_getStats().num_host_alloc, allocations + 1);
}

TEST_F(XPUCachingHostAllocatorTest, LiveBlocksDoNotOverlap) {
  C10_XPU_NEEDS_DEVICES(1);
  std::vector<std::pair<DataPtr, size_t>> blocks;
  std::mt19937 random(1);
  for (const auto i : c10::irange(200)) {
    const size_t size = 1 + random() % 5000;
    blocks.emplace_back(HostAlloc(size), size);
    std::memset(blocks.back().first.get(), i, size);
  }
  for (const auto i : c10::irange(200)) {
    const auto* bytes = static_cast<uint8_t*>(blocks[i].first.get());
    for (const auto j : c10::irange(blocks[i].second)) {
      ASSERT_EQ(bytes[j], static_cast<uint8_t>(i));
    }
  }
}

TEST_F(XPUCachingHostAllocatorTest, IsPinned) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(1000);
  auto* bytes = static_cast<char*>(data.get());
  EXPECT_TRUE(isPinned(bytes));
  EXPECT_TRUE(isPinned(bytes + 999));

  int on_the_stack = 0;
  const std::vector<char> on_the_heap(1000);
  EXPECT_FALSE(isPinned(nullptr));
  EXPECT_FALSE(isPinned(&on_the_stack));
  EXPECT_FALSE(isPinned(on_the_heap.data()));

  auto& context = c10::xpu::get_device_context();
  auto* foreign = static_cast<char*>(sycl::malloc_host(1000, context));
  auto* device = static_cast<char*>(
      sycl::malloc_device(1000, c10::xpu::get_raw_device(0), context));
  EXPECT_TRUE(isPinned(foreign));
  EXPECT_TRUE(isPinned(foreign + 999));
  EXPECT_FALSE(isPinned(device));
  sycl::free(foreign, context);
  sycl::free(device, context);
}

// The point of it all: an asynchronous copy reads the block after its owner has
// freed it, and the next owner must not write into what is being read.
TEST_F(XPUCachingHostAllocatorTest, BlockOfARunningCopyIsNotHandedOut) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto i : c10::irange(device_count())) {
    const auto index = static_cast<DeviceIndex>(i);
    const XPUStream stream = getStreamFromPool(false, index);
    auto& context = c10::xpu::get_device_context();
    auto* device =
        sycl::malloc_device(kMiB, c10::xpu::get_raw_device(index), context);

    Gate held(stream);
    DataPtr data = HostAlloc(kMiB);
    void* const address = data.get();
    std::memset(address, 'a', kMiB);
    stream.queue().memcpy(device, address, kMiB);
    ASSERT_TRUE(recordOn(data, stream));
    data.clear();
    EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, kMiB);

    DataPtr meanwhile = HostAlloc(kMiB);
    EXPECT_NE(meanwhile.get(), address);
    std::memset(meanwhile.get(), 'b', kMiB);

    held.finish();
    DataPtr afterwards = HostAlloc(kMiB);
    EXPECT_EQ(afterwards.get(), address);
    EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 0);

    std::vector<char> copied(kMiB);
    stream.queue().memcpy(copied.data(), device, kMiB).wait();
    EXPECT_EQ(copied, std::vector<char>(kMiB, 'a'));
    sycl::free(device, context);
  }
}

TEST_F(XPUCachingHostAllocatorTest, EveryStreamIsWaitedFor) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream idle = getStreamFromPool(false, 0);
  const XPUStream busy = getStreamFromPool(false, last);
  ASSERT_NE(idle, busy);
  for (bool idle_is_first : {true, false}) {
    Gate held(busy);
    DataPtr data = HostAlloc(4096);
    void* const address = data.get();
    EXPECT_TRUE(recordOn(data, idle_is_first ? idle : busy));
    EXPECT_TRUE(recordOn(data, idle_is_first ? busy : idle));
    idle.synchronize();
    data.clear();
    DataPtr other = HostAlloc(4096);
    EXPECT_NE(other.get(), address);
    held.finish();
    data = HostAlloc(4096);
    EXPECT_EQ(data.get(), address);
    data.clear();
    other.clear();
    CachingHostAllocator_emptyCache();
  }
}

// A buffer that is copied from for the whole run of a program is never freed:
// what is kept for it must not grow.
TEST_F(XPUCachingHostAllocatorTest, OneEventPerStreamIsKept) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  DataPtr data = HostAlloc(4096);
  for (const auto i : c10::irange(20)) {
    (void)i;
    EXPECT_TRUE(recordOn(data, stream));
  }
  stream.synchronize();
  void* const address = data.get();
  data.clear();
  static std::atomic<int> queries;
  queries = 0;
  c10::xpu::test::sycl_hook = [](const char* call) {
    queries += contains(call, "get_info");
  };
  data = HostAlloc(4096);
  c10::xpu::test::sycl_hook = nullptr;
  EXPECT_EQ(data.get(), address);
  EXPECT_EQ(queries, 1);
}

TEST_F(XPUCachingHostAllocatorTest, TheLastRecordOfAStreamCounts) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  EXPECT_TRUE(recordOn(data, stream));
  stream.synchronize();
  Gate held(stream);
  EXPECT_TRUE(recordOn(data, stream));
  data.clear();
  DataPtr other = HostAlloc(4096);
  EXPECT_NE(other.get(), address);
  held.finish();
  data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
}

TEST_F(XPUCachingHostAllocatorTest, OlderBlocksOfABusyStreamAreFound) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  DataPtr early = HostAlloc(4096);
  DataPtr late = HostAlloc(4096);
  void* const address = early.get();
  EXPECT_TRUE(recordOn(early, stream));
  stream.synchronize();
  Gate held(stream);
  EXPECT_TRUE(recordOn(late, stream));
  // The busy block is freed first and is looked at first.
  late.clear();
  early.clear();
  DataPtr data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
}

TEST_F(XPUCachingHostAllocatorTest, RecordFindsTheBlock) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  DataPtr data = HostAlloc(4096);
  auto* bytes = static_cast<char*>(data.get());
  void* const context = data.get_context();
  char elsewhere = 0;
  EXPECT_TRUE(CachingHostAllocator_recordEvent(bytes, context, stream));
  // By the context alone, or by an address inside the block alone.
  EXPECT_TRUE(CachingHostAllocator_recordEvent(&elsewhere, context, stream));
  EXPECT_TRUE(CachingHostAllocator_recordEvent(bytes, nullptr, stream));
  EXPECT_TRUE(CachingHostAllocator_recordEvent(bytes + 4095, bytes, stream));
  EXPECT_FALSE(CachingHostAllocator_recordEvent(&elsewhere, nullptr, stream));
  EXPECT_FALSE(
      CachingHostAllocator_recordEvent(&elsewhere, &elsewhere, stream));
  EXPECT_FALSE(CachingHostAllocator_recordEvent(nullptr, nullptr, stream));
  data.clear();
  EXPECT_FALSE(CachingHostAllocator_recordEvent(bytes, context, stream))
      << "the block is free";
  stream.synchronize();
  CachingHostAllocator_emptyCache();
  EXPECT_FALSE(CachingHostAllocator_recordEvent(bytes, context, stream))
      << "the block is gone";
}

TEST_F(XPUCachingHostAllocatorTest, SecondFreeIsIgnored) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(4096);
  const auto deleter = data.get_deleter();
  void* const context = data.release_context();
  deleter(context);
  deleter(context);
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, 4096);
  const DataPtr first = HostAlloc(4096);
  const DataPtr second = HostAlloc(4096);
  EXPECT_NE(first.get(), second.get());
}

TEST_F(XPUCachingHostAllocatorTest, EmptyCacheKeepsWaitingBlocks) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  DataPtr in_use = HostAlloc(kMiB);
  DataPtr waiting = HostAlloc(2 * kMiB);
  DataPtr cached = HostAlloc(4 * kMiB);
  EXPECT_TRUE(recordOn(waiting, stream));
  void* const address = waiting.get();
  waiting.clear();
  cached.clear();
  // Does not wait for the stream: it is held.
  CachingHostAllocator_emptyCache();
  auto stats = CachingHostAllocator_getStats();
  EXPECT_EQ(stats.in_use_bytes(), kMiB);
  EXPECT_EQ(stats.waiting_bytes, 2 * kMiB);
  EXPECT_EQ(stats.cached_bytes, 0);
  EXPECT_TRUE(isPinned(address));
  held.finish();
  CachingHostAllocator_emptyCache();
  stats = CachingHostAllocator_getStats();
  EXPECT_EQ(stats.reserved_bytes, kMiB);
  EXPECT_EQ(stats.waiting_bytes, 0);
  EXPECT_FALSE(isPinned(address));
}

TEST_F(XPUCachingHostAllocatorTest, ImpossibleSizesRaiseOutOfMemory) {
  C10_XPU_NEEDS_DEVICES(1);
  {
    DataPtr cached = HostAlloc(kMiB);
  }
  for (size_t size : {size_t(1) << 50, ~size_t(0)}) {
    try {
      HostAlloc(size);
      ADD_FAILURE() << "got " << size << " bytes";
    } catch (const c10::OutOfMemoryError& e) {
      EXPECT_TRUE(contains(e.what(), std::to_string(size))) << e.what();
    }
    // The cache was given up for it, where asking the system had a sense.
    EXPECT_EQ(
        CachingHostAllocator_getStats().reserved_bytes,
        size == ~size_t(0) ? kMiB : 0);
    {
      DataPtr cached = HostAlloc(kMiB);
    }
  }
}

TEST_F(XPUCachingHostAllocatorTest, CacheIsFreedForALargerRequest) {
  C10_XPU_NEEDS_DEVICES(1);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's address space cannot be limited";
#else
  constexpr size_t kLarge = 1024 * kMiB;
  // For once and all: what the runtime sets up at the first allocation.
  {
    DataPtr warm_up = HostAlloc(kLarge / 2);
  }
  CachingHostAllocator_emptyCache();

  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  ASSERT_GT(pages, 0);
  {
    DataPtr cached = HostAlloc(kLarge / 2);
  }
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old_limit), 0);
  rlimit limit = old_limit;
  // Room for the large block or for the cached one, not for both.
  limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + kLarge + kLarge / 4;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  DataPtr data;
  std::string error;
  try {
    data = HostAlloc(kLarge);
  } catch (const c10::Error& e) {
    error = e.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old_limit), 0);
  EXPECT_EQ(error, "");
  EXPECT_NE(data.get(), nullptr);
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, kLarge)
      << "the cached block should have been freed";
#endif
}

TEST_F(XPUCachingHostAllocatorTest, FailedSystemAllocation) {
  C10_XPU_NEEDS_DEVICES(1);
  {
    DataPtr cached = HostAlloc(kMiB);
  }
  {
    // One failure: the cache is freed and the second attempt succeeds.
    Fault fault("alloc_host", 0, 1);
    DataPtr data = HostAlloc(8 * kMiB);
    EXPECT_NE(data.get(), nullptr);
    EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 8 * kMiB);
  }
  {
    Fault fault("alloc_host");
    EXPECT_THROW(HostAlloc(16 * kMiB), c10::Error);
  }
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 0);
  DataPtr data = HostAlloc(16 * kMiB);
  EXPECT_NE(data.get(), nullptr);
}

TEST_F(XPUCachingHostAllocatorTest, FailedSystemFree) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr first = HostAlloc(kMiB);
  DataPtr second = HostAlloc(kMiB);
  first.clear();
  second.clear();
  {
    // One block goes, the other one stays in the cache.
    Fault fault("sycl::free", 0, 1);
    EXPECT_THROW(CachingHostAllocator_emptyCache(), c10::Error);
  }
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, kMiB);
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, kMiB);
  DataPtr data = HostAlloc(kMiB);
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, kMiB);
  EXPECT_TRUE(isPinned(data.get()));
  const XPUStream stream = getStreamFromPool(false, 0);
  EXPECT_TRUE(CachingHostAllocator_recordEvent(data.get(), nullptr, stream));
  stream.synchronize();
}

TEST_F(XPUCachingHostAllocatorTest, FailedRecordStillProtectsTheBlock) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  {
    Fault fault("submit_barrier");
    EXPECT_THROW(recordOn(data, stream), c10::Error);
    data.clear();
    // The barrier is tried again and fails again: the error is reported and the
    // block stays where it is.
    EXPECT_THROW(HostAlloc(4096), c10::Error);
  }
  EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 4096);
  DataPtr other = HostAlloc(4096);
  EXPECT_NE(other.get(), address);
  held.finish();
  data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
}

TEST_F(XPUCachingHostAllocatorTest, FailedQueryKeepsTheBlocksWaiting) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  std::vector<DataPtr> blocks;
  for (const auto i : c10::irange(3)) {
    (void)i;
    blocks.push_back(HostAlloc(4096));
    EXPECT_TRUE(recordOn(blocks.back(), stream));
  }
  stream.synchronize();
  blocks.clear();
  {
    Fault fault("get_info");
    EXPECT_THROW(HostAlloc(4096), c10::Error);
    EXPECT_THROW(CachingHostAllocator_emptyCache(), c10::Error);
  }
  EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 3 * 4096);
  const DataPtr data = HostAlloc(4096);
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 3 * 4096);
}

// Each thread owns what it was given: a byte that another thread wrote means
// that a block was handed out twice.
TEST_F(XPUCachingHostAllocatorTest, ManyThreads) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 300;
  constexpr size_t kLive = 8;
  std::atomic<size_t> damaged{0};
  inThreads(kThreads, [&damaged](size_t t) {
    const auto index = static_cast<DeviceIndex>(t % device_count());
    const XPUStream stream = getStreamFromPool(false, index);
    const auto mark = static_cast<char>('a' + t);
    std::mt19937 random(t);
    std::vector<std::pair<DataPtr, size_t>> live(kLive);
    for (const auto i : c10::irange(kRounds)) {
      auto& slot = live[random() % kLive];
      const auto* bytes = static_cast<char*>(slot.first.get());
      if (bytes && (bytes[0] != mark || bytes[slot.second - 1] != mark)) {
        ++damaged;
      }
      slot.second = 1 + random() % 20000;
      slot.first.clear();
      slot.first = HostAlloc(slot.second);
      std::memset(slot.first.get(), mark, slot.second);
      if (random() % 2) {
        recordOn(slot.first, stream);
      }
      if (i % 100 == 99) {
        CachingHostAllocator_emptyCache();
      }
      isPinned(slot.first.get());
      CachingHostAllocator_getStats();
    }
    stream.synchronize();
  });
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(CachingHostAllocator_getStats().in_use_bytes(), 0);
}

// Two threads that record the same block: neither's use may be lost.
TEST_F(XPUCachingHostAllocatorTest, ConcurrentRecordsOfOneBlock) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool(false, 0);
  const XPUStream second = getStreamFromPool(false, 0);
  ASSERT_NE(first, second);
  Gate first_held(first);
  Gate second_held(second);
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  std::thread other([&] {
    for (const auto i : c10::irange(50)) {
      (void)i;
      recordOn(data, first);
    }
  });
  for (const auto i : c10::irange(50)) {
    (void)i;
    recordOn(data, second);
  }
  other.join();
  data.clear();
  DataPtr meanwhile = HostAlloc(4096);
  EXPECT_NE(meanwhile.get(), address);
  first_held.finish();
  DataPtr later = HostAlloc(4096);
  EXPECT_NE(later.get(), address);
  second_held.finish();
  data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
}

TEST_F(
    XPUCachingHostAllocatorTest,
    InitializingXPUMakesTheDeviceAllocatorReady) {
  C10_XPU_NEEDS_DEVICES(1);
  at::globalContext().lazyInitXPU();
  const DataPtr data = c10::GetAllocator(c10::kXPU)->allocate(1000);
  ASSERT_NE(data.get(), nullptr);
  EXPECT_EQ(data.device(), c10::Device(c10::kXPU, 0));
  EXPECT_EQ(
      at::globalContext().getDeviceFromPtr(data.get(), c10::kXPU),
      c10::Device(c10::kXPU, 0));
}
