#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>

using namespace c10::xpu::test;

// What torch.accelerator asks of the hooks.

namespace {

const at::AcceleratorHooksInterface& hooks() {
  return at::globalContext().getAcceleratorHooksInterface(at::kXPU);
}

} // namespace

TEST(XPUAcceleratorHooksTest, XPUIsTheAccelerator) {
  EXPECT_EQ(at::getAccelerator(), c10::optional<c10::DeviceType>(at::kXPU));
  EXPECT_TRUE(hooks().isBuilt());
  EXPECT_EQ(hooks().isAvailable(), c10::xpu::is_available());
  EXPECT_EQ(hooks().deviceCount(), c10::xpu::device_count());
}

TEST(XPUAcceleratorHooksTest, DevicesAreC10s) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto count = c10::xpu::device_count();
  for (const auto i : c10::irange(count)) {
    hooks().setCurrentDevice(i);
    EXPECT_EQ(c10::xpu::current_device(), i);
    EXPECT_EQ(hooks().getCurrentDevice(), i);
    EXPECT_EQ(hooks().exchangeDevice(0), i);
    EXPECT_EQ(hooks().maybeExchangeDevice(-1), 0);
    EXPECT_TRUE(hooks().hasPrimaryContext(i));
  }
  EXPECT_THROW(hooks().setCurrentDevice(count), c10::Error);
  EXPECT_FALSE(hooks().hasPrimaryContext(count));
}

TEST(XPUAcceleratorHooksTest, InAForkedChildTheyAnswer) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto count = c10::xpu::device_count();
  const auto ended = inChild({}, [&]() -> std::string {
    return hooks().deviceCount() != count ? "count"
        : hooks().hasPrimaryContext(0)    ? "context"
                                          : "";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}
