#include <c10/xpu/impl/XPUMemoryBackend.h>

#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

namespace c10::xpu::impl {

namespace {

DeviceIndex indexOf(int device) {
  return static_cast<DeviceIndex>(device);
}

} // namespace

void* MemoryBackend::allocate(int device, size_t size) {
  const sycl::device& raw = get_raw_device(indexOf(device));
  const sycl::context& context = get_device_context();
  // Not C10_XPU_CHECK: lack of memory, which the runtime reports by a null
  // pointer or by an exception, is not an error here.
  constexpr const char* call = "sycl::malloc_device(size, device, context)";
  try {
    return sycl::malloc_device(size, raw, context);
  } catch (const sycl::exception& error) {
    if (error.code() == sycl::errc::memory_allocation) {
      return nullptr;
    }
    raise(call, {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error);
  }
}

void MemoryBackend::deallocate(int /*device*/, void* ptr) {
  C10_XPU_CHECK(sycl::free(ptr, get_device_context()));
}

bool MemoryBackend::lasting(const StreamTag& stream) {
  const auto parts = decodeStreamId(stream.id);
  return parts && parts->kind != StreamKind::External;
}

uint64_t MemoryBackend::progress() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

// See Note [Asking whether a queue is idle]
std::optional<MemoryBackend::Event> MemoryBackend::fence(
    const StreamTag& stream,
    bool ask) {
  sycl::queue& queue = useQueue(indexOf(stream.device), stream.id);
  const bool can_ask = ask && canAskEmpty(queue);
  if (can_ask && C10_XPU_CHECK(queue.ext_oneapi_empty())) {
    return std::nullopt;
  }
  std::optional<Event> event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  if (ask && !can_ask && isComplete(*event)) {
    event.reset();
  }
  return event;
}

bool MemoryBackend::complete(const Event& event) {
  return impl::isComplete(event);
}

void MemoryBackend::wait(const Event& event) {
  Event copy = event; // waiting is not const
  C10_XPU_CHECK(copy.wait());
}

size_t MemoryBackend::totalMemory(int device) {
  return get_device_properties(indexOf(device)).global_mem_size;
}

size_t MemoryBackend::freeMemory(int device) {
  const sycl::device& raw = get_raw_device(indexOf(device));
  if (!C10_XPU_CHECK(raw.has(sycl::aspect::ext_intel_free_memory))) {
    return 0;
  }
  return C10_XPU_CHECK(
      raw.get_info<sycl::ext::intel::info::device::free_memory>());
}

} // namespace c10::xpu::impl
