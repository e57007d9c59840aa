// What holds before the caching allocator is initialised, and how it is.

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/xpu/XPUCachingAllocator.h>

#include <cstdlib>
#include <string>

namespace allocator = c10::xpu::XPUCachingAllocator;

using namespace c10::xpu::test;

TEST(XPUCachingAllocatorInitTest, RegisteredWithoutStartingTheRuntime) {
  inFreshProcess([] {
    EXPECT_EQ(c10::GetAllocator(c10::kXPU), allocator::get());
    EXPECT_FALSE(c10::xpu::is_device_pool_initialized());
    // None of these names a device.
    allocator::emptyCache();
    EXPECT_TRUE(allocator::snapshot().empty());
    allocator::raw_delete(nullptr);
    int local = 0;
    EXPECT_THROW(allocator::raw_delete(&local), c10::Error);
    EXPECT_FALSE(c10::xpu::is_device_pool_initialized());
  });
}

TEST(XPUCachingAllocatorInitTest, NotReadyIsAnError) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    EXPECT_CONTAINS(
        errorOf([] { allocator::getDeviceStats(0); }), "init(device_count)");
    EXPECT_CONTAINS(
        errorOf([] { allocator::raw_alloc(512); }), "init(device_count)");
  });
}

TEST(XPUCachingAllocatorInitTest, DeviceCountIsChecked) {
  inFreshProcess([] {
    const int count = deviceCount();
    EXPECT_THROW(allocator::init(-1), c10::Error);
    EXPECT_THROW(allocator::init(count + 1), c10::Error);
  });
}

TEST(XPUCachingAllocatorInitTest, WrongConfigurationIsAnErrorAndCanBeMended) {
  inFreshProcess([] {
    const int count = deviceCount();
    setenv("PYTORCH_XPU_ALLOC_CONF", "max_split_mb:100", 1);
    const std::string error = errorOf([&] { allocator::init(count); });
    EXPECT_CONTAINS(error, "max_split_size_mb");
    setenv("PYTORCH_XPU_ALLOC_CONF", "max_split_size_mb:32", 1);
    allocator::init(count);
    allocator::init(count);
    if (count == 0) {
      EXPECT_THROW(allocator::raw_alloc(512), c10::Error);
      EXPECT_THROW(allocator::getDeviceStats(0), c10::Error);
      GTEST_SKIP() << "the mapping finds no device";
    }
    EXPECT_EQ(allocator::getDeviceStats(0).max_split_size, 32 << 20);
    allocator::raw_delete(allocator::raw_alloc(512));
  });
}
