#include <c10/xpu/XPUStream.h>
#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

// What needs queues that nobody has made or used yet: each test has a process
// of its own.

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUStreamFirstUseTest, AQueueThatCannotBeMadeRaisesAndIsTriedAgain) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    {
      Fault fault("queue::queue");
      const auto text = errorOf([] { getDefaultXPUStream().queue(); });
      EXPECT_CONTAINS(text, "XPU error: injected");
      EXPECT_CONTAINS(text, "sycl::queue(");
    }
    EXPECT_TRUE(getDefaultXPUStream().queue().is_in_order());
    const XPUStream stream = getStreamFromPool(1);
    {
      Fault fault("queue::queue", 0, 1);
      EXPECT_CONTAINS(errorOf([&] { stream.queue(); }), "injected");
      stream.queue();
    }
    stream.queue().ext_oneapi_submit_barrier();
    stream.synchronize();
    EXPECT_TRUE(stream.query());
  });
}

TEST(XPUStreamFirstUseTest, StreamsThatNobodyUsesCostNoCall) {
  inFreshProcess([] {
    C10_XPU_NEEDS_DEVICES(1);
    getDefaultXPUStream().queue();
    const auto callsOfSync = [] {
      static int calls;
      calls = 0;
      sycl_hook = [](const char*) { ++calls; };
      syncStreamsOnDevice();
      sycl_hook = nullptr;
      return calls;
    };
    const int before = callsOfSync();
    EXPECT_GT(before, 0);
    const XPUStream stream = getStreamFromPool(-1);
    for (int i = 1; i < 32; ++i) {
      getStreamFromPool(-1);
    }
    EXPECT_EQ(callsOfSync(), before);
    {
      Fault any("");
      EXPECT_TRUE(stream.query());
      stream.synchronize();
    }
    stream.queue();
    EXPECT_GT(callsOfSync(), before);
  });
}
