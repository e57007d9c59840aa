// The caching allocator on real devices.

#include <c10/xpu/test/impl/XPUAllocatorTestUtil.h>
#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestNames.h>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace allocator = c10::xpu::XPUCachingAllocator;
using c10::xpu::XPUStream;
using namespace c10::xpu::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

class XPUCachingAllocatorTest : public AllocatorTest {
 protected:
  void SetUp() override {
    AllocatorTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    for (int i = 0; i < deviceCount(); ++i) {
      allocator::setMemoryFraction(1, i);
      allocator::resetPeakStats(i);
      allocator::resetAccumulatedStats(i);
    }
  }

  void TearDown() override {
    sycl_hook = nullptr;
    AllocatorTest::TearDown();
  }

  // Limits the card of device 0 to so many MiB.
  static void limit(double mib) {
    const size_t total = c10::xpu::get_device_properties(0).global_mem_size;
    allocator::setMemoryFraction(mib * kMiB / static_cast<double>(total), 0);
  }
  static int64_t allocated(int device = 0) {
    return allocator::getDeviceStats(device).allocated_bytes[0].current;
  }
  static int64_t reserved(int device = 0) {
    return allocator::getDeviceStats(device).reserved_bytes[0].current;
  }
  static int64_t active(int device = 0) {
    return allocator::getDeviceStats(device).active[0].current;
  }
};

// ---- allocate and free ----

TEST_F(XPUCachingAllocatorTest, IsRegistered) {
  EXPECT_EQ(c10::GetAllocator(c10::kXPU), allocator::get());
}

TEST_F(XPUCachingAllocatorTest, MemoryIsUsableAndDisjoint) {
  sycl::queue& queue = c10::xpu::getCurrentXPUStream().queue();
  const std::vector<size_t> sizes = {1, 512, 513, 70000, kMiB, 3 * kMiB + 5};
  std::vector<c10::DataPtr> blocks;
  for (const auto i : c10::irange(sizes.size())) {
    blocks.push_back(allocator::get()->allocate(sizes[i]));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i].get()) % 512, 0);
    EXPECT_EQ(blocks[i].get(), blocks[i].get_context());
    EXPECT_EQ(blocks[i].device(), c10::Device(c10::kXPU, 0));
    queue.memset(blocks[i].get(), static_cast<int>(i + 1), sizes[i]);
  }
  for (const auto i : c10::irange(sizes.size())) {
    std::vector<unsigned char> host(sizes[i]);
    queue.memcpy(host.data(), blocks[i].get(), sizes[i]).wait();
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [&](unsigned char c) {
      return c == i + 1;
    })) << sizes[i];
  }
}

TEST_F(XPUCachingAllocatorTest, NothingForZeroBytes) {
  const c10::DataPtr empty = allocator::get()->allocate(0);
  EXPECT_EQ(empty.get(), nullptr);
  EXPECT_EQ(empty.device(), c10::Device(c10::kXPU, 0));
  EXPECT_EQ(allocator::raw_alloc(0), nullptr);
  EXPECT_EQ(
      allocator::raw_alloc_with_stream(0, c10::xpu::getCurrentXPUStream()),
      nullptr);
  allocator::raw_delete(nullptr);
  allocator::recordStream(empty, c10::xpu::getStreamFromPool());
  EXPECT_EQ(reserved(), 0);
}

TEST_F(XPUCachingAllocatorTest, FreedMemoryIsReused) {
  for (const size_t size : {size_t{512}, kMiB, 64 * kMiB}) {
    void* first = allocator::raw_alloc(size);
    allocator::raw_delete(first);
    void* second = allocator::raw_alloc(size);
    EXPECT_EQ(first, second);
    EXPECT_EQ(allocator::getDeviceStats(0).segment[0].current, 1);
    allocator::raw_delete(second);
    allocator::emptyCache();
  }
}

