#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/util/ScopeExit.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <utility>

namespace c10::xpu::XPUCachingAllocator {

namespace {

c10::CachingAllocator::Stat copyOf(const Stat& from) {
  c10::CachingAllocator::Stat to;
  to.current = from.current;
  to.peak = from.peak;
  to.allocated = from.allocated;
  to.freed = from.freed;
  return to;
}

c10::CachingAllocator::StatArray copyOf(const StatArray& from) {
  c10::CachingAllocator::StatArray to;
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = copyOf(from[i]);
  }
  return to;
}

[[noreturn]] void raiseNotShared() {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "XPU memory is not shared with other processes: send a copy on the CPU");
}

} // namespace

void XPUAllocator::init(DeviceIndex device_count) {
  XPUCachingAllocator::init(device_count);
}

void* XPUAllocator::raw_alloc(size_t size) {
  // The current stream without a check: allocateFrom may have set it for a
  // device that only a test has.
  const auto device = impl::threadDevice();
  const auto id = impl::exchangeThreadStream(device, 0);
  impl::exchangeThreadStream(device, id);
  const Stream stream(Stream::UNSAFE, Device(kXPU, device), id);
  return raw_alloc_with_stream(size, XPUStream(XPUStream::UNCHECKED, stream));
}

DataPtr XPUAllocator::allocate(size_t size) {
  const XPUStream stream = getCurrentXPUStream();
  void* const ptr = raw_alloc_with_stream(size, stream);
  return {ptr, ptr, raw_deleter(), stream.device()};
}

void XPUAllocator::copy_data(void* dest, const void* src, size_t count) const {
  const XPUStream stream = getCurrentXPUStream();
  impl::launch(stream, [&](sycl::queue& queue) {
    return C10_XPU_CHECK(queue.memcpy(dest, src, count));
  });
}

bool XPUAllocator::initialized() {
  return XPUCachingAllocator::initialized();
}

void XPUAllocator::recordStream(const DataPtr& ptr, Stream stream) {
  recordStream(ptr, XPUStream(stream));
}

CachingDeviceAllocator::DeviceStats XPUAllocator::getDeviceStats(
    DeviceIndex device) {
  const DeviceStats from = XPUCachingAllocator::getDeviceStats(device);
  CachingDeviceAllocator::DeviceStats to;
  to.allocation = copyOf(from.allocation);
  to.segment = copyOf(from.segment);
  to.active = copyOf(from.active);
  to.inactive_split = copyOf(from.inactive_split);
  to.allocated_bytes = copyOf(from.allocated_bytes);
  to.reserved_bytes = copyOf(from.reserved_bytes);
  to.active_bytes = copyOf(from.active_bytes);
  to.inactive_split_bytes = copyOf(from.inactive_split_bytes);
  to.requested_bytes = copyOf(from.requested_bytes);
  to.num_alloc_retries = from.num_alloc_retries;
  to.num_ooms = from.num_ooms;
  to.num_device_alloc = from.num_device_alloc;
  to.num_device_free = from.num_device_free;
  to.oversize_allocations = copyOf(from.oversize_allocations);
  to.oversize_segments = copyOf(from.oversize_segments);
  to.max_split_size = from.max_split_size;
  return to;
}

void XPUAllocator::resetAccumulatedStats(DeviceIndex device) {
  XPUCachingAllocator::resetAccumulatedStats(device);
}

void XPUAllocator::resetPeakStats(DeviceIndex device) {
  XPUCachingAllocator::resetPeakStats(device);
}

std::pair<size_t, size_t> XPUAllocator::getMemoryInfo(DeviceIndex device) {
  const auto free = get_free_memory(device);
  const auto& properties = get_device_properties(device);
  TORCH_CHECK_NOT_IMPLEMENTED(
      free.has_value(),
      c10::str("SYCL does not tell how much memory of xpu:", int(device)),
      c10::str(" (", properties.name, ") is free"));
  return {*free, properties.global_mem_size};
}

void* allocateFrom(XPUAllocator& from, size_t nbytes, XPUStream stream) {
  const auto device = stream.device_index();
  const DeviceIndex before = std::exchange(impl::threadDevice(), device);
  const auto id = impl::exchangeThreadStream(device, stream.id());
  const auto back = c10::make_scope_exit([&] {
    impl::exchangeThreadStream(device, id);
    impl::threadDevice() = before;
  });
  return from.raw_alloc(nbytes);
}

void setMemoryFraction(double fraction, DeviceIndex device) {
  setMemoryFraction(fraction, static_cast<int>(device));
}

double getMemoryFraction(DeviceIndex device) {
  return getMemoryFraction(static_cast<int>(device));
}

void enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  enable_peer_access(device, peer);
}

void markCaptureBegin(DeviceIndex /*device*/) {}

void markCaptureEnd(DeviceIndex /*device*/) {}

ShareableHandle shareIpcHandle(void* /*ptr*/) {
  raiseNotShared();
}

std::shared_ptr<void> getIpcDevPtr(std::string /*handle*/) {
  raiseNotShared();
}

} // namespace c10::xpu::XPUCachingAllocator
