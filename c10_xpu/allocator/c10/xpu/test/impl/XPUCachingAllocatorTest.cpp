// The caching allocator on real devices.

#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUStreamTestUtil.h>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUAllocatorConfig.h>
#include <c10/xpu/test/impl/XPUAllocatorModel.h>

#include <sycl/handler.hpp>
#include <sycl/usm.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
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
using c10::xpu::impl::StreamTag;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

class XPUCachingAllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    c10::xpu::set_device(0);
    allocator::init(c10::xpu::device_count());
    allocator::emptyCache();
    ASSERT_EQ(allocator::snapshot().size(), 0);
    for (int i = 0; i < c10::xpu::device_count(); ++i) {
      allocator::setMemoryFraction(1, i);
      allocator::resetPeakStats(i);
      allocator::resetAccumulatedStats(i);
    }
  }

  void TearDown() override {
    c10::xpu::test::sycl_hook = nullptr;
    if (c10::xpu::device_count() != 0) {
      allocator::emptyCache();
      EXPECT_EQ(allocator::snapshot().size(), 0) << "the test left memory";
    }
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
  const XPUStream a = c10::xpu::getStreamFromPool();
  const XPUStream b = c10::xpu::getStreamFromPool();
  ASSERT_NE(a, b);
  void* first = allocator::raw_alloc_with_stream(512, a);
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

TEST_F(XPUCachingAllocatorTest, UsesTheCurrentStream) {
  const XPUStream before = c10::xpu::getCurrentXPUStream();
  const XPUStream stream = c10::xpu::getStreamFromPool();
  c10::xpu::setCurrentXPUStream(stream);
  void* ptr = allocator::raw_alloc(512);
  c10::xpu::setCurrentXPUStream(before);
  EXPECT_EQ(allocator::snapshot().at(0).stream, stream.id());
  allocator::raw_delete(ptr);
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
  EXPECT_THROW(allocator::cacheInfo(0, nullptr, &largest), c10::Error);
}

// ---- out of memory ----

TEST_F(XPUCachingAllocatorTest, TheFractionIsALimit) {
  const size_t total = c10::xpu::get_device_properties(0).global_mem_size;
  const double fraction = 100. * kMiB / static_cast<double>(total);
  allocator::setMemoryFraction(fraction, 0);
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
        "100.00 MiB allowed",
        "62.00 MiB reserved"}) {
    EXPECT_NE(error.find(part), std::string::npos) << part << " in " << error;
  }
  const auto stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.num_ooms, 1);
  EXPECT_EQ(stats.num_alloc_retries, 1);
  // What is cached makes way, whichever stream it was cached for.
  allocator::raw_delete(big);
  const XPUStream stream = c10::xpu::getStreamFromPool();
  void* other = allocator::raw_alloc_with_stream(90 * kMiB, stream);
  EXPECT_NE(other, nullptr);
  EXPECT_LE(reserved(), static_cast<int64_t>(100 * kMiB));
  allocator::raw_delete(other);
  allocator::raw_delete(small);
  // Other devices are not limited.
  if (c10::xpu::device_count() > 1) {
    const XPUStream there = c10::xpu::getStreamFromPool(false, 1);
    allocator::raw_delete(allocator::raw_alloc_with_stream(150 * kMiB, there));
  }
}

