#include <ATen/test/xpu_interposed_calls.h>
#include <ATen/test/xpu_names.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/PinnedMemoryAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/ext/oneapi/weak_object.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace at::xpu;
using namespace at::xpu::test;
using namespace c10::xpu::test;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::xpu::device_count;
using c10::xpu::getStreamFromPool;
using c10::xpu::XPUStream;

namespace {

using WeakQueue = sycl::ext::oneapi::weak_object<sycl::queue>;

constexpr size_t kMiB = size_t(1) << 20;

bool recordOn(const DataPtr& data, XPUStream stream) {
  return CachingHostAllocator_recordEvent(
      data.get(), data.get_context(), stream);
}

std::unique_ptr<sycl::queue> makeQueue() {
  return std::make_unique<sycl::queue>(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
}

// Nothing is cached, pending or in use before a test and after it.
class XPUCachingHostAllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    expectEmpty();
  }

  void TearDown() override {
    clearHooks();
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

TEST_F(XPUCachingHostAllocatorTest, NoDeviceRaises) {
  C10_XPU_NEEDS_NO_DEVICE();
  EXPECT_THROW(HostAlloc(16), c10::Error);
}

TEST_F(XPUCachingHostAllocatorTest, OneAllocatorUnderAllNames) {
  EXPECT_EQ(HostAlloc(0).get(), nullptr);
  EXPECT_EQ(getPinnedMemoryAllocator(), getCachingHostAllocator());
  EXPECT_EQ(
      at::detail::getXPUHooks().getPinnedMemoryAllocator(),
      getCachingHostAllocator());
}

TEST_F(XPUCachingHostAllocatorTest, MemoryIsPinnedAndAligned) {
  C10_XPU_NEEDS_DEVICES(1);
  initContext();
  for (size_t size : {size_t(1), size_t(511), size_t(513), 3 * kMiB + 1}) {
    const DataPtr data = HostAlloc(size);
    ASSERT_NE(data.get(), nullptr);
    EXPECT_TRUE(data.device().is_cpu());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data.get()) % 64, 0);
    std::memset(data.get(), 0x5a, size);
    EXPECT_TRUE(
        at::globalContext().isPinnedPtr(
            static_cast<char*>(data.get()) + size - 1));
  }
}

TEST_F(XPUCachingHostAllocatorTest, RoundingAddsAtMostAQuarter) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto sizeOfBlock = [](size_t size) {
    const DataPtr data = HostAlloc(size);
    return CachingHostAllocator_getStats().in_use_bytes();
  };
  for (size_t size = 1; size < 100000; size = size * 9 / 8 + 1) {
    const size_t got = sizeOfBlock(size);
    CachingHostAllocator_emptyCache();
    EXPECT_GE(got, size);
    EXPECT_LE(got, std::max(size_t(512), size + size / 4));
  }
  for (size_t size = 512; size <= 4 * kMiB; size *= 2) {
    EXPECT_EQ(sizeOfBlock(size), size) << "a power of two needs no rounding";
    CachingHostAllocator_emptyCache();
  }
}

TEST_F(XPUCachingHostAllocatorTest, FreedBlocksAreReused) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(kMiB);
  void* const address = data.get();
  const int allocations = calls().allocations;
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
  EXPECT_EQ(calls().allocations, allocations + 1);
}

// The point of it all: an asynchronous copy reads the block after its owner has
// freed it, and the next owner must not write into what is being read.
TEST_F(XPUCachingHostAllocatorTest, BlockOfARunningCopyIsNotHandedOut) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto index : c10::irange(device_count())) {
    const XPUStream stream = getStreamFromPool(false, index);
    const Ints device(index, kMiB / sizeof(int));

    Gate held(stream);
    DataPtr data = HostAlloc(kMiB);
    void* const address = data.get();
    std::memset(address, 'a', kMiB);
    stream.queue().memcpy(device.get(), address, kMiB);
    ASSERT_TRUE(recordOn(data, stream));
    data.clear();
    EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, kMiB);

    const DataPtr meanwhile = HostAlloc(kMiB);
    EXPECT_NE(meanwhile.get(), address);
    std::memset(meanwhile.get(), 'b', kMiB);

    held.finish();
    const DataPtr afterwards = HostAlloc(kMiB);
    EXPECT_EQ(afterwards.get(), address);
    EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 0);

    std::vector<char> copied(kMiB);
    stream.queue().memcpy(copied.data(), device.get(), kMiB).wait();
    EXPECT_EQ(copied, std::vector<char>(kMiB, 'a'));
  }
}

