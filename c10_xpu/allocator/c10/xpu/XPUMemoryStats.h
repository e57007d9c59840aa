#pragma once

#include <c10/xpu/XPUMacros.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

/// What the XPU caching allocator tells of itself. Sizes are in bytes.

namespace c10::xpu {

/// The id of a private pool; {0, 0} is all memory of no private pool.
using CaptureId_t = unsigned long long; // as PyTorch's
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;

namespace XPUCachingAllocator {

struct Stat {
  int64_t current = 0;
  int64_t peak = 0; // the highest value since resetPeakStats
  int64_t allocated = 0; // all increases since resetAccumulatedStats
  int64_t freed = 0; // all decreases
};

enum struct StatType : uint64_t {
  AGGREGATE = 0, // both pools
  SMALL_POOL = 1,
  LARGE_POOL = 2,
  NUM_TYPES = 3
};
using StatArray = std::array<Stat, static_cast<size_t>(StatType::NUM_TYPES)>;

/// Statistics of one device. Every peak is the exact maximum over time of the
/// sum over all streams, see Note [Exact peaks].
struct DeviceStats {
  int64_t num_alloc_retries = 0; // refused until the cache was freed
  int64_t num_ooms = 0; // ended in an OutOfMemoryError
  int64_t num_device_alloc = 0; // calls of the SYCL runtime, since the start
  int64_t num_device_free = 0;

  StatArray allocation; // blocks that client code holds
  StatArray segment; // allocations from the SYCL runtime
  StatArray active; // blocks that client code holds or a stream still uses
  StatArray inactive_split; // free blocks that are not a whole segment
  // The sizes of these, rounded as the allocator does.
  StatArray allocated_bytes;
  StatArray reserved_bytes;
  StatArray active_bytes;
  StatArray inactive_split_bytes;
  StatArray requested_bytes; // as client code asked for them

  /// Blocks and segments of max_split_size or more.
  Stat oversize_allocations;
  Stat oversize_segments;
  int64_t max_split_size = 0; // -1: no limit
};

struct BlockInfo {
  int64_t size = 0;
  int64_t requested_size = 0; // 0 unless allocated
  bool allocated = false; // held by client code
  bool active = false; // allocated, or freed but still in use by a stream
};

/// In place of the id of an external queue's stream: they share their segments.
constexpr int64_t kExternalStreams = -1;

/// One allocation from the SYCL runtime, and its blocks by address.
struct SegmentInfo {
  int64_t device = 0;
  int64_t address = 0;
  int64_t total_size = 0;
  int64_t requested_size = 0;
  int64_t allocated_size = 0;
  int64_t active_size = 0;
  int64_t stream = 0; // id or kExternalStreams
  bool is_large = false;
  MempoolId_t owner_private_pool_id;
  std::vector<BlockInfo> blocks;
};

/// What the allocator did. A free is completed once no stream uses the block.
struct TraceEvent {
  enum Action {
    ALLOC, // traced with no lock held, as are FREE_REQUESTED and OOM
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    OOM,
    SNAPSHOT // not an event of the allocator: marks a snapshot
  };
  Action action;
  int device;
  int64_t addr; // 0 for OOM
  int64_t size; // of the block or segment, or what was asked for
  int64_t stream; // id or kExternalStreams
  MempoolId_t pool;
};

/// Called for each event while it is set, in most cases with locks held: then
/// it must neither call back nor take Python's GIL. Null takes it away.
using TraceFn = void (*)(const TraceEvent&);
C10_XPU_API void setTrace(TraceFn trace);

} // namespace XPUCachingAllocator

} // namespace c10::xpu
