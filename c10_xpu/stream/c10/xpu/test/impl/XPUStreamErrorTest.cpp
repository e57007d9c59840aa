#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <array>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUStreamErrorTest, ErrorsOfSYCLComeOutAsErrors) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  stream.queue().ext_oneapi_submit_barrier();
  {
    Gate gate(stream); // an idle queue need not be waited for
    Fault fault("queue::wait");
    EXPECT_CONTAINS(errorOf([&] { stream.synchronize(); }), "injected");
  }
  {
    // whichever call the backend needs
    Fault fault("");
    EXPECT_CONTAINS(errorOf([&] { stream.query(); }), "injected");
    EXPECT_CONTAINS(errorOf([&] { syncStreamsOnDevice(); }), "injected");
  }
  {
    Fault fault("throw_asynchronous");
    EXPECT_CONTAINS(errorOf([&] { stream.synchronize(); }), "injected");
    EXPECT_CONTAINS(errorOf([&] { syncStreamsOnDevice(); }), "injected");
  }
  sycl::queue external(
      get_device_context(),
      get_raw_device(0),
      sycl::property::queue::in_order());
  for (const char* call : {"is_in_order", "get_context", "get_device"}) {
    Fault fault(call);
    EXPECT_CONTAINS(
        errorOf([&] { getStreamFromExternal(&external, 0); }), "injected");
  }
  stream.synchronize();
  syncStreamsOnDevice();
}

TEST(XPUStreamErrorTest, AnErrorOfOneQueueDoesNotKeepTheOthersWaiting) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool();
  Ints memory(0, 1 << 22);
  first.queue().memset(memory.get(), 1, memory.bytes());
  second.queue().memset(memory.get(), 2, memory.bytes());
  {
    // The first queue that is asked fails; which one that is does not matter.
    Fault fault("throw_asynchronous");
    EXPECT_CONTAINS(errorOf([] { syncStreamsOnDevice(); }), "injected");
  }
  EXPECT_TRUE(first.query());
  EXPECT_TRUE(second.query());
}

TEST(XPUStreamErrorTest, AsynchronousErrorsSurfaceAtSynchronize) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  submitFailure(stream.queue(), "the work has failed");
  const auto text = errorOf([&] { stream.synchronize(); });
  EXPECT_CONTAINS(text, "asynchronous error");
  EXPECT_CONTAINS(text, "the work has failed");
  EXPECT_CONTAINS(text, c10::str("stream ", stream.id(), " on device xpu:0"));
  // once
  stream.synchronize();
  syncStreamsOnDevice();
  // and the stream goes on
  Ints memory(0, 16);
  std::array<int, 16> out{};
  stream.queue().memset(memory.get(), 3, memory.bytes());
  stream.queue().memcpy(out.data(), memory.get(), memory.bytes());
  stream.synchronize();
  EXPECT_EQ(out[15], 0x03030303);
}

TEST(XPUStreamErrorTest, AsynchronousErrorsSurfaceAtDeviceSynchronization) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getDefaultXPUStream();
  submitFailure(first.queue(), "one failed");
  submitFailure(second.queue(), "another failed");
  submitFailure(second.queue(), "and one more");
  const auto text = errorOf([] { syncStreamsOnDevice(); });
  EXPECT_CONTAINS(text, "one failed");
  EXPECT_CONTAINS(text, "another failed");
  EXPECT_CONTAINS(text, "and one more");
  syncStreamsOnDevice();
}

TEST(XPUStreamErrorTest, AsynchronousErrorsOfIdleQueuesAreNotLost) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  submitFailure(stream.queue(), "failed long ago");
  stream.queue().wait();
  EXPECT_CONTAINS(errorOf([] { syncStreamsOnDevice(); }), "failed long ago");
}

// What is complete may be read.
TEST(XPUStreamErrorTest, AskingACompleteStreamRaisesItsErrors) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream launched = getStreamFromPool();
  const XPUStream handed_out = getStreamFromPool();
  handed_out.queue();
  for (const auto& stream : {launched, handed_out}) {
    for (const bool waits : {false, true}) {
      impl::launch(stream, [](sycl::queue& queue) {
        submitFailure(queue, "it failed");
        return queue.ext_oneapi_submit_barrier();
      });
      const auto text = errorOf([&] {
        if (waits) {
          impl::waitFor(stream);
        }
        while (!stream.query()) {
          std::this_thread::yield();
        }
      });
      EXPECT_CONTAINS(text, "it failed");
      EXPECT_TRUE(stream.query()); // once
      impl::waitFor(stream);
    }
  }
}

