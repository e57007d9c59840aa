// The caching allocator as the c10::DeviceAllocator of XPU.

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/xpu/XPUCachingAllocator.h>

#include <array>
#include <numeric>

namespace allocator = c10::xpu::XPUCachingAllocator;
using namespace c10::xpu;
using namespace c10::xpu::test;
using Type = c10::CachingAllocator::StatType;

namespace {

c10::DeviceAllocator& device() {
  return *c10::getDeviceAllocator(c10::kXPU);
}

} // namespace

TEST(XPUAllocatorTest, IsReadyOnceItWasInitialized) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    EXPECT_FALSE(device().initialized());
    EXPECT_THROW(device().getDeviceStats(0), c10::Error);
    allocator::get()->init(device_count());
    EXPECT_TRUE(device().initialized());
  });
}

TEST(XPUAllocatorTest, StatisticsAreThoseOfTheCachingAllocator) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
    constexpr auto kAll = static_cast<size_t>(Type::AGGREGATE);
    void* const ptr = allocator::get()->raw_alloc(1000);
    auto stats = device().getDeviceStats(0);
    EXPECT_EQ(stats.allocated_bytes[kAll].current, 1024);
    EXPECT_EQ(stats.requested_bytes[kAll].current, 1000);
    EXPECT_EQ(stats.allocation[kAll].allocated, 1);
    EXPECT_EQ(stats.num_device_alloc, 1);
    EXPECT_EQ(
        stats.max_split_size, allocator::getDeviceStats(0).max_split_size);
    allocator::get()->raw_delete(ptr);
    device().resetPeakStats(0);
    device().resetAccumulatedStats(0);
    stats = device().getDeviceStats(0);
    EXPECT_EQ(stats.allocated_bytes[kAll].peak, 0);
    EXPECT_EQ(stats.allocation[kAll].allocated, 0);
    EXPECT_GT(stats.reserved_bytes[kAll].current, 0);
    device().emptyCache({0, 1}); // of a private pool, which there is not
    EXPECT_GT(device().getDeviceStats(0).reserved_bytes[kAll].current, 0);
    device().emptyCache();
    EXPECT_EQ(device().getDeviceStats(0).reserved_bytes[kAll].current, 0);
  });
}

TEST(XPUAllocatorTest, MemoryIsKeptForAStreamThatUsesIt) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
    const XPUStream stream = getStreamFromPool();
    Gate gate(stream.queue());
    c10::DataPtr data = device().allocate(512);
    void* const ptr = data.get();
    device().recordStream(data, stream.unwrap());
    data.clear();
    EXPECT_NE(device().allocate(512).get(), ptr);
    EXPECT_THROW(
        device().recordStream(
            data, c10::Stream(c10::Stream::DEFAULT, c10::kCPU)),
        c10::Error);
  });
}

TEST(XPUAllocatorTest, CopiesBetweenItsAllocations) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
    std::array<int, 256> numbers{};
    std::iota(numbers.begin(), numbers.end(), 1);
    const auto original = device().allocate(sizeof(numbers));
    auto& queue = getCurrentXPUStream().queue();
    queue.memcpy(original.get(), numbers.data(), sizeof(numbers));
    const auto copy = device().clone(original.get(), sizeof(numbers));
    std::array<int, 256> found{};
    queue.memcpy(found.data(), copy.get(), sizeof(found)).wait();
    EXPECT_EQ(found, numbers);
  });
}

TEST(XPUAllocatorTest, MemoryInfoSaysWhatTheDeviceHas) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
    if (const auto free = get_free_memory(0)) {
      const auto [now, total] = device().getMemoryInfo(0);
      EXPECT_GT(now, 0);
      EXPECT_EQ(total, get_device_properties(0).global_mem_size);
    } else {
      EXPECT_CONTAINS(
          errorOf([] { device().getMemoryInfo(0); }), "SYCL does not tell");
    }
  });
}