// A buffer that is copied from for the whole run of a program costs a barrier
// when it is freed and not at each copy.
TEST_F(XPUCachingHostAllocatorTest, OneBarrierPerStreamAtTheFree) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool(false, 0);
  const XPUStream second = getStreamFromPool(false, 0);
  ASSERT_NE(first, second);
  DataPtr data = HostAlloc(4096);
  int barriers = calls().barriers;
  for (const auto i : c10::irange(20)) {
    EXPECT_TRUE(recordOn(data, i % 2 == 0 ? first : second));
  }
  EXPECT_EQ(calls().barriers, barriers);
  data.clear();
  EXPECT_EQ(calls().barriers, barriers + 2);
  first.synchronize();
  second.synchronize();
  barriers = calls().barriers;
  const int queries = calls().queries;
  data = HostAlloc(4096);
  EXPECT_EQ(calls().barriers, barriers);
  EXPECT_EQ(calls().queries, queries + 2);
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 4096);
}

TEST_F(XPUCachingHostAllocatorTest, ABusyStreamIsAskedOnce) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  std::vector<DataPtr> blocks(100);
  for (auto& block : blocks) {
    block = HostAlloc(4096);
    EXPECT_TRUE(recordOn(block, stream));
  }
  void* const first = blocks[0].get();
  blocks[0].clear();
  stream.synchronize();
  Gate held(stream);
  blocks.clear();
  const int queries = calls().queries;
  const DataPtr ready = HostAlloc(4096);
  EXPECT_EQ(ready.get(), first);
  EXPECT_EQ(calls().queries, queries + 2);
  const DataPtr other = HostAlloc(4096);
  EXPECT_EQ(calls().queries, queries + 3);
  held.finish();
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
  EXPECT_TRUE(
      CachingHostAllocator_recordEvent(bytes + 4095, &elsewhere, stream));
  EXPECT_FALSE(CachingHostAllocator_recordEvent(bytes + 4096, nullptr, stream));
  EXPECT_FALSE(CachingHostAllocator_recordEvent(bytes - 1, nullptr, stream));
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
  CachingHostAllocator_emptyCache();
  deleter(context);
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, 0);
}

TEST_F(XPUCachingHostAllocatorTest, MemoryWithPendingWorkIsNeverGivenBack) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  DataPtr data = HostAlloc(2 * kMiB);
  void* const address = data.get();
  stream.queue().memset(address, 1, 2 * kMiB);
  EXPECT_TRUE(recordOn(data, stream));
  data.clear();
  {
    const DataPtr cached = HostAlloc(4 * kMiB);
  }
  const int frees = calls().frees;
  CachingHostAllocator_emptyCache();
  EXPECT_EQ(calls().frees, frees + 1);
  // Nor when there is no memory.
  calls().failing_allocations = 2;
  EXPECT_THROW(HostAlloc(8 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(calls().frees, frees + 1);
  EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 2 * kMiB);
  held.finish();
  CachingHostAllocator_emptyCache();
  EXPECT_EQ(calls().frees, frees + 2);
}

TEST_F(XPUCachingHostAllocatorTest, OutOfMemory) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto cacheABlock = [] { HostAlloc(kMiB); };
  cacheABlock();
  calls().failing_allocations = 1;
  {
    const DataPtr data = HostAlloc(8 * kMiB);
    EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 8 * kMiB)
        << "the cache is emptied for a larger request";
  }
  CachingHostAllocator_emptyCache();
  cacheABlock();
  for (size_t size : {~size_t(0), size_t(1) << 50}) {
    try {
      HostAlloc(size);
      ADD_FAILURE() << "got " << size << " bytes";
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_CONTAINS(error.what(), std::to_string(size));
    }
  }
  EXPECT_EQ(CachingHostAllocator_getStats().reserved_bytes, 0);
}