TEST_F(XPUCachingAllocatorTest, StreamsDoNotShareMemory) {
  const XPUStream before = c10::xpu::getCurrentXPUStream();
  const XPUStream a = c10::xpu::getStreamFromPool();
  const XPUStream b = c10::xpu::getStreamFromPool();
  ASSERT_NE(a, b);
  c10::xpu::setCurrentXPUStream(a);
  void* first = allocator::raw_alloc(512);
  c10::xpu::setCurrentXPUStream(before);
  EXPECT_EQ(allocator::snapshot().at(0).stream, a.id());
  allocator::raw_delete(first);
  void* second = allocator::raw_alloc_with_stream(512, b);
  EXPECT_NE(first, second);
  EXPECT_EQ(allocator::raw_alloc_with_stream(512, a), first);
  const auto segments = allocator::snapshot();
  ASSERT_EQ(segments.size(), 2);
  EXPECT_NE(segments[0].stream, segments[1].stream);
  allocator::raw_delete(first);
  allocator::raw_delete(second);
}

TEST_F(XPUCachingAllocatorTest, OtherThreadsMayFree) {
  void* ptr = allocator::raw_alloc(512);
  std::thread([ptr] { allocator::raw_delete(ptr); }).join();
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(allocator::raw_alloc(512), ptr);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, RawInterfaceOfTheAllocator) {
  void* ptr = allocator::get()->raw_allocate(1000);
  EXPECT_EQ(allocated(), 1024);
  allocator::get()->raw_deallocate(ptr);
  EXPECT_EQ(allocated(), 0);
  EXPECT_THROW(allocator::get()->raw_deallocate(ptr), c10::Error);
}

TEST_F(XPUCachingAllocatorTest, WrongPointersAreErrors) {
  char* ptr = static_cast<char*>(allocator::raw_alloc(2048));
  int on_stack = 0;
  void* of_sycl = sycl::malloc_device(
      512, c10::xpu::get_raw_device(0), c10::xpu::get_device_context());
  const auto before = allocator::snapshot();
  for (void* wrong : std::vector<void*>{
           &on_stack,
           of_sycl,
           ptr + 1,
           ptr + 512,
           ptr + 2048,
           reinterpret_cast<void*>(~uintptr_t{0})}) {
    const std::string error = errorOf([&] { allocator::raw_delete(wrong); });
    EXPECT_CONTAINS(error, "invalid XPU pointer");
  }
  EXPECT_EQ(allocated(), 2048);
  EXPECT_EQ(
      allocator::snapshot().at(0).blocks.size(), before.at(0).blocks.size());
  allocator::raw_delete(ptr);
  EXPECT_THROW(allocator::raw_delete(ptr), c10::Error);
  sycl::free(of_sycl, c10::xpu::get_device_context());
}

TEST_F(XPUCachingAllocatorTest, ForeignDataPtrsAreNotRecorded) {
  std::array<char, 8> memory{};
  const c10::DataPtr foreign(
      memory.data(), memory.data(), [](void*) {}, c10::Device(c10::kXPU, 0));
  allocator::recordStream(foreign, c10::xpu::getStreamFromPool());
  EXPECT_EQ(active(), 0);
}

