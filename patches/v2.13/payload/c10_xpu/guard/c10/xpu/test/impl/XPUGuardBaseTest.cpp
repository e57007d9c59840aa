// What the guard interface has on this base beside what XPUGuardTest tests.

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/xpu/XPUStream.h>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

const c10::impl::VirtualGuardImpl& guard() {
  static const c10::impl::VirtualGuardImpl impl(kXPU);
  return impl;
}

} // namespace

TEST(XPUGuardBaseTest, NewStreamsHaveTheirDeviceAndPriority) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  for (const int priority : {-1, 0, 1}) {
    const XPUStream stream(guard().getNewStream(Device(kXPU, last), priority));
    EXPECT_EQ(stream.device_index(), last);
    EXPECT_EQ(stream.priority(), priority);
  }
  EXPECT_THROW(guard().getNewStream(Device(kXPU, 0), 2), c10::Error);
  EXPECT_THROW(guard().getNewStream(Device(kCPU)), c10::Error);
}

TEST(XPUGuardBaseTest, TheNativeHandleIsTheQueue) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  EXPECT_EQ(guard().getStreamNativeHandle(stream), &stream.queue());
  EXPECT_FALSE(guard().isStreamCapturing(stream));
}

TEST(XPUGuardBaseTest, CapabilitiesAreThoseOfTheDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto& properties = get_device_properties(0);
  for (const Device device : {Device(kXPU), Device(kXPU, 0)}) {
    const auto types = guard().getDeviceCapability(device).capability_data;
    EXPECT_EQ(types.supported_scalar_types.has_Half, properties.has_fp16);
    EXPECT_EQ(types.supported_scalar_types.has_Double, properties.has_fp64);
    EXPECT_TRUE(types.supported_scalar_types.has_Float);
  }
}

TEST(XPUGuardBaseTest, EventsHaveATimeAndCanBeWaitedFor) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  c10::Event first(kXPU, EventFlag::BACKEND_DEFAULT);
  c10::Event second(kXPU, EventFlag::BACKEND_DEFAULT);
  EXPECT_THROW(first.elapsedTime(second), c10::Error); // not recorded
  first.synchronize();
  first.record(stream);
  Gate gate(stream.queue());
  second.record(stream);
  EXPECT_FALSE(second.query());
  gate.open();
  second.synchronize();
  EXPECT_TRUE(second.query());
  EXPECT_GT(first.elapsedTime(second), 0);
  EXPECT_LT(second.elapsedTime(first), 0);

  c10::Event untimed(kXPU);
  untimed.record(stream);
  untimed.synchronize();
  EXPECT_THROW(first.elapsedTime(untimed), c10::Error);
}

TEST(XPUGuardBaseTest, ADeviceIsWaitedFor) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate gate(stream.queue());
  EXPECT_FALSE(stream.query());
  gate.open();
  guard().synchronizeDevice(0);
  EXPECT_TRUE(stream.query());
  EXPECT_THROW(guard().synchronizeDevice(device_count()), c10::Error);
}

TEST(XPUGuardBaseTest, DevicesThatDoNotExistRaise) {
  C10_XPU_NEEDS_DEVICES(1);
  const Device beyond(kXPU, device_count());
  const Stream stream(Stream::DEFAULT, beyond);
  const auto raises = [](const auto& call) {
    EXPECT_CONTAINS(errorOf(call), "is out of range");
  };
  raises([&] { guard().getNewStream(beyond); });
  raises([&] { guard().getStreamNativeHandle(stream); });
  raises([&] { guard().getDeviceCapability(beyond); });
  raises([&] { guard().synchronizeDevice(beyond.index()); });
}
