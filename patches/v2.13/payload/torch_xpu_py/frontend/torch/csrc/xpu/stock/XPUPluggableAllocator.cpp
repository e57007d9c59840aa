#include <torch/csrc/xpu/XPUPluggableAllocator.h>

#include <c10/xpu/XPUFunctions.h>

// PyTorch's class, from which code outside may derive. What Python makes is the
// runtime's own.

namespace torch::xpu::XPUPluggableAllocator {

namespace allocator = c10::xpu::XPUCachingAllocator;

void* XPUPluggableAllocator::malloc(
    size_t size,
    c10::DeviceIndex device,
    sycl::queue* stream) {
  void* const ptr = alloc_fn_(size, device, stream);
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      ptr,
      c10::str("The pluggable XPU allocator has no memory for ", size),
      c10::str(" bytes on xpu:", int(device)));
  const std::lock_guard<std::mutex> guard(allocator_mutex_);
  allocation_metadata_.emplace(ptr, _AllocationMetadata(size, device, stream));
  return ptr;
}

void* XPUPluggableAllocator::raw_alloc(size_t nbytes) {
  const auto stream = c10::xpu::getCurrentXPUStream();
  return nbytes == 0 ? nullptr
                     : malloc(nbytes, stream.device_index(), &stream.queue());
}

void XPUPluggableAllocator::raw_delete(void* ptr) {
  if (ptr == nullptr) {
    return;
  }
  std::unique_lock<std::mutex> lock(allocator_mutex_);
  const auto block = allocation_metadata_.extract(ptr);
  lock.unlock();
  TORCH_CHECK(
      block,
      c10::str("invalid XPU pointer: ", ptr, " was not allocated"),
      " by the pluggable XPU allocator");
  const auto [size, device, queue] = block.mapped();
  free_fn_(ptr, size, device, queue);
}

c10::DataPtr XPUPluggableAllocator::allocate(size_t size) {
  const c10::Device device(c10::kXPU, c10::xpu::current_device());
  void* const ptr = raw_alloc(size);
  return {ptr, ptr, raw_deleter(), device};
}

c10::DeleterFnPtr XPUPluggableAllocator::raw_deleter() const {
  return &allocator::raw_delete;
}

void XPUPluggableAllocator::copy_data(
    void* dest,
    const void* src,
    std::size_t count) const {
  c10::xpu::getCurrentXPUStream().queue().memcpy(dest, src, count);
}

void XPUPluggableAllocator::init(c10::DeviceIndex device_count) {
  if (init_fn_) {
    init_fn_(device_count);
  }
  initialized_ = true;
}

bool XPUPluggableAllocator::initialized() {
  return initialized_;
}

void XPUPluggableAllocator::recordStream(
    const c10::DataPtr& ptr,
    c10::Stream stream) {
  if (record_stream_fn_) {
    record_stream_fn_(ptr.get(), &c10::xpu::XPUStream(stream).queue());
  }
}

// Nothing is cached or counted.

void XPUPluggableAllocator::emptyCache(c10::MempoolId_t /*mempool_id*/) {}

c10::CachingDeviceAllocator::DeviceStats XPUPluggableAllocator::getDeviceStats(
    c10::DeviceIndex /*device*/) {
  return {};
}

void XPUPluggableAllocator::resetAccumulatedStats(c10::DeviceIndex /*device*/) {
}

void XPUPluggableAllocator::resetPeakStats(c10::DeviceIndex /*device*/) {}

} // namespace torch::xpu::XPUPluggableAllocator
