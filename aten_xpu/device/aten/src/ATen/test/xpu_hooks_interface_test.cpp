#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>

using namespace c10::xpu::test;

// What holds where libtorch_xpu is not there, or is that of an early stage.

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

TEST(XPUHooksInterfaceTest, WithoutLibraryQuestionsAreAnswered) {
  const auto& base = withoutLibrary();
  int local = 0;
  EXPECT_FALSE(base.hasXPU());
  EXPECT_FALSE(base.hasGenerator());
  EXPECT_FALSE(base.isPinnedPtr(&local));
  EXPECT_EQ(base.getNumDevices(), 0);
  EXPECT_EQ(base.current_device(), -1);
}

TEST(XPUHooksInterfaceTest, WithoutLibraryRequestsAreRefused) {
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

TEST(XPUHooksInterfaceTest, AChildForkedDuringInitializationGetsAnError) {
  inFreshProcess([] {
    static std::string wrong = "nothing was initialized";
    // The thread that forks holds whatever is locked meanwhile.
    sycl_hook = [](const char* call) {
      if (!contains(call, "get_devices")) {
        return;
      }
      sycl_hook = nullptr;
      const auto ended = inChild({}, [] {
        const auto text = errorOf([] { at::globalContext().lazyInitXPU(); });
        return contains(text, "forked subprocess") ? "" : text;
      });
      wrong = ended.code == 0 ? "" : c10::str(ended.code, ": ", ended.output);
    };
    errorOf([] { at::globalContext().lazyInitXPU(); }); // perhaps no device
    EXPECT_EQ(wrong, "");
  });
}

TEST(XPUHooksInterfaceTest, ManualSeedWorksWithoutGenerators) {
  at::manual_seed(7);
  EXPECT_EQ(at::globalContext().defaultGenerator(at::kCPU).current_seed(), 7u);
}
