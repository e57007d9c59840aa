#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/test/impl/XPUNativeGate.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <chrono>
#include <future>

// Work that was launched on the native stream of a stream is the stream's. Each
// test holds a native stream up, of which SYCL knows nothing.

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

/// Whether `wait` returns after `gate` is opened and not before.
template <typename Wait>
void expectWaits(NativeGate& gate, Wait&& wait) {
  std::promise<void> started;
  auto waiting = std::async(std::launch::async, [&] {
    started.set_value();
    wait();
  });
  started.get_future().wait();
  EXPECT_EQ(
      waiting.wait_for(std::chrono::milliseconds(50)),
      std::future_status::timeout);
  gate.open();
  waiting.get();
}

/// A stream that is idle as far as it knows.
XPUStream idleStream(int priority = 0) {
  const XPUStream stream = getStreamFromPool(priority);
  impl::launch(stream, [](sycl::queue& queue) {
    return queue.ext_oneapi_submit_barrier();
  });
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  return stream;
}

} // namespace

TEST(XPUNativeStreamTest, TheNativeStreamIsTheSameEachTime) {
  C10_XPU_NEEDS_NATIVE_WORK();
  const XPUStream one = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  EXPECT_NE(one.native_stream(), nullptr);
  EXPECT_EQ(one.native_stream(), one.native_stream());
  EXPECT_NE(one.native_stream(), other.native_stream());
  EXPECT_EQ(impl::nativeStream(one.queue()), one.native_stream());
}

TEST(XPUNativeStreamTest, QueryTellsOfNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = idleStream();
    NativeGate gate(stream.native_stream());
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(stream.query());
    }
    gate.open();
    while (!stream.query()) { // which ends, though it submits nothing else
    }
    NativeGate second(stream.native_stream());
    EXPECT_FALSE(stream.query());
  });
}

TEST(XPUNativeStreamTest, SynchronizeWaitsForNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = idleStream();
    NativeGate gate(stream.native_stream());
    expectWaits(gate, [&] { stream.synchronize(); });
    EXPECT_TRUE(stream.query());
  });
}

TEST(XPUNativeStreamTest, TheDeviceWaitsForNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = idleStream();
    NativeGate gate(stream.native_stream());
    expectWaits(gate, [] { syncStreamsOnDevice(0); });
    EXPECT_TRUE(stream.query());
  });
}

TEST(XPUNativeStreamTest, WhatReadsResultsWaitsForNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = idleStream();
    NativeGate gate(stream.native_stream());
    expectWaits(gate, [&] { impl::waitFor(stream); });
  });
}

TEST(XPUNativeStreamTest, OtherStreamsAreNotHeldUp) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = idleStream();
    const XPUStream other = idleStream();
    const NativeGate gate(stream.native_stream());
    EXPECT_TRUE(other.query());
    other.synchronize();
    EXPECT_FALSE(stream.query());
  });
}

TEST(XPUNativeStreamTest, WorkOfBothKindsIsInOrder) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = getStreamFromPool();
    const Ints memory(0, 1 << 10);
    const Ints out(0, 1 << 10);
    NativeGate gate(stream.native_stream());
    fillNatively(stream.native_stream(), memory.get(), 1, memory.bytes());
    impl::launch(stream, [&](sycl::queue& queue) {
      return queue.memcpy(out.get(), memory.get(), memory.bytes());
    });
    EXPECT_FALSE(stream.query());
    gate.open();
    stream.synchronize();
    EXPECT_EQ(valuesOf(stream, out), intsOfBytes(1 << 10, 1));
  });
}

TEST(XPUNativeStreamTest, AnExternalStreamKeepsItsNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    sycl::queue queue(
        get_device_context(),
        get_raw_device(0),
        sycl::property::queue::in_order());
    const XPUStream stream = getStreamFromExternal(&queue, 0);
    void* const native = stream.native_stream();
    EXPECT_EQ(getStreamFromExternal(&queue, 0), stream);
    NativeGate gate(native);
    EXPECT_FALSE(stream.query());
    expectWaits(gate, [&] { stream.synchronize(); });
    EXPECT_TRUE(stream.query());
  });
}

TEST(XPUNativeStreamTest, WithoutANativeStreamNothingElseIsAsked) {
  C10_XPU_NEEDS_NATIVE_WORK();
  const XPUStream stream = idleStream(1); // of a pool that no other test uses
  void* const native = impl::nativeStream(impl::queueOf(stream));
  const NativeGate gate(native); // which was not handed out by the stream
  ASSERT_TRUE(stream.query());
  stream.synchronize();
  impl::waitFor(stream);
}

TEST(XPUNativeStreamTest, OnlyKnownStreamsHaveANativeStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream unknown(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, 0), 2));
  EXPECT_CONTAINS(
      errorOf([&] { unknown.native_stream(); }), "There is no XPU stream");
}
