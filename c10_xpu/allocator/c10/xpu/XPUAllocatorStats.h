#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

// What the XPU caching allocator tells about itself. This header is free of
// SYCL, so that bindings and tools can use it alone.

namespace c10::xpu::XPUCachingAllocator {

/// One statistic: its value now, its highest value since the last
/// resetPeakStats, and the sums of all increases and of all decreases since
/// the last resetAccumulatedStats.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};

enum struct StatType : uint64_t {
  AGGREGATE = 0,
  SMALL_POOL = 1,
  LARGE_POOL = 2,
  NUM_TYPES = 3
};

/// A statistic of both pools together and of each one, indexed by StatType.
using StatArray = std::array<Stat, static_cast<size_t>(StatType::NUM_TYPES)>;

/// Statistics of one device. Fields named `*_bytes` are sums of bytes, the
/// others count. Every peak is the exact maximum over time of the sum over all
/// streams, see Note [Exact peaks without shared counters].
struct DeviceStats {
  /// Blocks that client code holds.
  StatArray allocation;
  /// Segments obtained from the SYCL runtime.
  StatArray segment;
  /// Blocks that are held by client code or that a stream may still use.
  StatArray active;
  /// Free blocks that share their segment with another block, so that they
  /// cannot be given back to the runtime.
  StatArray inactive_split;

  /// Sizes as rounded by the allocator, in the order of the counts above.
  StatArray allocated_bytes;
  StatArray reserved_bytes;
  StatArray active_bytes;
  StatArray inactive_split_bytes;

  /// Requests that the runtime refused at first, so that the cache was freed.
  int64_t num_alloc_retries = 0;
  /// Requests that ended in an OutOfMemoryError.
  int64_t num_ooms = 0;

  /// Blocks and segments of max_split_size or more.
  Stat oversize_allocations;
  Stat oversize_segments;

  /// Bytes; -1 when no limit is configured.
  int64_t max_split_size = 0;
};

/// A block, which is a contiguous part of a segment.
struct BlockInfo {
  int64_t size = 0;
  /// Number of segments that the device has asked for since this block became
  /// free; 0 for a block that is not free or not a whole segment.
  int32_t gc_counter = 0;
  /// Held by client code.
  bool allocated = false;
  /// Held by client code, or freed by it but still in use by a stream.
  bool active = false;
};

/// A segment, which is one allocation from the SYCL runtime, with its blocks
/// in the order of their addresses. All sizes in bytes.
struct SegmentInfo {
  int64_t device = 0;
  int64_t address = 0;
  int64_t total_size = 0;
  int64_t allocated_size = 0;
  int64_t active_size = 0;
  /// The id of the XPUStream that the segment's blocks are allocated for.
  int64_t stream = 0;
  bool is_large = false;
  std::vector<BlockInfo> blocks;
};

} // namespace c10::xpu::XPUCachingAllocator
