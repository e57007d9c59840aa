#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/test/impl/XPUNativeGate.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

sycl::queue makeQueue(bool timed = false) {
  const sycl::property::queue::in_order in_order;
  const sycl::property::queue::enable_profiling profiling;
  return sycl::queue(
      get_device_context(),
      get_raw_device(0),
      timed ? sycl::property_list{in_order, profiling}
            : sycl::property_list{in_order});
}

bool isComplete(const sycl::event& event) {
  using Status = sycl::info::event::command_execution_status;
  return event.get_info<Status>() == sycl::info::event_command_status::complete;
}

} // namespace

TEST(XPUNativeTest, WorkOfANativeStreamIsInOrderWithThatOfTheQueue) {
  C10_XPU_NEEDS_NATIVE_WORK();
  sycl::queue queue = makeQueue();
  void* const stream = impl::nativeStream(queue);
  EXPECT_EQ(impl::nativeStream(queue), stream);
  const Ints memory(0, 1 << 10);
  const Ints first(0, 1 << 10);
  NativeGate gate(stream);
  fillNatively(stream, memory.get(), 1, memory.bytes());
  queue.memcpy(first.get(), memory.get(), memory.bytes());
  queue.memset(memory.get(), 2, memory.bytes());
  auto barrier = queue.ext_oneapi_submit_barrier();
  EXPECT_FALSE(isComplete(barrier));
  fillNatively(stream, memory.get(), 3, memory.bytes());
  gate.open();
  barrier.wait();
  EXPECT_EQ(valuesOf(queue, first), intsOfBytes(1 << 10, 1));
  EXPECT_EQ(valuesOf(queue, memory), intsOfBytes(1 << 10, 3));
}

TEST(XPUNativeTest, TheBackendSaysWhetherAQueueIsIdle) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    sycl::queue queue = makeQueue();
    void* const stream = impl::nativeStream(queue);
    if (queue.get_backend() == sycl::backend::opencl) {
      EXPECT_FALSE(impl::isIdle(queue, false).has_value());
      EXPECT_FALSE(impl::isIdle(queue, true).has_value());
      return;
    }
    EXPECT_EQ(impl::isIdle(queue, true), true);
    NativeGate gate(stream);
    EXPECT_EQ(impl::isIdle(queue, true), false);
    gate.open();
    queue.ext_oneapi_submit_barrier().wait();
    EXPECT_EQ(impl::isIdle(queue, true), true);
    EXPECT_EQ(impl::isIdle(queue, false), true);
  });
}

TEST(XPUNativeTest, OnlyDevicesOfNvidiaHaveANumberInCuda) {
  C10_XPU_NEEDS_DEVICES(1);
  EXPECT_EQ(impl::cudaDevice(get_raw_device(0)).has_value(), isCuda());
}

TEST(XPUNativeTest, TheDriverTakesTheTimeOnNvidiaOnly) {
  C10_XPU_NEEDS_NATIVE_WORK();
  sycl::queue queue = makeQueue(/*timed=*/true);
  auto from = queue.ext_oneapi_submit_barrier();
  auto to = queue.ext_oneapi_submit_barrier();
  to.wait();
  EXPECT_EQ(impl::nativeElapsedTime(from, to).has_value(), isCuda());
  if (!isCuda()) {
    const AsOnNvidia as_on_nvidia;
    cuda_elapsed = 0.0123F;
    EXPECT_EQ(impl::nativeElapsedTime(from, to), double(0.0123F));
  }
}

TEST(XPUNativeTest, ACudaStreamWaitsForAnEvent) {
  C10_XPU_NEEDS_NATIVE_WORK();
  sycl::queue queue = makeQueue();
  sycl::queue other = makeQueue();
  auto* const stream = impl::nativeStream(queue);
  auto* const waiting = impl::nativeStream(other);
  const auto wait = [&](const sycl::event& event) {
    impl::letCudaStreamWait(reinterpret_cast<uintptr_t>(waiting), event);
  };
  if (!isCuda()) {
    const auto text = errorOf([&] { wait(queue.ext_oneapi_submit_barrier()); });
    EXPECT_CONTAINS(text, "of an NVIDIA device only");
    return;
  }
  NativeGate gate(stream);
  wait(queue.ext_oneapi_submit_barrier());
  EXPECT_EQ(impl::isIdle(other, true), false);
  gate.open();
  other.ext_oneapi_submit_barrier().wait();
  EXPECT_EQ(impl::isIdle(queue, true), true);
}
