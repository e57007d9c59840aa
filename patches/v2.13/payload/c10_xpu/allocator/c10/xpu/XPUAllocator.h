#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace c10::xpu::XPUCachingAllocator {

/// What an allocator of XPU memory offers; the functions of XPUCachingAllocator
/// with the same names call the current one.
///
/// The first three are those of PyTorch's own class of this name, in its order:
/// code that was compiled against PyTorch's headers calls them.
struct C10_XPU_API XPUAllocator : public DeviceAllocator {
  virtual void init(DeviceIndex device_count);
  virtual void* raw_alloc(size_t size);
  virtual void raw_delete(void* ptr) = 0;

  virtual void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) = 0;
  virtual void recordStream(const DataPtr& ptr, XPUStream stream) = 0;

  DataPtr allocate(size_t size) final;
  DeleterFnPtr raw_deleter() const final;
  /// On the current stream, which is not waited for.
  void copy_data(void* dest, const void* src, size_t count) const final;

  // As torch.accelerator asks. Statistics are those of the native allocator.
  bool initialized() final;
  void recordStream(const DataPtr& ptr, Stream stream) final;
  CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) final;
  void resetAccumulatedStats(DeviceIndex device) final;
  void resetPeakStats(DeviceIndex device) final;
  /// The bytes that are free on the card, and all it has. Raises where SYCL
  /// does not know what is free.
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) final;
};

/// Memory of an allocator whose class code outside may have derived from
/// PyTorch's, so that it has only the virtual functions which that one has.
C10_XPU_API void* allocateFrom(
    XPUAllocator& from,
    size_t nbytes,
    XPUStream stream);

// As PyTorch's own headers declare them, for code that was compiled with those.
C10_XPU_API void setMemoryFraction(double fraction, DeviceIndex device);
C10_XPU_API double getMemoryFraction(DeviceIndex device);
C10_XPU_API void enablePeerAccess(DeviceIndex device, DeviceIndex peer);

// Since 2.14:
/// Nothing to do: each stream is asked whether it records.
C10_XPU_API void markCaptureBegin(DeviceIndex device);
C10_XPU_API void markCaptureEnd(DeviceIndex device);

struct ShareableHandle {
  ptrdiff_t offset;
  std::string handle;
};
/// These raise: memory is not shared with other processes.
C10_XPU_API ShareableHandle shareIpcHandle(void* ptr);
C10_XPU_API std::shared_ptr<void> getIpcDevPtr(std::string handle);

} // namespace c10::xpu::XPUCachingAllocator
