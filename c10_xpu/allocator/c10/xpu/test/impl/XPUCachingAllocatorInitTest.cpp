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
    for (const char* wrong :
         {"max_split_mb:100",
          "Max_split_size_mb:100",
          ":100",
          "max_split_size_mb",
          "max_split_size_mb:",
          "max_split_size_mb:20",
          "max_split_size_mb:-1",
          "max_split_size_mb:64MB",
          "roundup_power2_divisions:0",
          "roundup_power2_divisions:3",
          "roundup_power2_divisions:4.5",
          "garbage_collection_threshold:0",
          "garbage_collection_threshold:1",
          "garbage_collection_threshold:nan",
          "garbage_collection_threshold:0.5x"}) {
      const std::string text = std::string(" max_split_size_mb:32,") + wrong;
      setenv("PYTORCH_XPU_ALLOC_CONF", text.c_str(), 1);
      const std::string error = errorOf([&] { allocator::init(count); });
      EXPECT_CONTAINS(error, "PYTORCH_XPU_ALLOC_CONF") << wrong;
      EXPECT_CONTAINS(error, "'" + std::string(wrong) + "'");
      EXPECT_CONTAINS(error, "greater than 20");
    }
    const char* right =
        " max_split_size_mb:32, roundup_power2_divisions : 8,"
        "garbage_collection_threshold:0.000001,";
    setenv("PYTORCH_XPU_ALLOC_CONF", right, 1);
    allocator::init(count);
    allocator::init(count);
    if (count == 0) {
      EXPECT_THROW(allocator::raw_alloc(512), c10::Error);
      EXPECT_THROW(allocator::getDeviceStats(0), c10::Error);
      GTEST_SKIP() << "the mapping finds no device";
    }
    EXPECT_EQ(allocator::getDeviceStats(0).max_split_size, 32 << 20);
    void* const rounded = allocator::raw_alloc((8 << 20) + 1);
    EXPECT_EQ(allocator::getDeviceStats(0).allocated_bytes[0].current, 9 << 20);
    allocator::raw_delete(rounded);
    // What is idle is above the threshold, and goes back.
    allocator::raw_delete(allocator::raw_alloc(16 << 20));
    EXPECT_EQ(allocator::getDeviceStats(0).num_device_free, 1);
  });
}
