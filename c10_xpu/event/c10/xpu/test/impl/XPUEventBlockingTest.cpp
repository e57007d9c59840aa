#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

// TORCH_XPU_LAUNCH_BLOCKING is read once: each test has a process of its own.

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

void withBlocking(const char* value, const std::function<void()>& body) {
  inFreshProcess(
      [&] {
        C10_XPU_NEEDS_DEVICES(1);
        body();
      },
      {{"TORCH_XPU_LAUNCH_BLOCKING", value}});
}

/// A stream whose work has failed; the error has not been raised yet.
XPUStream failedStream(const char* text) {
  const XPUStream stream = getStreamFromPool();
  submitFailure(stream.queue(), text);
  stream.queue().wait();
  return stream;
}

} // namespace

TEST(XPUEventBlockingTest, AnErrorIsRaisedAtRecord) {
  withBlocking("1", [] {
    for (const bool timing : {false, true}) {
      const XPUStream stream = failedStream("failed before record");
      XPUEvent event(timing);
      EXPECT_CONTAINS(
          errorOf([&] { event.record(stream); }), "failed before record");
      EXPECT_FALSE(event.isCreated());
      stream.synchronize(); // it was raised
      event.record(stream);
      EXPECT_TRUE(event.query());
    }
  });
}

TEST(XPUEventBlockingTest, AnErrorIsRaisedAtBlock) {
  withBlocking("1", [] {
    XPUEvent event;
    event.record(getStreamFromPool());
    const XPUStream stream = failedStream("failed before block");
    EXPECT_CONTAINS(
        errorOf([&] { event.block(stream); }), "failed before block");
    stream.synchronize(); // it was raised
  });
}

TEST(XPUEventBlockingTest, WorkIsCompleteAfterRecord) {
  withBlocking("1", [] {
    const XPUStream stream = getStreamFromPool();
    Ints memory(0, 1 << 22);
    XPUEvent event;
    stream.queue().memset(memory.get(), 1, memory.bytes());
    event.record(stream);
    EXPECT_TRUE(event.query());
  });
}

TEST(XPUEventBlockingTest, ATaskThatTheHostHoldsIsNotWaitedFor) {
  withBlocking("1", [] {
    const XPUStream stream = getStreamFromPool();
    const XPUStream other = getStreamFromPool();
    Gate gate(stream);
    XPUEvent event;
    event.record(stream);
    event.block(other);
    EXPECT_FALSE(event.query());
    EXPECT_FALSE(other.query());
    gate.finish();
    other.synchronize();
    EXPECT_TRUE(event.query());
  });
}

TEST(XPUEventBlockingTest, WithoutItAnErrorWaitsForSynchronize) {
  for (const char* value : {"", "0"}) {
    withBlocking(value, [] {
      const XPUStream stream = failedStream("failed before record");
      XPUEvent event;
      event.record(stream);
      event.block(stream);
      EXPECT_CONTAINS(
          errorOf([&] { stream.synchronize(); }), "failed before record");
    });
  }
}