TEST_F(XPUCachingHostAllocatorTest, FailedSystemFree) {
  C10_XPU_NEEDS_DEVICES(1);
  {
    const DataPtr first = HostAlloc(kMiB);
    const DataPtr second = HostAlloc(kMiB);
  }
  void* failed = nullptr;
  calls().before_free = [&failed](void* ptr) {
    if (!failed || ptr == failed) {
      failed = ptr;
      throwInjected();
    }
  };
  EXPECT_THROW(CachingHostAllocator_emptyCache(), c10::Error);
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, 2 * kMiB);
  // The other one goes at the next attempt.
  EXPECT_THROW(CachingHostAllocator_emptyCache(), c10::Error);
  EXPECT_EQ(CachingHostAllocator_getStats().cached_bytes, kMiB);
  const DataPtr data = HostAlloc(kMiB);
  EXPECT_EQ(data.get(), failed);
  EXPECT_TRUE(recordOn(data, getStreamFromPool(false, 0)));
}

TEST_F(XPUCachingHostAllocatorTest, FailedBarrierKeepsTheBlockPending) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  EXPECT_TRUE(recordOn(data, stream));
  calls().before_barrier = &throwInjected;
  data.clear();
  EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 4096);
  const DataPtr second = HostAlloc(4096);
  EXPECT_NE(second.get(), address);
  calls().before_barrier = nullptr;
  const DataPtr third = HostAlloc(4096);
  EXPECT_NE(third.get(), address) << "now there is a barrier, and it is held";
  held.finish();
  data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
}

TEST_F(XPUCachingHostAllocatorTest, ExternalQueueMayEndBeforeTheBlock) {
  C10_XPU_NEEDS_DEVICES(1);
  auto queue = makeQueue();
  const WeakQueue weak(*queue);
  std::promise<void> opening;
  queue->submit([&](sycl::handler& handler) {
    handler.host_task(
        [opened = opening.get_future().share()] { opened.wait(); });
  });
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  queue->memset(address, 1, 4096);
  EXPECT_TRUE(recordOn(data, c10::xpu::getStreamFromExternal(queue.get(), 0)));
  // Another queue in its place must not be taken for it.
  *queue = *makeQueue();
  EXPECT_TRUE(recordOn(data, c10::xpu::getStreamFromExternal(queue.get(), 0)));
  queue.reset();
  data.clear();
  {
    const DataPtr other = HostAlloc(4096);
    EXPECT_NE(other.get(), address);
  }
  CachingHostAllocator_emptyCache();
  EXPECT_EQ(CachingHostAllocator_getStats().waiting_bytes, 4096);
  opening.set_value();
  {
    auto alive = weak.try_lock();
    ASSERT_TRUE(alive.has_value());
    alive->wait();
  }
  data = HostAlloc(4096);
  EXPECT_EQ(data.get(), address);
  // On some backends SYCL itself keeps a queue that had a host task.
  auto other = makeQueue();
  const WeakQueue unrelated(*other);
  other->submit([](sycl::handler& handler) { handler.host_task([] {}); });
  other->wait();
  other.reset();
  EXPECT_TRUE(weak.expired() || !unrelated.expired());
}

TEST_F(XPUCachingHostAllocatorTest, ABlockInUseDoesNotKeepAllExternalQueues) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(4096);
  void* const address = data.get();
  const XPUStream busy = getStreamFromPool(false, 0);
  Gate held(busy);
  EXPECT_TRUE(recordOn(data, busy));
  std::vector<WeakQueue> ended;
  for (const auto i : c10::irange(200)) {
    (void)i;
    const auto queue = makeQueue();
    EXPECT_TRUE(
        recordOn(data, c10::xpu::getStreamFromExternal(queue.get(), 0)));
    queue->wait();
    ended.emplace_back(*queue);
  }
  const auto kept = std::count_if(
      ended.begin(), ended.end(), [](auto& weak) { return !weak.expired(); });
  EXPECT_LE(kept, 64);
  // What is not complete is not forgotten; and a barrier that was submitted
  // meanwhile does not stand for the work after it.
  held.finish();
  Gate held_again(busy);
  EXPECT_TRUE(recordOn(data, busy));
  data.clear();
  const DataPtr other = HostAlloc(4096);
  EXPECT_NE(other.get(), address);
  held_again.finish();
}

