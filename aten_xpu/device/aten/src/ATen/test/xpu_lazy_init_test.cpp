#include <ATen/test/xpu_names.h>
#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>

#include <string>
#include <vector>

using namespace c10::xpu::test;

TEST(XPULazyInitTest, AFailureIsTriedAgainAndThreadsInitializeOnce) {
  inFreshProcess([] {
    auto& context = at::globalContext();
    {
      Fault fault("");
      int local = 0;
      EXPECT_CONTAINS(errorOf([&] { initContext(); }), "injected");
      EXPECT_CONTAINS(
          errorOf([&] { context.getDeviceFromPtr(&local, at::kXPU); }),
          "injected");
      EXPECT_CONTAINS(
          errorOf([&] { context.defaultGenerator(at::kXPU); }), "injected");
    }
    EXPECT_FALSE(c10::xpu::is_device_pool_initialized());

    constexpr size_t kThreads = 16;
    std::vector<std::string> errors(kThreads);
    inThreads(kThreads, [&](size_t n) {
      errors[n] = errorOf([&] { initContext(); });
      if (!c10::xpu::is_device_pool_initialized()) {
        errors[n] += ", but there is no pool of devices";
      }
    });

    ASSERT_TRUE(c10::xpu::device_count() > 0 || mayHaveNoDevice());
    for (const auto& error : errors) {
      if (c10::xpu::device_count() > 0) {
        EXPECT_EQ(error, "no error");
      } else {
        EXPECT_CONTAINS(error, "No XPU device is available");
      }
    }
  });
}
