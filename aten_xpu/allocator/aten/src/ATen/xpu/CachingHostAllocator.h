#pragma once

#include <c10/core/Allocator.h>
#include <c10/xpu/XPUStream.h>

#include <cstddef>
#include <cstdint>

namespace at::xpu {

// A caching allocator of pinned host memory (USM host allocations), without
// which copies between host and device are not asynchronous. All functions are
// thread-safe. Errors of SYCL are raised as c10::Error and leave the cache as
// it was. In the forked child of a process that had initialized XPU an
// allocation raises, and freeing a block or emptying the cache does nothing.

/// The allocator. Its DataPtr has the device type CPU. A size of 0 gives a null
/// pointer. Raises c10::OutOfMemoryError if there is no memory even after the
/// cache was emptied, and c10::Error if there is no XPU device.
C10_EXPORT c10::Allocator* getCachingHostAllocator();

/// Notes that work on `stream` uses a block. After the block is freed, it is
/// not handed out or given back to the system until the stream has done all
/// that was submitted to it before the free. Until then the block also keeps
/// the queue of an external stream alive.
///
/// The block is the one whose DataPtr has the context `ctx`, or else the one
/// that `ptr` points into. Returns false if no such block is in use.
C10_EXPORT bool CachingHostAllocator_recordEvent(
    void* ptr,
    void* ctx,
    c10::xpu::XPUStream stream);

/// Gives cached blocks back to the system. Blocks that a stream still uses are
/// kept and not waited for.
C10_EXPORT void CachingHostAllocator_emptyCache();

/// Sizes are in bytes, as blocks are rounded.
struct HostAllocatorStats {
  /// Allocated from the system: in use, waiting and cached together.
  size_t reserved_bytes = 0;
  /// Freed and ready to be handed out.
  size_t cached_bytes = 0;
  /// Freed, but a stream was using them when they were last looked at.
  size_t waiting_bytes = 0;
  /// Number of system allocations and frees since the start of the process.
  uint64_t num_host_alloc = 0;
  uint64_t num_host_free = 0;

  size_t in_use_bytes() const {
    return reserved_bytes - cached_bytes - waiting_bytes;
  }
};

/// All zero in a forked child.
C10_EXPORT HostAllocatorStats CachingHostAllocator_getStats();

/// Shorthand for getCachingHostAllocator()->allocate(size).
inline c10::DataPtr HostAlloc(size_t size) {
  return getCachingHostAllocator()->allocate(size);
}

} // namespace at::xpu
