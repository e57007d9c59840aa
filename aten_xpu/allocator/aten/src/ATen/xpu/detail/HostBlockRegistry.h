#pragma once

#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/detail/HostBlock.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>
#include <unordered_set>
#include <vector>

// Part of HostBlockPool.h.

namespace at {
namespace xpu {
namespace detail {

// Which blocks there are: all that were allocated from the system and not given
// back. Changed by system allocations and frees only.
class HostBlockRegistry {
 public:
  // A new block of the system's memory, or null where it has none left. Some
  // runtimes raise then.
  HostBlock* allocate(uint32_t bin, size_t size);
  // The block must be in no list. If the runtime raises it is as it was.
  void release(HostBlock* block);
  // The block whose context is `ctx` or in which `ptr` points; null if none is.
  HostBlock* find(void* ptr, void* ctx) const;
  // Fills what is known here: reserved_bytes and the counts.
  void addTo(HostAllocatorStats& stats) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, HostBlock*> by_address_;
  // A HostBlock is never destroyed, only reused for another allocation, so that
  // a stale context is memory that can be looked at.
  std::deque<HostBlock> storage_;
  std::vector<HostBlock*> spare_;
  std::unordered_set<const void*> contexts_;
  size_t reserved_bytes_ = 0;
  uint64_t num_host_alloc_ = 0;
  uint64_t num_host_free_ = 0;
};

} // namespace detail
} // namespace xpu
} // namespace at
