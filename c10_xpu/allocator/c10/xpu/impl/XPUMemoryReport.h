#pragma once

#include <c10/xpu/XPUAllocatorStats.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <cstddef>
#include <cstdint>

namespace c10::xpu::impl {

/// What is known when a request cannot be met. Bytes.
struct OutOfMemory {
  int device = 0;
  size_t requested = 0;
  size_t allocated = 0;
  size_t reserved = 0;
  size_t limit = 0; // Reserve::kNoLimit: none
  size_t total = 0;
  size_t free = 0; // 0: the device does not tell
};

/// Tells the profiler and throws c10::OutOfMemoryError.
[[noreturn]] C10_XPU_API void throwOutOfMemory(const OutOfMemory& facts);

/// A segment for the snapshot: its first block, the stream that it belongs to,
/// and the device's epoch. With the arena's lock.
C10_XPU_API XPUCachingAllocator::SegmentInfo describe(
    const StreamTag& stream,
    const Block* first,
    uint32_t epoch);

} // namespace c10::xpu::impl
