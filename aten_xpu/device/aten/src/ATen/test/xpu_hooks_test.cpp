#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/util/Type.h>

#include <string>
#include <typeinfo>

using namespace c10::xpu::test;

// Everything here holds without a device, and must not start the SYCL runtime:
// a test at the end checks that.

TEST(XPUHooksTest, LibraryRegistersItsHooks) {
  const auto& hooks = at::detail::getXPUHooks();
  EXPECT_EQ(c10::demangle(typeid(hooks).name()), "at::xpu::detail::XPUHooks");
  EXPECT_EQ(&hooks, &at::detail::getXPUHooks());
  EXPECT_TRUE(at::XPUHooksRegistry()->Has("XPUHooks"));
}

TEST(XPUHooksTest, LibraryIsKnownWithoutADevice) {
  EXPECT_TRUE(at::detail::getXPUHooks().hasXPU());
  EXPECT_TRUE(at::globalContext().hasXPU());
  EXPECT_TRUE(at::hasXPU());
}

TEST(XPUHooksTest, OrdinaryMemoryIsNotPinned) {
  int local = 0;
  EXPECT_FALSE(at::globalContext().isPinnedPtr(&local));
  EXPECT_FALSE(at::globalContext().isPinnedPtr(nullptr));
}

TEST(XPUHooksTest, OtherDeviceTypesAreAsBefore) {
  int local = 0;
  auto& context = at::globalContext();
  EXPECT_EQ(context.getDeviceFromPtr(&local, at::kCPU), at::Device(at::kCPU));
  EXPECT_EQ(
      context.defaultGenerator(at::kCPU).device().type(), at::DeviceType::CPU);
  EXPECT_THROW(context.getDeviceFromPtr(&local, at::kMPS), c10::Error);
  EXPECT_THROW(context.defaultGenerator(at::kMPS), c10::Error);
}

TEST(XPUHooksTest, NothingAboveStartsTheRuntime) {
  // Also when this test is run alone: loading the library started nothing.
  EXPECT_FALSE(c10::xpu::is_device_pool_initialized());
}