TEST_F(XPUCachingAllocatorTest, FractionsAreChecked) {
  for (const double wrong :
       {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    const std::string error =
        errorOf([&] { allocator::setMemoryFraction(wrong, 0); });
    EXPECT_CONTAINS(error, "from 0 to 1");
  }
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

// ---- cross-stream use ----

TEST_F(XPUCachingAllocatorTest, RecordedStreamsHoldMemoryBack) {
  const XPUStream side = c10::xpu::getStreamFromPool();
  void* ptr = nullptr;
  {
    c10::DataPtr data = allocator::get()->allocate(512);
    ptr = data.get();
    allocator::recordStream(data, side);
  }
  EXPECT_EQ(allocated(), 0);
  side.synchronize();
  c10::DataPtr data = allocator::get()->allocate(512);
  EXPECT_EQ(data.get(), ptr);
  Gate gate(side);
  allocator::recordStream(data, side);
  data.clear();
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(active(), 1);
  void* other = allocator::raw_alloc(512);
  EXPECT_NE(other, ptr);
  allocator::raw_delete(other);
  gate.finish();
  EXPECT_EQ(allocator::raw_alloc(512), ptr);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, RecordingTheOwnStreamMeansNothing) {
  const XPUStream own = c10::xpu::getCurrentXPUStream();
  Gate gate(own);
  c10::DataPtr data = allocator::get()->allocate(512);
  allocator::recordStream(data, own);
  data.clear();
  EXPECT_EQ(active(), 0);
}

TEST_F(XPUCachingAllocatorTest, StreamsOfOtherDevicesHoldMemoryBack) {
  if (c10::xpu::device_count() < 2) {
    GTEST_SKIP() << "needs two devices, see TORCH_XPU_VIRTUAL_DEVICES";
  }
  const XPUStream side = c10::xpu::getStreamFromPool(false, 1);
  Gate gate(side);
  c10::DataPtr data = allocator::get()->allocate(512);
  allocator::recordStream(data, side);
  data.clear();
  EXPECT_EQ(active(0), 1);
  gate.finish();
  allocator::emptyCache();
  EXPECT_EQ(reserved(0), 0);
}

TEST_F(XPUCachingAllocatorTest, EmptyCacheWaitsForOtherStreams) {
  const XPUStream side = c10::xpu::getStreamFromPool();
  Gate gate(side);
  c10::DataPtr data = allocator::get()->allocate(512);
  allocator::recordStream(data, side);
  data.clear();
  std::thread empty([] { allocator::emptyCache(); });
  EXPECT_EQ(active(), 1);
  gate.finish();
  empty.join();
  EXPECT_EQ(reserved(), 0);
}

// ---- reports ----

TEST_F(XPUCachingAllocatorTest, Statistics) {
  void* small = allocator::raw_alloc(1000);
  void* large = allocator::raw_alloc(5 * kMiB);
  auto stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.allocation[0].current, 2);
  EXPECT_EQ(stats.allocation[1].current, 1);
  EXPECT_EQ(stats.allocated_bytes[1].current, 1024);
  EXPECT_EQ(stats.allocated_bytes[2].current, static_cast<int64_t>(5 * kMiB));
  EXPECT_EQ(stats.reserved_bytes[0].current, static_cast<int64_t>(7 * kMiB));
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
      stats.allocated_bytes[0].peak, static_cast<int64_t>(5 * kMiB) + 1024);
  EXPECT_EQ(stats.allocation[0].allocated, 2);
  EXPECT_EQ(stats.allocation[0].freed, 2);
  EXPECT_EQ(stats.inactive_split[0].current, 0);
  allocator::resetPeakStats(0);
  allocator::resetAccumulatedStats(0);
  stats = allocator::getDeviceStats(0);
  EXPECT_EQ(stats.allocated_bytes[0].peak, 0);
  EXPECT_EQ(stats.reserved_bytes[0].peak, static_cast<int64_t>(7 * kMiB));
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
        int64_t allocated,
        int64_t reserved,
        c10::Device device) override {
      reports.push_back({ptr, size, allocated, reserved, device});
    }
    void reportOutOfMemory(int64_t size, int64_t, int64_t, c10::Device)
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

// The first call whose text contains `text` fails with `code`.
void failOnce(const char* text, sycl::errc code) {
  static const char* wanted = nullptr;
  static sycl::errc with{};
  wanted = text;
  with = code;
  c10::xpu::test::sycl_hook = [](const char* call) {
    if (std::strstr(call, wanted) != nullptr) {
      c10::xpu::test::sycl_hook = nullptr;
      throw sycl::exception(make_error_code(with), "injected");
    }
  };
}