TEST_F(XPUCachingHostAllocatorTest, AForkedChildGetsNoPinnedMemory) {
  C10_XPU_NEEDS_DEVICES(1);
  DataPtr data = HostAlloc(4096);
  {
    const DataPtr cached = HostAlloc(kMiB);
  }
  const int frees = calls().frees;
  const auto ended = inChild({}, [&]() -> std::string {
    auto error = errorOf([] { HostAlloc(kMiB); });
    if (!contains(error, "forked")) {
      return error;
    }
    data.clear();
    CachingHostAllocator_emptyCache();
    if (CachingHostAllocator_getStats().reserved_bytes != 0) {
      return "there is pinned memory";
    }
    return calls().frees == frees ? "" : "memory of the parent was freed";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(CachingHostAllocator_getStats().in_use_bytes(), 4096);
}

// One thread is stopped inside a call of SYCL; another one goes on.
TEST_F(XPUCachingHostAllocatorTest, NoThreadWaitsForTheSYCLCallsOfAnother) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  struct Stop {
    std::promise<void> reached, go;
    void operator()() {
      reached.set_value();
      go.get_future().wait();
    }
  };
  const auto whileStopped = [](Stop& stop, const std::function<void()>& body) {
    std::thread stopped(body);
    stop.reached.get_future().wait();
    clearHooks();
    auto other = std::async(std::launch::async, [] {
      HostAlloc(kMiB); // a cached block
      CachingHostAllocator_getStats();
    });
    EXPECT_EQ(
        other.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    stop.go.set_value();
    stopped.join();
  };
  const auto cacheABlock = [] { HostAlloc(kMiB); };

  cacheABlock();
  DataPtr used = HostAlloc(4096);
  EXPECT_TRUE(recordOn(used, stream));
  Stop at_barrier;
  calls().before_barrier = [&] { at_barrier(); };
  whileStopped(at_barrier, [&] { used.clear(); });

  Stop at_query;
  calls().before_query = [&] { at_query(); };
  whileStopped(at_query, [] { HostAlloc(4096); });

  const DataPtr also_cached = HostAlloc(kMiB);
  cacheABlock();
  Stop at_free;
  calls().before_free = [&](void* /*ptr*/) { at_free(); };
  whileStopped(at_free, [] { CachingHostAllocator_emptyCache(); });
}

// Each thread owns what it was given: a byte that another thread wrote means
// that a block was handed out twice.
TEST_F(XPUCachingHostAllocatorTest, ManyThreads) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 300;
  constexpr size_t kLive = 8;
  const DataPtr shared = HostAlloc(4096);
  std::atomic<size_t> damaged{0};
  inThreads(kThreads, [&](size_t t) {
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
        stream.queue().memset(slot.first.get(), mark, slot.second);
        recordOn(slot.first, stream);
        recordOn(shared, stream);
      }
      if (i % 100 == 99) {
        CachingHostAllocator_emptyCache();
      }
      CachingHostAllocator_getStats();
    }
    stream.synchronize();
  });
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(CachingHostAllocator_getStats().in_use_bytes(), 4096);
}

TEST_F(
    XPUCachingHostAllocatorTest,
    InitializingXPUMakesTheDeviceAllocatorReady) {
  C10_XPU_NEEDS_DEVICES(1);
  initContext();
  const DataPtr data = c10::GetAllocator(c10::kXPU)->allocate(1000);
  ASSERT_NE(data.get(), nullptr);
  EXPECT_EQ(data.device(), c10::Device(c10::kXPU, 0));
  EXPECT_EQ(
      at::globalContext().getDeviceFromPtr(data.get(), c10::kXPU),
      c10::Device(c10::kXPU, 0));
}
