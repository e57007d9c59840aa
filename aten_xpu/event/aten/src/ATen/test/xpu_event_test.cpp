#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/xpu/XPUEvent.h>

#include <type_traits>

static_assert(std::is_same_v<at::xpu::XPUEvent, c10::xpu::XPUEvent>);

TEST(XPUEventTest, IsFoundInATen) {
  C10_XPU_NEEDS_DEVICES(1);
  at::xpu::XPUEvent start(/*enable_timing=*/true);
  at::xpu::XPUEvent end(/*enable_timing=*/true);
  start.record();
  end.record();
  end.synchronize();
  EXPECT_GE(start.elapsed_time(end), 0);
}