bool failed() {
  return c10::xpu::test::sycl_hook == nullptr;
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfMalloc) {
  failOnce("malloc_device", sycl::errc::runtime);
  const std::string error = errorOf([] { allocator::raw_alloc(512); });
  EXPECT_CONTAINS(error, "injected");
  EXPECT_TRUE(failed());
  EXPECT_EQ(reserved(), 0);
  // Lack of memory is tried again, here with success.
  failOnce("malloc_device", sycl::errc::memory_allocation);
  void* ptr = allocator::raw_alloc(512);
  EXPECT_TRUE(failed());
  EXPECT_EQ(allocator::getDeviceStats(0).num_alloc_retries, 1);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, MallocThatKeepsFailing) {
  c10::xpu::test::sycl_hook = [](const char* call) {
    if (std::strstr(call, "malloc_device") != nullptr) {
      throw sycl::exception(
          make_error_code(sycl::errc::memory_allocation), "injected");
    }
  };
  EXPECT_THROW(allocator::raw_alloc(512), c10::OutOfMemoryError);
  c10::xpu::test::sycl_hook = nullptr;
  EXPECT_EQ(reserved(), 0);
  allocator::raw_delete(allocator::raw_alloc(512));
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfFree) {
  allocator::raw_delete(allocator::raw_alloc(512));
  failOnce("free", sycl::errc::runtime);
  EXPECT_THROW(allocator::emptyCache(), c10::Error);
  EXPECT_TRUE(failed());
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
  allocator::emptyCache();
  EXPECT_EQ(reserved(), 0);
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfBarriers) {
  constexpr size_t kBytes = 20 * kMiB; // so much does not wait for a barrier
  const XPUStream side = c10::xpu::getStreamFromPool();
  Gate gate(side);
  c10::DataPtr data = allocator::get()->allocate(kBytes);
  void* ptr = data.get();
  allocator::recordStream(data, side);
  // No error, since the block is freed, and no memory that is lost.
  failOnce("submit_barrier", sycl::errc::runtime);
  data.clear();
  EXPECT_TRUE(failed());
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(active(), 1);
  failOnce("submit_barrier", sycl::errc::runtime);
  EXPECT_CONTAINS(errorOf([] { allocator::raw_alloc(kBytes); }), "injected");
  EXPECT_TRUE(failed());
  gate.finish();
  EXPECT_EQ(allocator::raw_alloc(kBytes), ptr);
  allocator::raw_delete(ptr);
}

TEST_F(XPUCachingAllocatorTest, ErrorsOfEvents) {
  constexpr size_t kBytes = 20 * kMiB;
  const XPUStream side = c10::xpu::getStreamFromPool();
  Gate gate(side);
  c10::DataPtr data = allocator::get()->allocate(kBytes);
  allocator::recordStream(data, side);
  data.clear();
  failOnce("event.get_info", sycl::errc::runtime);
  EXPECT_THROW(allocator::raw_alloc(kBytes), c10::Error);
  EXPECT_TRUE(failed());
  gate.finish();
  failOnce("copy.wait", sycl::errc::runtime);
  EXPECT_THROW(allocator::emptyCache(), c10::Error);
  EXPECT_TRUE(failed());
  EXPECT_EQ(active(), 1);
  allocator::emptyCache();
  EXPECT_EQ(active(), 0);
}

// ---- against the model ----

class RealTarget {
 public:
  RealTarget() {
    for (int i = 0; i < c10::xpu::device_count(); ++i) {
      for (int s = 0; s < kStreams; ++s) {
        streams_.push_back(
            c10::xpu::getStreamFromPool(
                false, static_cast<c10::DeviceIndex>(i)));
      }
    }
  }