// See Note [Work of a stream]
TEST(XPUStreamErrorTest, AnIdleStreamIsAskedOnlyIfItsQueueWasHandedOut) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const auto launch = [&] {
    impl::launch(stream, [](sycl::queue& queue) {
      return queue.ext_oneapi_submit_barrier();
    });
  };
  const auto asks_nothing = [&] {
    Fault any("");
    EXPECT_TRUE(stream.query());
    stream.synchronize();
    impl::waitFor(stream);
  };
  asks_nothing();
  impl::queueOf(stream);
  asks_nothing();
  launch();
  stream.synchronize();
  asks_nothing();
  launch();
  while (!stream.query()) {
    std::this_thread::yield();
  }
  asks_nothing();
  launch();
  syncStreamsOnDevice();
  asks_nothing();
  impl::launch(
      stream,
      [](sycl::queue& queue) { return queue.ext_oneapi_submit_barrier(); },
      impl::Submitted::Marker);
  {
    Fault any("");
    impl::waitFor(stream);
    EXPECT_ANY_THROW(stream.query());
  }
  stream.synchronize();
  asks_nothing();
  {
    Fault fault("submit_barrier");
    EXPECT_ANY_THROW(launch()); // may have submitted something
  }
  {
    Fault any("");
    EXPECT_ANY_THROW(stream.query());
  }
  EXPECT_TRUE(stream.query());
  asks_nothing();
  stream.queue();
  Fault any("");
  EXPECT_ANY_THROW(stream.query());
}

TEST(XPUStreamErrorTest, AsynchronousErrorsNameTheirDevice) {
  C10_XPU_NEEDS_DEVICES(2);
  const XPUStream first = getStreamFromPool(false, 0);
  const XPUStream second = getStreamFromPool(false, 1);
  submitFailure(second.queue(), "of device 1");
  second.queue().wait();
  first.queue().ext_oneapi_submit_barrier();
  first.synchronize();
  syncStreamsOnDevice(0);
  const auto text = errorOf([&] { syncStreamsOnDevice(1); });
  EXPECT_CONTAINS(text, "of device 1");
  EXPECT_CONTAINS(text, "on device xpu:1");
}

TEST(XPUStreamErrorTest, AsynchronousErrorsAreRaisedAtTheirOwnStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream failed = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  submitFailure(failed.queue(), "of the first stream");
  failed.queue().wait();
  other.queue().ext_oneapi_submit_barrier();
  other.synchronize(); // SYCL may deliver the error now
  other.synchronize();
  EXPECT_CONTAINS(
      errorOf([&] { failed.synchronize(); }), "of the first stream");
  failed.synchronize();
  syncStreamsOnDevice();
}

// See Note [Asynchronous errors]
TEST(XPUStreamErrorTest, AnExternalQueueMayUseOurHandler) {
  C10_XPU_NEEDS_DEVICES(1);
  sycl::queue external(
      get_raw_device(0), asyncHandler, sycl::property::queue::in_order());
  const XPUStream stream = getStreamFromExternal(&external, 0);
  submitFailure(external, "external work failed");
  external.wait();
  getDefaultXPUStream().queue().ext_oneapi_submit_barrier();
  getDefaultXPUStream().synchronize(); // is not the one that failed
  EXPECT_CONTAINS(
      errorOf([&] { stream.synchronize(); }), "external work failed");
  submitFailure(external, "failed again");
  external.wait();
  EXPECT_CONTAINS(errorOf([] { syncStreamsOnDevice(0); }), "failed again");
  syncStreamsOnDevice(0);
}

TEST(XPUStreamErrorTest, AnExternalQueuesOwnHandlerGetsItsErrors) {
  C10_XPU_NEEDS_DEVICES(1);
  std::atomic<int> handled{0};
  sycl::queue external(
      get_device_context(),
      get_raw_device(0),
      [&](sycl::exception_list errors) {
        handled += static_cast<int>(errors.size());
      },
      sycl::property::queue::in_order());
  const XPUStream stream = getStreamFromExternal(&external, 0);
  submitFailure(external, "theirs");
  stream.synchronize();
  EXPECT_EQ(handled, 1);
}
