#include <c10/core/Allocator.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <sycl/usm.hpp>

#include <atomic>
#include <chrono>
#include <future>

// What the tests of torch.xpu call through ctypes. It holds streams up: no
// function of torch.xpu can keep a device busy for as long as a test wants. And
// it is an allocator of its own, for XPUPluggableAllocator.

namespace {

using c10::xpu::XPUStream;

struct StreamGate {
  explicit StreamGate(const XPUStream& stream) : gate(stream) {}

  c10::xpu::test::Gate gate;
  std::promise<void> opening;
  std::future<void> opened = opening.get_future();
};

XPUStream streamOf(int64_t stream_id, int64_t device_index) {
  return XPUStream::unpack3(
      stream_id,
      static_cast<c10::DeviceIndex>(device_index),
      c10::DeviceType::XPU);
}

std::atomic<size_t> live_bytes{0};

} // namespace

extern "C" {

/// Holds up all that is submitted to the stream from now on.
C10_EXPORT StreamGate* xpu_gate_close(int64_t stream_id, int64_t device_index) {
  return new StreamGate(streamOf(stream_id, device_index));
}

C10_EXPORT void xpu_gate_open(StreamGate* gate) {
  gate->gate.open();
  gate->opening.set_value();
}

/// Whether the gate is opened, by another thread, before the time is over.
C10_EXPORT bool xpu_gate_is_opened_within(StreamGate* gate, int64_t ms) {
  return gate->opened.wait_for(std::chrono::milliseconds(ms)) ==
      std::future_status::ready;
}

C10_EXPORT void xpu_gate_delete(StreamGate* gate) {
  delete gate;
}

/// Frees a block that the stream, whatever holds it up, still uses.
C10_EXPORT void xpu_free_block_in_use(int64_t stream_id, int64_t device_index) {
  const auto stream = streamOf(stream_id, device_index);
  const auto block = c10::xpu::XPUCachingAllocator::get()->allocate(512);
  c10::xpu::XPUCachingAllocator::recordStream(block, stream);
}

C10_EXPORT void* xpu_custom_alloc(
    size_t size,
    int /*device*/,
    sycl::queue* queue) {
  live_bytes += size;
  return sycl::malloc_device(size, *queue);
}

C10_EXPORT void xpu_custom_free(
    void* ptr,
    size_t size,
    int /*device*/,
    sycl::queue* queue) {
  live_bytes -= size;
  sycl::free(ptr, *queue);
}

/// Bytes that xpu_custom_alloc gave and xpu_custom_free did not get back.
C10_EXPORT size_t xpu_custom_live_bytes() {
  return live_bytes;
}

} // extern "C"