  c10::xpu::impl::model::Traits traits() const {
    c10::xpu::impl::model::Traits traits;
    traits.devices = deviceCount();
    for (int64_t s = 0; s < kStreams; ++s) {
      traits.streams.push_back(streams_[s].id());
    }
    traits.max_size = 48 * kMiB;
    // So that a fraction of thousandths is little memory.
    traits.total_memory = c10::xpu::get_device_properties(0).global_mem_size;
    return traits;
  }

  void* allocate(int device, int64_t stream, size_t size) {
    return allocator::raw_alloc_with_stream(size, streamOf({stream, device}));
  }
  void free(void* ptr) {
    allocator::raw_delete(ptr);
  }
  void recordStream(void* ptr, StreamTag stream) {
    c10::DataPtr data(
        ptr, ptr, allocator::get()->raw_deleter(), c10::Device(c10::kXPU, 0));
    allocator::recordStream(data, streamOf(stream));
    data.release_context();
  }
  // Real work, which takes as long as it likes.
  void enqueue(StreamTag stream) {
    streamOf(stream).queue().memset(scratch_.get(), 1, kScratch);
  }
  void finish(StreamTag stream, uint64_t /*count*/) {
    streamOf(stream).synchronize();
  }
  // What streams have finished is not known at any given time.
  bool busy(StreamTag /*stream*/) {
    return false;
  }
  uint64_t enqueued(StreamTag /*stream*/) {
    return 0;
  }
  uint64_t finished(StreamTag /*stream*/) {
    return 0;
  }
  void emptyCache() {
    allocator::emptyCache();
  }
  void setMemoryFraction(double fraction, int device) {
    allocator::setMemoryFraction(fraction, device);
  }
  allocator::DeviceStats stats(int device) {
    return allocator::getDeviceStats(device);
  }
  void resetPeak(int device) {
    allocator::resetPeakStats(device);
  }
  void resetAccumulated(int device) {
    allocator::resetAccumulatedStats(device);
  }
  std::vector<allocator::SegmentInfo> snapshot() {
    return allocator::snapshot();
  }
  bool hasMemory(int /*device*/, size_t limit, size_t reserved, size_t wanted) {
    return reserved + wanted + c10::xpu::impl::kLargeSegmentRound <= limit;
  }
  void inject(uint32_t which) {
    const std::array<const char*, 5> calls = {
        "malloc_device",
        "sycl::free",
        "submit_barrier",
        "event.get_info",
        "copy.wait"};
    failOnce(calls[which % std::size(calls)], sycl::errc::runtime);
  }
  bool clearFault() {
    const bool pending = !failed();
    c10::xpu::test::sycl_hook = nullptr;
    return pending;
  }
  void verify(const std::vector<allocator::SegmentInfo>& snapshot) {
    for (const auto& segment : snapshot) {
      auto* last =
          reinterpret_cast<char*>(segment.address + segment.total_size - 1);
      TORCH_CHECK(
          c10::xpu::get_device_idx_from_pointer(last) == segment.device,
          "wrong owner");
    }
  }

 private:
  static constexpr int kStreams = 3;
  static constexpr size_t kScratch = 4096;

  XPUStream streamOf(StreamTag tag) const {
    return XPUStream::unpack3(
        tag.id, static_cast<c10::DeviceIndex>(tag.device), c10::kXPU);
  }

  struct Scratch {
    void operator()(void* ptr) const {
      c10::xpu::syncStreamsOnDevice();
      sycl::free(ptr, c10::xpu::get_device_context());
    }
  };
  std::vector<XPUStream> streams_;
  std::unique_ptr<void, Scratch> scratch_{sycl::malloc_device(
      kScratch,
      c10::xpu::get_raw_device(0),
      c10::xpu::get_device_context())};
};

TEST_F(XPUCachingAllocatorTest, Model) {
  const auto error = c10::xpu::impl::model::runModel(
      [] { return std::make_unique<RealTarget>(); }, 5000, 5, 500);
  EXPECT_FALSE(error.has_value()) << *error;
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