TEST_F(XPUCachingAllocatorTest, ForkedChildrenGetNothing) {
  const XPUStream stream = c10::xpu::getCurrentXPUStream();
  void* cached = allocator::raw_alloc(512);
  void* held = allocator::raw_alloc(512);
  allocator::raw_delete(cached);
  const auto ended = inChild({}, [&]() -> std::string {
    for (const auto& error :
         {errorOf([] { allocator::raw_alloc(512); }),
          errorOf([] { allocator::get()->allocate(512); }),
          errorOf([&] { allocator::raw_alloc_with_stream(512, stream); })}) {
      if (!contains(error, "fork")) {
        return error;
      }
    }
    allocator::raw_delete(held); // the parent's
    allocator::emptyCache();
    return "";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(allocated(), 512);
  EXPECT_EQ(allocator::raw_alloc(512), cached);
  allocator::raw_delete(cached);
  allocator::raw_delete(held);
}

// ---- devices ----

TEST_F(XPUCachingAllocatorTest, DevicesAreSeparate) {
  std::vector<void*> blocks;
  for (c10::DeviceIndex i = 0; i < c10::xpu::device_count(); ++i) {
    c10::xpu::set_device(i);
    blocks.push_back(allocator::raw_alloc((i + 1) * kMiB * 2));
    EXPECT_EQ(allocated(i), static_cast<int64_t>((i + 1) * kMiB * 2));
    // The first and the last byte are this device's, whatever SYCL says.
    char* ptr = static_cast<char*>(blocks.back());
    EXPECT_EQ(c10::xpu::get_device_idx_from_pointer(ptr), i);
    EXPECT_EQ(
        c10::xpu::get_device_idx_from_pointer(ptr + (i + 1) * kMiB * 2 - 1), i);
  }
  c10::xpu::set_device(0);
  // Freed and allocated from another device's point of view.
  for (void* ptr : blocks) {
    allocator::raw_delete(ptr);
  }
  for (c10::DeviceIndex i = 0; i < c10::xpu::device_count(); ++i) {
    EXPECT_EQ(allocated(i), 0);
    EXPECT_EQ(reserved(i), static_cast<int64_t>((i + 1) * kMiB * 2));
    const XPUStream stream = c10::xpu::getStreamFromPool(false, i);
    void* ptr = allocator::raw_alloc_with_stream(512, stream);
    EXPECT_EQ(c10::xpu::get_device_idx_from_pointer(ptr), i);
    allocator::raw_delete(ptr);
  }
}

TEST_F(XPUCachingAllocatorTest, DeviceArgumentsAreChecked) {
  size_t total = 0;
  size_t largest = 0;
  for (const int wrong : {-1, deviceCount(), 64, 256}) {
    EXPECT_THROW(allocator::getDeviceStats(wrong), c10::Error);
    EXPECT_THROW(allocator::resetPeakStats(wrong), c10::Error);
    EXPECT_THROW(allocator::resetAccumulatedStats(wrong), c10::Error);
    EXPECT_THROW(allocator::setMemoryFraction(0.5, wrong), c10::Error);
    EXPECT_THROW(allocator::cacheInfo(wrong, &total, &largest), c10::Error);
  }
}

// ---- out of memory ----

TEST_F(XPUCachingAllocatorTest, TheFractionIsALimit) {
  limit(100);
  void* big = allocator::raw_alloc(60 * kMiB);
  void* small = allocator::raw_alloc(100);
  std::string error;
  try {
    allocator::raw_alloc(50 * kMiB);
  } catch (const c10::OutOfMemoryError& e) {
    error = e.what_without_backtrace();
  }
  for (const char* part :
       {"Tried to allocate 50.00 MiB",
        "xpu:0",
        "total capacity",
        "60.00 MiB already allocated",
        " free",
        "limit 100.00 MiB",
        "62.00 MiB reserved"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " in " << error;
  }
  const auto stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.num_ooms, 1);
  EXPECT_GE(stats.num_alloc_retries, 1);
  // What is cached makes way, whichever stream it was cached for.
  allocator::raw_delete(big);
  const XPUStream stream = c10::xpu::getStreamFromPool();
  void* other = allocator::raw_alloc_with_stream(90 * kMiB, stream);
  EXPECT_NE(other, nullptr);
  EXPECT_LE(reserved(), static_cast<int64_t>(100 * kMiB));
  allocator::raw_delete(other);
  allocator::raw_delete(small);
}

// Two ordinals over one card have one card's memory.
TEST_F(XPUCachingAllocatorTest, TheFractionIsThatOfTheCard) {
  C10_XPU_NEEDS_DEVICES(2);
  if (c10::xpu::get_root_device(1) != 0) {
    GTEST_SKIP() << "the two devices are two cards";
  }
  limit(100);
  const XPUStream other = c10::xpu::getStreamFromPool(false, 1);
  void* ptr = allocator::raw_alloc(60 * kMiB);
  EXPECT_THROW(
      allocator::raw_alloc_with_stream(60 * kMiB, other),
      c10::OutOfMemoryError);
  EXPECT_EQ(reserved(1), 0);
  allocator::raw_delete(ptr);
  // What the other ordinal has cached makes way.
  ptr = allocator::raw_alloc_with_stream(60 * kMiB, other);
  EXPECT_EQ(reserved(0), 0);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, ObserversSeeOutOfMemory) {
  struct Seen {
    int device;
    size_t requested;
    size_t total;
  };
  static std::vector<Seen> seen; // an observer stays
  allocator::attachOutOfMemoryObserver(
      [](int device, size_t requested, size_t total, size_t /*free*/) {
        seen.push_back({device, requested, total});
        allocator::snapshot(); // no lock is held
      });
  limit(4);
  EXPECT_THROW(allocator::raw_alloc(5 * kMiB), c10::OutOfMemoryError);
  allocator::raw_delete(allocator::raw_alloc(kMiB));
  ASSERT_EQ(seen.size(), 1);
  EXPECT_EQ(seen[0].device, 0);
  EXPECT_EQ(seen[0].requested, 5 * kMiB);
  EXPECT_EQ(seen[0].total, c10::xpu::get_device_properties(0).global_mem_size);
}

TEST_F(XPUCachingAllocatorTest, FractionsAreChecked) {
  for (const double wrong :
       {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    const std::string error =
        errorOf([&] { allocator::setMemoryFraction(wrong, 0); });
    EXPECT_CONTAINS(error, "from 0 to 1");
  }
  EXPECT_EQ(allocator::getMemoryFraction(0), 1);
  allocator::setMemoryFraction(0.3, 0);
  EXPECT_EQ(allocator::getMemoryFraction(0), 0.3);
  allocator::setMemoryFraction(0, 0);
  EXPECT_THROW(allocator::raw_alloc(1), c10::OutOfMemoryError);
}

TEST_F(XPUCachingAllocatorTest, TheRuntimeHasALimit) {
  void* ptr = allocator::raw_alloc(512);
  for (const size_t size :
       {size_t{1} << 46, size_t{1} << 61, ~size_t{0}, ~size_t{0} - 600}) {
    EXPECT_THROW(allocator::raw_alloc(size), c10::OutOfMemoryError) << size;
    EXPECT_THROW(allocator::get()->allocate(size), c10::OutOfMemoryError);
  }
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
  allocator::raw_delete(ptr);
}

// ---- pending work ----

TEST_F(XPUCachingAllocatorTest, RecordedStreamsHoldMemoryBack) {
  C10_XPU_NEEDS_PEERS();
  const size_t bytes = 20 * kMiB;
  std::vector<XPUStream> sides = {c10::xpu::getStreamFromPool()};
  if (deviceCount() > 1) {
    sides.push_back(c10::xpu::getStreamFromPool(false, 1));
  }
  for (const XPUStream& side : sides) {
    c10::DataPtr data = allocator::get()->allocate(bytes);
    void* ptr = data.get();
    Gate gate(side);
    side.queue().memset(ptr, 1, bytes);
    allocator::recordStream(data, side);
    data.clear();
    EXPECT_EQ(allocated(), 0);
    EXPECT_EQ(active(), 1);
    void* other = allocator::raw_alloc(bytes);
    EXPECT_NE(other, ptr);
    gate.finish();
    EXPECT_EQ(allocator::raw_alloc(bytes), ptr);
    allocator::raw_delete(ptr);
    allocator::raw_delete(other);
    allocator::emptyCache();
  }
}

TEST_F(XPUCachingAllocatorTest, RecordingTheOwnStreamMeansNothing) {
  const XPUStream own = c10::xpu::getCurrentXPUStream();
  Gate gate(own);
  c10::DataPtr data = allocator::get()->allocate(512);
  allocator::recordStream(data, own);
  data.clear();
  EXPECT_EQ(active(), 0);
}

TEST_F(XPUCachingAllocatorTest, EmptyCacheWaitsForDeviceWork) {
  const XPUStream own = c10::xpu::getCurrentXPUStream();
  const XPUStream side = c10::xpu::getStreamFromPool();
  for (const XPUStream& user : {own, side}) {
    const c10::DataPtr data = allocator::get()->allocate(64 * kMiB);
    allocator::recordStream(data, user);
    for (int i = 0; i < 10; ++i) {
      user.queue().memset(data.get(), i, 64 * kMiB);
    }
  }
  allocator::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

// The fence is submitted while a host task holds the stream, and waited for
// when that has ended and device work is left.
TEST_F(XPUCachingAllocatorTest, EmptyCacheWaitsForWorkThatWasHeld) {
  const XPUStream side = c10::xpu::getStreamFromPool();
  std::promise<void> go;
  sycl::event host_task = side.queue().submit([&](sycl::handler& handler) {
    handler.host_task([gone = go.get_future().share()] { gone.wait(); });
  });
  c10::DataPtr data = allocator::get()->allocate(64 * kMiB);
  allocator::recordStream(data, side);
  for (int i = 0; i < 20; ++i) {
    side.queue().memset(data.get(), i, 64 * kMiB);
  }
  data.clear();
  allocator::emptyCache();
  EXPECT_EQ(active(), 1);
  go.set_value();
  host_task.wait();
  // SYCL hands the work over to the device in a thread of its own.
  while (
      c10::xpu::impl::isHeldByHost(side.queue().ext_oneapi_submit_barrier())) {
    std::this_thread::yield();
  }
  allocator::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

// A host task holds the stream that uses the memory. To wait for it would be to
// wait for this thread; to give the memory back would let the memset write
// where nothing is.
TEST_F(XPUCachingAllocatorTest, MemoryInUseIsNotGivenBack) {
  const XPUStream held = c10::xpu::getStreamFromPool();
  const XPUStream idle = c10::xpu::getStreamFromPool();
  Gate gate(held);
  void* ptr = allocator::raw_alloc_with_stream(64 * kMiB, held);
  held.queue().memset(ptr, 1, 64 * kMiB);
  allocator::raw_delete(ptr);
  static std::atomic<int> frees{0};
  frees = 0;
  sycl_hook = [](const char* call) {
    frees += contains(call, "::free") ? 1 : 0;
  };
  allocator::emptyCache();
  EXPECT_EQ(reserved(), static_cast<int64_t>(64 * kMiB));
  // Neither does an allocation elsewhere take it, with memory or without.
  void* other = allocator::raw_alloc_with_stream(200 * kMiB, idle);
  limit(300);
  EXPECT_THROW(
      allocator::raw_alloc_with_stream(100 * kMiB, idle),
      c10::OutOfMemoryError);
  EXPECT_EQ(frees, 0);
  EXPECT_EQ(allocator::raw_alloc_with_stream(64 * kMiB, held), ptr);
  allocator::raw_delete(ptr);
  gate.finish();
  void* third = allocator::raw_alloc_with_stream(100 * kMiB, idle);
  EXPECT_EQ(frees, 1);
  allocator::raw_delete(third);
  allocator::raw_delete(other);
}

// ---- external queues ----

std::unique_ptr<sycl::queue> makeQueue() {
  return std::make_unique<sycl::queue>(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
}

TEST_F(XPUCachingAllocatorTest, ExternalQueuesThatAreGoneLeaveNothing) {
  std::array<std::unique_ptr<sycl::queue>, 50> places;
  for (auto& queue : places) {
    queue = makeQueue(); // at an address of its own
    const XPUStream stream = c10::xpu::getStreamFromExternal(queue.get(), 0);
    void* ptr = allocator::raw_alloc_with_stream(3 * kMiB, stream);
    queue->memset(ptr, 1, 3 * kMiB).wait();
    allocator::raw_delete(ptr);
    EXPECT_EQ(active(), 0);
    *queue = *makeQueue(); // ends the first one
  }
  EXPECT_EQ(allocator::snapshot().size(), 1);
  EXPECT_EQ(allocator::getDeviceStats(0).segment[0].allocated, 1);
}

// A queue that was destroyed while it had work, and another at its address.
TEST_F(XPUCachingAllocatorTest, AQueueAtAnOldAddressWaitsForTheOldWork) {
  const auto place = makeQueue();
  const XPUStream stream = c10::xpu::getStreamFromExternal(place.get(), 0);
  Gate gate(*place);
  void* freed = allocator::raw_alloc_with_stream(3 * kMiB, stream);
  void* kept = allocator::raw_alloc_with_stream(3 * kMiB, stream);
  place->memset(freed, 1, 3 * kMiB);
  place->memset(kept, 1, 3 * kMiB);
  allocator::raw_delete(freed);
  *place = *makeQueue();
  allocator::raw_delete(kept); // after its queue was gone
  EXPECT_EQ(active(), 2);
  std::vector<void*> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(allocator::raw_alloc_with_stream(3 * kMiB, stream));
    EXPECT_NE(others.back(), freed);
    EXPECT_NE(others.back(), kept);
  }
  allocator::emptyCache();
  EXPECT_EQ(active(), 5);
  gate.finish();
  for (void* ptr : others) {
    allocator::raw_delete(ptr);
  }
}

// A queue at the address of the one that a block was allocated for uses the
// block too.
TEST_F(XPUCachingAllocatorTest, RecordsAQueueAtAnOldAddress) {
  const auto place = makeQueue();
  const XPUStream stream = c10::xpu::getStreamFromExternal(place.get(), 0);
  void* const ptr = allocator::raw_alloc_with_stream(3 * kMiB, stream);
  c10::DataPtr data{ptr, ptr, allocator::get()->raw_deleter(), stream.device()};
  *place = *makeQueue();
  Gate gate(*place);
  allocator::recordStream(data, stream);
  data.clear();
  EXPECT_EQ(active(), 1);
  gate.finish();
  stream.synchronize();
  EXPECT_EQ(allocator::raw_alloc_with_stream(3 * kMiB, stream), ptr);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, ThreadsShareAnExternalQueue) {
  const auto queue = makeQueue();
  const XPUStream stream = c10::xpu::getStreamFromExternal(queue.get(), 0);
  inThreads(4, [&](int /*thread*/) {
    for (int i = 0; i < 200; ++i) {
      void* ptr = allocator::raw_alloc_with_stream(512, stream);
      stream.queue().memset(ptr, 1, 512);
      allocator::raw_delete(ptr);
    }
  });
  allocator::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

// ---- reports ----

TEST_F(XPUCachingAllocatorTest, Statistics) {
  void* small = allocator::raw_alloc(1000);
  void* large = allocator::raw_alloc(6 * kMiB);
  auto stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.allocation[0].current, 2);
  EXPECT_EQ(stats.allocation[1].current, 1);
  EXPECT_EQ(stats.allocated_bytes[1].current, 1024);
  EXPECT_EQ(stats.allocated_bytes[2].current, static_cast<int64_t>(6 * kMiB));
  EXPECT_EQ(stats.reserved_bytes[0].current, static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(stats.segment[0].current, 2);
  EXPECT_EQ(stats.inactive_split[1].current, 1);
  EXPECT_EQ(
      stats.inactive_split_bytes[0].current,
      static_cast<int64_t>(2 * kMiB) - 1024);
  EXPECT_EQ(stats.max_split_size, -1);
  allocator::raw_delete(large);
  allocator::raw_delete(small);
  stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].current, 0);
  EXPECT_EQ(
      stats.allocated_bytes[0].peak, static_cast<int64_t>(6 * kMiB) + 1024);
  EXPECT_EQ(stats.allocation[0].allocated, 2);
  EXPECT_EQ(stats.allocation[0].freed, 2);
  EXPECT_EQ(stats.inactive_split[0].current, 0);
  allocator::resetPeakStats(0);
  allocator::resetAccumulatedStats(0);
  stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].peak, 0);
  EXPECT_EQ(stats.reserved_bytes[0].peak, static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(stats.allocation[0].allocated, 0);
}

TEST_F(XPUCachingAllocatorTest, SnapshotAndCacheInfo) {
  void* a = allocator::raw_alloc(512);
  void* b = allocator::raw_alloc(1024);
  allocator::raw_delete(a);
  const auto segments = allocator::snapshot();
  ASSERT_EQ(segments.size(), 1);
  EXPECT_EQ(segments[0].device, 0);
  EXPECT_EQ(segments[0].address, reinterpret_cast<int64_t>(a));
  EXPECT_EQ(segments[0].total_size, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(segments[0].allocated_size, 1024);
  EXPECT_EQ(segments[0].active_size, 1024);
  EXPECT_EQ(segments[0].stream, c10::xpu::getCurrentXPUStream().id());
  EXPECT_FALSE(segments[0].is_large);
  ASSERT_EQ(segments[0].blocks.size(), 3);
  EXPECT_FALSE(segments[0].blocks[0].active);
  EXPECT_TRUE(segments[0].blocks[1].allocated);
  EXPECT_EQ(segments[0].blocks[1].size, 1024);
  size_t total = 5;
  size_t largest = 1;
  allocator::cacheInfo(0, &total, &largest);
  EXPECT_EQ(total, 5 + 2 * kMiB - 1024);
  EXPECT_EQ(largest, 2 * kMiB - 1024 - 512);
  allocator::raw_delete(b);
}

TEST_F(XPUCachingAllocatorTest, ReportsToTheProfiler) {
  struct Reporter : c10::MemoryReportingInfoBase {
    struct Report {
      void* ptr;
      int64_t size;
      int64_t allocated;
      int64_t reserved;
      c10::Device device;
    };
    void reportMemoryUsage(
        void* ptr,
        int64_t size,
        ReportedSum allocated,
        ReportedSum reserved,
        c10::Device device) override {
      const auto sum = static_cast<int64_t>(allocated);
      reports.push_back(
          {ptr, size, sum, static_cast<int64_t>(reserved), device});
    }
    void reportOutOfMemory(int64_t size, ReportedSum, ReportedSum, c10::Device)
        override {
      refused.push_back(size);
    }
    bool memoryProfilingEnabled() const override {
      return true;
    }
    std::vector<Report> reports;
    std::vector<int64_t> refused;
  };
  const auto reporter = std::make_shared<Reporter>();
  void* ptr = nullptr;
  {
    const c10::DebugInfoGuard guard(
        c10::DebugInfoKind::PROFILER_STATE, reporter);
    ptr = allocator::raw_alloc(1000);
    allocator::raw_delete(ptr);
    EXPECT_THROW(allocator::raw_alloc(size_t{1} << 60), c10::OutOfMemoryError);
  }
  ASSERT_EQ(reporter->reports.size(), 2);
  EXPECT_EQ(reporter->reports[0].ptr, ptr);
  EXPECT_EQ(reporter->reports[0].size, 1024);
  EXPECT_EQ(reporter->reports[0].allocated, 1024);
  EXPECT_EQ(reporter->reports[0].reserved, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(reporter->reports[0].device, c10::Device(c10::kXPU, 0));
  EXPECT_EQ(reporter->reports[1].size, -1024);
  EXPECT_EQ(reporter->reports[1].allocated, 0);
  EXPECT_EQ(reporter->refused.size(), 1);
}

// ---- errors of the runtime ----

TEST_F(XPUCachingAllocatorTest, ErrorsOfAllocation) {
  {
    const Fault fault("aligned_alloc_device");
    EXPECT_CONTAINS(errorOf([] { allocator::raw_alloc(512); }), "injected");
  }
  EXPECT_EQ(reserved(), 0);
  // Lack of memory is tried again, here with success.
  static bool once = true;
  once = true;
  sycl_hook = [](const char* call) {
    if (contains(call, "aligned_alloc_device") && once) {
      once = false;
      throw sycl::exception(
          make_error_code(sycl::errc::memory_allocation), "injected");
    }
  };
  void* ptr = allocator::raw_alloc(512);
  EXPECT_FALSE(once);
  EXPECT_EQ(allocator::getDeviceStats(0).num_alloc_retries, 1);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfFree) {
  allocator::raw_delete(allocator::raw_alloc(512));
  {
    const Fault fault("sycl::free");
    EXPECT_CONTAINS(errorOf([] { allocator::emptyCache(); }), "injected");
  }
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
  allocator::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfFences) {
  constexpr size_t kBytes = 20 * kMiB; // so much gets a fence at its free
  const XPUStream side = c10::xpu::getStreamFromPool();
  Gate gate(side);
  c10::DataPtr data = allocator::get()->allocate(kBytes);
  void* ptr = data.get();
  allocator::recordStream(data, side);
  {
    const Fault fault("submit_barrier");
    data.clear(); // no error, since the block is freed
    EXPECT_EQ(allocated(), 0);
    EXPECT_EQ(active(), 1);
    EXPECT_CONTAINS(errorOf([] { allocator::raw_alloc(kBytes); }), "injected");
  }
  {
    const Fault fault("event::get_info");
    EXPECT_CONTAINS(errorOf([] { allocator::raw_alloc(kBytes); }), "injected");
  }
  void* other = allocator::raw_alloc(kBytes); // there is a fence now
  gate.finish();
  {
    const Fault fault("event::wait");
    EXPECT_CONTAINS(errorOf([] { allocator::emptyCache(); }), "injected");
  }
  EXPECT_EQ(active(), 2);
  EXPECT_EQ(allocator::raw_alloc(kBytes), ptr);
  allocator::raw_delete(ptr);
  allocator::raw_delete(other);
}

// ---- threads ----

TEST_F(XPUCachingAllocatorTest, Stress) {
  const XPUStream shared = c10::xpu::getStreamFromPool();
  std::mutex mutex;
  std::vector<c10::DataPtr> live;
  std::atomic<int64_t> allocations{0};
  inThreads(uint64_t{6}, [&](uint64_t thread) {
    std::mt19937_64 random(thread);
    const auto device =
        static_cast<c10::DeviceIndex>(thread % c10::xpu::device_count());
    c10::xpu::set_device(device);
    const XPUStream own = c10::xpu::getStreamFromPool(false, device);
    c10::xpu::setCurrentXPUStream(
        device == 0 && random() % 2 == 0 ? shared : own);
    for (int i = 0; i < 400; ++i) {
      const size_t size = 1 + random() % (random() % 8 == 0 ? 8 * kMiB : 9000);
      c10::DataPtr data = allocator::get()->allocate(size);
      ++allocations;
      c10::xpu::getCurrentXPUStream().queue().memset(data.get(), 1, 1);
      if (random() % 3 == 0) {
        own.queue().memset(data.get(), 2, 1);
        allocator::recordStream(data, own);
      }
      c10::DataPtr dropped;
      {
        const std::lock_guard<std::mutex> guard(mutex);
        live.push_back(std::move(data));
        std::swap(live[random() % live.size()], live.back());
        if (random() % 8 != 0) {
          dropped = std::move(live.back());
          live.pop_back();
        }
      }
      if (random() % 100 == 0) {
        allocator::emptyCache();
      }
      if (random() % 100 == 0) {
        EXPECT_GE(allocator::getDeviceStats(device).allocation[0].current, 0);
        allocator::snapshot();
      }
    }
    c10::xpu::syncStreamsOnDevice(device);
  });
  live.clear();
  int64_t counted = 0;
  for (int i = 0; i < c10::xpu::device_count(); ++i) {
    const auto stats = allocator::getDeviceStats(i);
    counted += stats.allocation[0].allocated;
    EXPECT_EQ(stats.allocation[0].current, 0);
    EXPECT_EQ(stats.allocated_bytes[0].current, 0);
    EXPECT_EQ(
        stats.allocated_bytes[0].allocated, stats.allocated_bytes[0].freed);
  }
  EXPECT_EQ(counted, allocations);
}

} // namespace
