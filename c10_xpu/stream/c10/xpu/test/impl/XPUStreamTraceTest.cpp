#include <c10/xpu/XPUStream.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>
#include <c10/xpu/test/impl/XPUTraceRecorder.h>

#include <c10/util/irange.h>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUStreamTraceTest, HooksFire) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    auto& recorder = TraceRecorder::get();
    const XPUStream standard = getDefaultXPUStream();
    const XPUStream stream = getStreamFromPool(-1);
    std::vector<std::string> expected;
    EXPECT_EQ(recorder.take(), expected); // no queue has been used yet
    for (const auto i : c10::irange(2)) {
      const XPUStream each = i == 0 ? stream : getStreamFromPool(-1);
      expected.push_back(TraceRecorder::call("stream_creation", &each.queue()));
    }
    EXPECT_EQ(recorder.take(), expected);

    const auto* queue = &standard.queue();
    EXPECT_EQ(
        recorder.take(),
        std::vector<std::string>{
            TraceRecorder::call("stream_creation", queue)});

    stream.synchronize();
    standard.synchronize();
    syncStreamsOnDevice();
    expected = {
        TraceRecorder::call("stream_synchronization", &stream.queue()),
        TraceRecorder::call("stream_synchronization", queue),
        "device_synchronization"};
    EXPECT_EQ(recorder.take(), expected);

    getStreamFromPool(-1);
    setCurrentXPUStream(stream);
    getCurrentXPUStream();
    stream.query();
    EXPECT_EQ(recorder.take(), std::vector<std::string>());
  });
}
