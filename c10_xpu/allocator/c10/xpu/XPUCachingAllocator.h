#pragma once

#include <c10/xpu/XPUAllocator.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUMemoryStats.h>
#include <c10/xpu/XPUStream.h>

#include <atomic>
#include <functional>
#include <vector>

/// Device memory. The allocator asks the SYCL runtime for segments, splits them
/// into blocks, and keeps what is freed for later requests on the same stream:
/// work that is enqueued there after a block was freed and allocated again runs
/// after the work that used it before. For other streams there is recordStream.
///
/// All functions may be called from any thread. Errors are c10::Error, for lack
/// of memory c10::OutOfMemoryError, and change nothing. In a forked child of a
/// process that used XPU, allocating raises, and freeing does nothing.

namespace c10::xpu::XPUCachingAllocator {

/// The current allocator, which is registered for kXPU: memory for the current
/// stream of the current device.
C10_XPU_API extern std::atomic<XPUAllocator*> allocator;
inline XPUAllocator* get() {
  return allocator.load(std::memory_order_acquire);
}

/// Replaces the native allocator by one that lives as long as the process.
/// Raises if `init` was called, since the native one may own memory then.
C10_XPU_API void set(XPUAllocator* allocator);

/// 512-byte aligned memory for the stream, or for the current one of the
/// current device; for 0 bytes nullptr.
inline void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) {
  return get()->raw_alloc_with_stream(nbytes, stream);
}
inline void* raw_alloc(size_t nbytes) {
  return raw_alloc_with_stream(nbytes, getCurrentXPUStream());
}

/// Frees what raw_alloc returned; nullptr is ignored. Any other pointer that is
/// not allocated is an error. If a fence for a recorded stream cannot be
/// submitted, a later allocation or emptyCache tries again and raises.
inline void raw_delete(void* ptr) {
  get()->raw_delete(ptr);
}

/// Memory that is freed is not used again until the work is done that has been
/// enqueued on `stream` by then. Memory of other allocators is ignored.
inline void recordStream(const DataPtr& ptr, XPUStream stream) {
  get()->recordStream(ptr, stream);
}

/// Gives free segments, of all devices or one private pool, back to the runtime
/// once the work that uses them is done. Those whose work waits for a host
/// task, which might wait for the caller, stay, as do those of private pools in
/// use.
inline void emptyCache(MempoolId_t mempool_id = {}) {
  get()->emptyCache(mempool_id);
}

// The functions below are about the native allocator.

/// Makes it ready for all devices, of which `device_count` must not be more,
/// and reads PYTORCH_XPU_ALLOC_CONF; see impl::AllocatorConfig. Has no effect
/// the second time. Must precede everything that names a device or allocates.
C10_XPU_API void init(int device_count);
C10_XPU_API bool initialized();

/// Limits what is reserved on the card of a device to a part of the card's
/// memory, 0 to 1. What is reserved already stays.
C10_XPU_API void setMemoryFraction(double fraction, int device);
/// The part that was set; 1 before.
C10_XPU_API double getMemoryFraction(int device);

/// Adds the bytes in free blocks to `*cached_and_free`, and raises
/// `*largest_block`, if it is 0 from the device's free memory, to the largest.
C10_XPU_API void cacheInfo(
    int device,
    size_t* cached_and_free,
    size_t* largest_block);

C10_XPU_API DeviceStats getDeviceStats(int device);
C10_XPU_API void resetPeakStats(int device);
C10_XPU_API void resetAccumulatedStats(int device);

/// All segments of all devices, or of one private pool, by device and in the
/// order of their addresses.
C10_XPU_API std::vector<SegmentInfo> snapshot(
    const MempoolId_t& mempool_id = {});

/// Called before an OutOfMemoryError is raised, with the bytes asked for, those
/// of the card and those that are free (0 if SYCL does not tell).
using OutOfMemoryObserver = std::function<
    void(int device, size_t requested, size_t total, size_t free)>;
C10_XPU_API void attachOutOfMemoryObserver(OutOfMemoryObserver observer);

} // namespace c10::xpu::XPUCachingAllocator
