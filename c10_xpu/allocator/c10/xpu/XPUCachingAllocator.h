#pragma once

#include <c10/core/Allocator.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// Device memory. The allocator asks the SYCL runtime for segments, splits them
/// into blocks, and keeps what is freed for later requests on the same stream.
///
/// A block belongs to the stream it was allocated for: work that is enqueued
/// there after the block was freed and allocated again runs after the work that
/// used it before. For work on other streams there is recordStream.
///
/// All functions may be called from any thread; a block may be freed by another
/// thread than the one that allocated it. Errors are c10::Error; lack of memory
/// is c10::OutOfMemoryError. After an error the allocator is as it was before
/// the call. In a forked child of a process that used XPU, allocating raises,
/// and freeing does nothing: the memory is the parent's.
///
/// PYTORCH_XPU_ALLOC_CONF is read by `init`; see impl/XPUAllocatorConfig.h.

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
/// streams, see Note [Exact peaks].
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
  /// Sizes as client code asked for them.
  StatArray requested_bytes;

  /// Requests that the runtime refused at first, so that the cache was freed.
  int64_t num_alloc_retries = 0;
  /// Requests that ended in an OutOfMemoryError.
  int64_t num_ooms = 0;
  /// Calls of the SYCL runtime that allocate and free, since the start.
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;

  /// Blocks and segments of max_split_size or more.
  Stat oversize_allocations;
  Stat oversize_segments;

  /// Bytes; -1 when no limit is configured.
  int64_t max_split_size = 0;
};

/// A block, which is a contiguous part of a segment. Sizes in bytes.
struct BlockInfo {
  int64_t size = 0;
  /// What client code asked for; 0 for a block that it does not hold.
  int64_t requested_size = 0;
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
  int64_t requested_size = 0;
  int64_t allocated_size = 0;
  int64_t active_size = 0;
  /// The id of the XPUStream that the segment's blocks are allocated for.
  int64_t stream = 0;
  bool is_large = false;
  std::vector<BlockInfo> blocks;
};

/// What an allocator of XPU memory offers; the functions below of the same
/// names call the current one.
struct C10_XPU_API XPUAllocator : public Allocator {
  virtual void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) = 0;
  virtual void raw_delete(void* ptr) = 0;
  virtual void recordStream(const DataPtr& ptr, XPUStream stream) = 0;
  virtual void emptyCache() = 0;
};

/// The current allocator, which is registered for kXPU: memory for the current
/// stream of the current device. A DataPtr of it frees its block when it is
/// destroyed.
C10_XPU_API XPUAllocator* get();

/// Replaces the native allocator by one that lives as long as the process.
/// Raises if `init` was called, since the native one may own memory then.
C10_XPU_API void set(XPUAllocator* allocator);

/// Memory for the given stream, of that stream's device, 512-byte aligned; for
/// 0 bytes nullptr.
inline void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) {
  return get()->raw_alloc_with_stream(nbytes, stream);
}

/// The same for the current stream of the current device.
inline void* raw_alloc(size_t nbytes) {
  return raw_alloc_with_stream(nbytes, getCurrentXPUStream());
}

/// Frees what raw_alloc returned; nullptr is ignored. Any other pointer that is
/// not allocated is an error. If a fence for a recorded stream cannot be
/// submitted, a later allocation or emptyCache tries again and raises.
inline void raw_delete(void* ptr) {
  get()->raw_delete(ptr);
}

/// Tells that work which is, or will be before the memory is freed, enqueued on
/// `stream` uses it: after it is freed, it is not used again until that work is
/// done. Memory of other allocators is ignored.
inline void recordStream(const DataPtr& ptr, XPUStream stream) {
  get()->recordStream(ptr, stream);
}

/// Gives the segments that no block is allocated from back to the runtime, of
/// all devices. Waits until the work that uses them is done, except for work
/// that waits for a host task, which might wait for the caller: those segments
/// stay cached.
inline void emptyCache() {
  get()->emptyCache();
}

// The functions below are about the native allocator.

/// Makes it ready for devices 0 to device_count - 1. Has no effect on devices
/// that are ready. Must precede everything that names a device or allocates.
C10_XPU_API void init(int device_count);

/// Limits what is reserved on the card of a device to a part of the card's
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

/// All segments of all devices, by device and in the order of their addresses.
C10_XPU_API std::vector<SegmentInfo> snapshot();

/// Called before an OutOfMemoryError is raised, with the bytes asked for, the
/// card's memory and what of it is free (0 if SYCL does not tell).
using OutOfMemoryObserver = std::function<
    void(int device, size_t requested, size_t total, size_t free)>;
C10_XPU_API void attachOutOfMemoryObserver(OutOfMemoryObserver observer);

/// What the native allocator did, for those who record it. A block that no
/// recorded stream uses is requested to be freed and freed at once.
struct TraceEvent {
  enum Action {
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    OOM,
    SNAPSHOT // by whoever takes one
  };
  Action action;
  int device;
  int64_t addr; // 0 for OOM
  int64_t size; // bytes: of the block, of the segment, or asked for
  int64_t stream; // id
};

/// Called for each event while it is set, by the thread that caused it, which
/// may hold locks of the allocator: it must not call back. Null takes it away.
using TraceFn = void (*)(const TraceEvent&);
C10_XPU_API void setTrace(TraceFn trace);

} // namespace c10::xpu::XPUCachingAllocator
