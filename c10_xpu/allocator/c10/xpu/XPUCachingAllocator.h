#pragma once

#include <c10/core/Allocator.h>
#include <c10/xpu/XPUAllocatorStats.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <cstddef>
#include <vector>

/// Device memory. The allocator asks the SYCL runtime for segments, cuts them
/// into blocks, and keeps what is freed for later requests on the same stream.
///
/// A block belongs to the stream it was allocated for: work that is enqueued
/// there after the block was freed and allocated again runs after the work that
/// used it before. For work on other streams there is recordStream.
///
/// All functions may be called from any thread; a block may be freed by another
/// thread than the one that allocated it. Errors are c10::Error; what the SYCL
/// runtime refuses for lack of memory is c10::OutOfMemoryError. After an error
/// the allocator is as it was before the call.
///
/// PYTORCH_XPU_ALLOC_CONF is read by `init`; see impl/XPUAllocatorConfig.h.
///
/// See Note [Life of a cached block] and Note [Cross-stream use].

namespace c10::xpu::XPUCachingAllocator {

/// The allocator that is registered for kXPU: memory for the current stream of
/// the current device. A DataPtr of it frees its block when it is destroyed.
C10_XPU_API Allocator* get();

/// Makes the allocator ready for devices 0 to device_count - 1. Has no effect
/// on devices that are ready. Must precede everything that names a device or
/// allocates.
C10_XPU_API void init(int device_count);

/// Memory for the current stream of the current device, 512-byte aligned; for 0
/// bytes nullptr.
C10_XPU_API void* raw_alloc(size_t nbytes);

/// Memory for the given stream, of that stream's device.
C10_XPU_API void* raw_alloc_with_stream(size_t nbytes, XPUStream stream);

/// Frees what raw_alloc returned; nullptr is ignored. Any other pointer that is
/// not allocated is an error. What the runtime refuses while it is asked when
/// other streams will have finished with blocks is raised by a later allocation
/// or emptyCache.
C10_XPU_API void raw_delete(void* ptr);

/// Tells that work which is, or will be before the memory is freed, enqueued on
/// `stream` uses it: after it is freed, it is not used again until that work is
/// done. Memory of other allocators is ignored.
C10_XPU_API void recordStream(const DataPtr& ptr, XPUStream stream);

/// Gives the segments that no block is allocated from back to the runtime, of
/// all devices. Waits for blocks that are held back for other streams.
C10_XPU_API void emptyCache();

/// Limits what the allocator reserves on a device to a part of the device's
/// memory, 0 to 1. What is reserved already stays.
C10_XPU_API void setMemoryFraction(double fraction, int device);

/// Adds the bytes in free blocks to `*cached_and_free`, and raises
/// `*largest_block` to the size of the largest one. If that is 0 at first, and
/// the device tells how much of its memory is free, it starts from there.
C10_XPU_API void cacheInfo(
    int device,
    size_t* cached_and_free,
    size_t* largest_block);

C10_XPU_API DeviceStats getDeviceStats(int device);
C10_XPU_API void resetPeakStats(int device);
C10_XPU_API void resetAccumulatedStats(int device);

/// All segments of all devices, in the order of their addresses.
C10_XPU_API std::vector<SegmentInfo> snapshot();

} // namespace c10::xpu::XPUCachingAllocator
