#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/test/impl/XPUNativeGate.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <chrono>
#include <cmath>
#include <future>
#include <set>
#include <thread>

// Events of streams on whose native stream there is work that SYCL knows
// nothing of, and their time as the driver takes it.

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUNativeEventTest, AnEventIsCompleteAfterNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    for (const bool timed : {false, true}) {
      const XPUStream stream = getStreamFromPool();
      NativeGate gate(stream.native_stream());
      XPUEvent event(timed);
      event.record(stream);
      EXPECT_FALSE(event.query());
      auto waiting =
          std::async(std::launch::async, [&] { event.synchronize(); });
      EXPECT_EQ(
          waiting.wait_for(std::chrono::milliseconds(50)),
          std::future_status::timeout);
      gate.open();
      waiting.get();
      EXPECT_TRUE(event.query());
    }
  });
}

// What Stream.wait_stream does.
TEST(XPUNativeEventTest, AnotherStreamWaitsForNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = getStreamFromPool();
    const XPUStream other = getStreamFromPool();
    const Ints memory(0, 1 << 10);
    const Ints out(0, 1 << 10);
    sycl::queue& queue = other.queue();
    NativeGate gate(stream.native_stream());
    fillNatively(stream.native_stream(), memory.get(), 1, memory.bytes());
    XPUEvent event;
    event.record(stream);
    event.block(other);
    queue.memcpy(out.get(), memory.get(), memory.bytes());
    auto copied = queue.ext_oneapi_submit_barrier();
    gate.open();
    copied.wait();
    EXPECT_EQ(valuesOf(queue, out), intsOfBytes(1 << 10, 1));
  });
}

TEST(XPUNativeEventTest, NativeWorkWaitsForAnEvent) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = getStreamFromPool();
    const XPUStream other = getStreamFromPool();
    const Ints memory(0, 1 << 10);
    void* const waiting = other.native_stream();
    NativeGate gate(stream.native_stream());
    fillNatively(stream.native_stream(), memory.get(), 1, memory.bytes());
    XPUEvent event;
    event.record(stream);
    event.block(other);
    fillNatively(waiting, memory.get(), 2, memory.bytes());
    EXPECT_FALSE(other.query());
    gate.open();
    other.synchronize();
    EXPECT_EQ(valuesOf(other, memory), intsOfBytes(1 << 10, 2));
  });
}

TEST(XPUNativeEventTest, TheDriverOfNvidiaTakesTheTime) {
  C10_XPU_NEEDS_NATIVE_WORK();
  if (isCuda()) {
    GTEST_SKIP() << "the driver's time is not known here";
  }
  const XPUStream stream = getStreamFromPool();
  XPUEvent from(true);
  XPUEvent to(true);
  from.record(stream);
  to.record(stream);
  to.synchronize();
  const AsOnNvidia as_on_nvidia;
  cuda_elapsed = 0.0123F;
  EXPECT_EQ(from.elapsed_time(to), double(0.0123F));
}

// SYCL's time stamps on an NVIDIA device are milliseconds since the context
// began, in a float: after 17 s they are multiples of 1/512 ms, 2 us.
TEST(XPUNativeEventTest, TimesAreExactInAnOldProcess) {
  C10_XPU_NEEDS_NATIVE_WORK();
  if (!isCuda()) {
    GTEST_SKIP() << "needs an NVIDIA device";
  }
  using Clock = std::chrono::steady_clock;
  const XPUStream stream = getStreamFromPool();
  const Ints memory(0, 1 << 22);
  const auto submit = [&](int times) {
    for (int i = 0; i < times; ++i) {
      stream.queue().memset(memory.get(), i, memory.bytes());
    }
  };
  submit(1);
  stream.synchronize(); // the context has begun
  std::this_thread::sleep_for(std::chrono::seconds(17)); // to be an old one
  int coarse = 0;
  std::set<double> times;
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) {
    XPUEvent from(true);
    XPUEvent to(true);
    from.record(stream);
    submit(1 + i % 3);
    to.record(stream);
    to.synchronize();
    const double time = from.elapsed_time(to);
    const double multiple = std::round(time * 512) / 512;
    coarse += std::abs(time - multiple) < 3e-6 ? 1 : 0; // SYCL's ns are whole
    times.insert(time);
  }
  EXPECT_LT(coarse, kTimes / 4) << times.size() << " different times";

  // The host's clock agrees, over work that takes far longer than to submit.
  XPUEvent from(true);
  XPUEvent to(true);
  const auto began = Clock::now();
  from.record(stream);
  submit(5000);
  to.record(stream);
  to.synchronize();
  const std::chrono::duration<double, std::milli> host = Clock::now() - began;
  const double time = from.elapsed_time(to);
  EXPECT_LE(time, host.count());
  EXPECT_GT(time, host.count() * 0.9 - 1);
}
