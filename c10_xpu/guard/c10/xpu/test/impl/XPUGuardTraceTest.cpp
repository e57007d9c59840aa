#include <c10/xpu/test/impl/XPUTestUtil.h>
#include <c10/xpu/test/impl/XPUTraceRecorder.h>

#include <c10/core/Event.h>
#include <c10/xpu/XPUStream.h>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

// What the events that c10::Event keeps through the guard tell the trace hooks.
TEST(XPUGuardTraceTest, HooksOfEventsFire) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  const auto name = [](const XPUStream& s) {
    return c10::str(" ", reinterpret_cast<uintptr_t>(&s.queue()));
  };
  const std::string of_stream = name(stream);
  const std::string of_other = name(other);
  auto& recorder = TraceRecorder::get();
  recorder.take(); // of a former run of this test
  std::string event_name;
  {
    Event event(kXPU);
    event.block(other);
    EXPECT_TRUE(event.query());
    EXPECT_EQ(recorder.take(), std::vector<std::string>());

    event.record(stream);
    const auto calls = recorder.take();
    ASSERT_EQ(calls.size(), 2);
    const std::string creation = "event_creation ";
    ASSERT_EQ(calls[0].rfind(creation, 0), 0);
    event_name = calls[0].substr(creation.size());
    EXPECT_EQ(calls[1], "event_record " + event_name + of_stream);

    event.block(other);
    event.record(other);
    EXPECT_EQ(
        recorder.take(),
        (std::vector<std::string>{
            "event_wait " + event_name + of_other,
            "event_record " + event_name + of_other}));
  }
  EXPECT_EQ(
      recorder.take(),
      std::vector<std::string>{"event_deletion " + event_name});
}
