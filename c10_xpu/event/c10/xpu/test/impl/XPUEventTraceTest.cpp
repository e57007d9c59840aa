#include <c10/xpu/test/impl/XPUTestUtil.h>
#include <c10/xpu/test/impl/XPUTraceRecorder.h>

#include <c10/xpu/XPUEvent.h>

using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUEventTraceTest, HooksFire) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  const auto nameOf = [](const XPUStream& s) {
    return c10::str(" ", reinterpret_cast<uintptr_t>(&s.queue()));
  };
  const std::string of_stream = nameOf(stream);
  const std::string of_other = nameOf(other);
  auto& recorder = TraceRecorder::get();
  recorder.take(); // of a former run of this test
  std::vector<std::string> expected;
  for (const bool timing : {false, true}) {
    {
      XPUEvent event(timing);
      event.synchronize();
      event.block(other);
      event.query();
      EXPECT_EQ(recorder.take(), std::vector<std::string>());

      event.record(stream);
      auto calls = recorder.take();
      ASSERT_EQ(calls.size(), 2);
      const std::string creation = "event_creation ";
      ASSERT_EQ(calls[0].rfind(creation, 0), 0);
      const std::string name = calls[0].substr(creation.size());
      EXPECT_EQ(calls[1], c10::str("event_record ", name, of_stream));

      // the name stays with the event
      XPUEvent moved(std::move(event));
      moved.record(other);
      moved.block(stream);
      moved.synchronize();
      EXPECT_EQ(
          recorder.take(),
          (std::vector<std::string>{
              c10::str("event_record ", name, of_other),
              c10::str("event_wait ", name, of_stream),
              "event_synchronization " + name}));
      expected = {"event_deletion " + name};
    }
    EXPECT_EQ(recorder.take(), expected);
  }
}
