#pragma once

#include <c10/core/Allocator.h>
#include <c10/xpu/XPUStream.h>

#include <cstddef>
#include <cstdint>

namespace at {
namespace xpu {

// A caching allocator of pinned host memory: USM host allocations, which every
// XPU device reads and writes directly and which a copy between host and device
// needs to be asynchronous. A freed block is kept and handed out again; see
// Note [Reuse of pinned host blocks] in HostBlockPool.cpp.
//
// All functions are thread-safe. Errors of the SYCL runtime are raised as
// c10::Error and leave the cache as it was.

/// The allocator. Its DataPtr has the device type CPU. A size of 0 gives a null
/// pointer. Raises c10::OutOfMemoryError if there is no memory even after the
/// cache was given back, and c10::Error if there is no XPU device.
C10_EXPORT c10::Allocator* getCachingHostAllocator();

/// Tells the allocator that the work which was submitted to `stream` so far
/// uses the block: after it is freed it will not be handed out again before
/// that work is done. Must be called after an asynchronous copy is submitted.
///
/// The block is found by `ctx`, the context of its DataPtr, or else by `ptr`,
/// which may point anywhere into it. Returns false, and does nothing, if
/// neither belongs to a block that is in use. If the runtime raises, the block
/// still waits for the stream.
C10_EXPORT bool CachingHostAllocator_recordEvent(
    void* ptr,
    void* ctx,
    c10::xpu::XPUStream stream);

/// Gives cached blocks back to the system. Blocks that a stream still uses are
/// kept and are not waited for.
C10_EXPORT void CachingHostAllocator_emptyCache();

/// Sizes in bytes, as blocks are sized, and numbers of blocks.
struct HostAllocatorStats {
  /// Obtained from the system: in use, waiting and cached together.
  size_t reserved_bytes = 0;
  /// Freed and ready to be handed out.
  size_t cached_bytes = 0;
  /// Freed, but a stream was using them when they were last looked at.
  size_t waiting_bytes = 0;
  /// System allocations and system frees since the start of the process.
  uint64_t num_host_alloc = 0;
  uint64_t num_host_free = 0;

  size_t in_use_bytes() const {
    return reserved_bytes - cached_bytes - waiting_bytes;
  }
};

/// The counters are read one after the other; they fit together exactly if no
/// other thread allocates or frees meanwhile.
C10_EXPORT HostAllocatorStats CachingHostAllocator_getStats();

/// Shorthand for getCachingHostAllocator()->allocate(size).
inline c10::DataPtr HostAlloc(size_t size) {
  return getCachingHostAllocator()->allocate(size);
}

} // namespace xpu
} // namespace at
