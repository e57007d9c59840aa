#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/util/Type.h>

#include <string>
#include <typeinfo>

using namespace c10::xpu::test;

// Everything here holds without a device, and must not start the SYCL runtime:
// a test at the end checks that.

namespace {

const at::XPUHooksInterface& withoutLibrary() {
  static const at::XPUHooksInterface base;
  return base;
}

} // namespace

#define EXPECT_REFUSED(what, request)                                     \
  EXPECT_EQ(                                                              \
      errorOf([] {                                                        \
        const auto& hooks = withoutLibrary();                             \
        request;                                                          \
      }),                                                                 \
      "Cannot " what                                                      \
      ": libtorch_xpu is not loaded in this process. Use a PyTorch that " \
      "was built with USE_XPU=1; a C++ program also has to link the "     \
      "library in a way that the linker keeps it (-Wl,--no-as-needed).")

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

TEST(XPUHooksTest, WithoutLibraryQuestionsAreAnswered) {
  const auto& base = withoutLibrary();
  int local = 0;
  EXPECT_FALSE(base.hasXPU());
  EXPECT_FALSE(base.hasGenerator());
  EXPECT_FALSE(base.isPinnedPtr(&local));
  EXPECT_EQ(base.getNumDevices(), 0);
  EXPECT_EQ(base.current_device(), -1);
}

TEST(XPUHooksTest, WithoutLibraryRequestsAreRefused) {
  EXPECT_REFUSED("initialize XPU", hooks.initXPU());
  EXPECT_REFUSED("show the configuration of XPU", hooks.showConfig());
  EXPECT_REFUSED(
      "get SYCL's index of device xpu:1",
      hooks.getGlobalIdxFromDevice(at::Device("xpu:1")));
  EXPECT_REFUSED(
      "get the XPU device that owns pointer 0x10",
      hooks.getDeviceFromPtr(reinterpret_cast<void*>(0x10)));
  EXPECT_REFUSED(
      "get the allocator of pinned memory for XPU",
      hooks.getPinnedMemoryAllocator());
  EXPECT_REFUSED(
      "get the default generator of xpu:1", hooks.getDefaultXPUGenerator(1));
  EXPECT_REFUSED(
      "get the default generator of xpu", hooks.getDefaultXPUGenerator());
  EXPECT_REFUSED("create a generator for xpu:1", hooks.getXPUGenerator(1));
}

TEST(XPUHooksTest, OrdinaryMemoryIsNotPinned) {
  int local = 0;
  EXPECT_FALSE(at::Context::isPinnedPtr(&local));
  EXPECT_FALSE(at::Context::isPinnedPtr(nullptr));
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
