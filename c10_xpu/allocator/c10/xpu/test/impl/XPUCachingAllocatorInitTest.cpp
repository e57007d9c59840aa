// What holds before the caching allocator is initialised, and how it is. Tests
// of one process, in this order.

#include <gtest/gtest.h>

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>

#include <cstdlib>
#include <string>

namespace allocator = c10::xpu::XPUCachingAllocator;

namespace {

template <class F>
std::string errorOf(F f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

} // namespace

TEST(XPUCachingAllocatorInitTest, RegisteredWithoutStartingTheRuntime) {
  EXPECT_EQ(c10::GetAllocator(c10::kXPU), allocator::get());
  EXPECT_FALSE(c10::xpu::is_device_pool_initialized());
  // None of these names a device.
  allocator::emptyCache();
  EXPECT_TRUE(allocator::snapshot().empty());
  allocator::raw_delete(nullptr);
  int local = 0;
  EXPECT_THROW(allocator::raw_delete(&local), c10::Error);
  EXPECT_FALSE(c10::xpu::is_device_pool_initialized());
}

TEST(XPUCachingAllocatorInitTest, NotReadyIsAnError) {
  const std::string error = errorOf([] { allocator::getDeviceStats(0); });
  EXPECT_NE(error.find("init(device_count)"), std::string::npos) << error;
  EXPECT_THROW(allocator::raw_alloc(512), c10::Error);
}

TEST(XPUCachingAllocatorInitTest, DeviceCountIsChecked) {
  const int count = c10::xpu::device_count();
  EXPECT_THROW(allocator::init(-1), c10::Error);
  EXPECT_THROW(allocator::init(count + 1), c10::Error);
}

TEST(XPUCachingAllocatorInitTest, WrongConfigurationIsAnErrorAndCanBeMended) {
  const int count = c10::xpu::device_count();
  setenv("PYTORCH_XPU_ALLOC_CONF", "max_split_mb:100", 1);
  const std::string error = errorOf([&] { allocator::init(count); });
  EXPECT_NE(error.find("max_split_size_mb"), std::string::npos) << error;
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
}
