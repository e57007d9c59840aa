#pragma once

#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/detail/HostBlock.h>
#include <ATen/xpu/detail/HostBlockRegistry.h>
#include <c10/xpu/XPUStream.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

// The pool behind CachingHostAllocator.h; not for use elsewhere.
// See Note [Reuse of pinned host blocks] in HostBlockPool.cpp.

namespace at {
namespace xpu {
namespace detail {

class HostBlockPool {
 public:
  // `size` must not be 0.
  HostBlock* allocate(size_t size);
  void free(HostBlock* block) noexcept;
  bool record(void* ptr, void* ctx, c10::xpu::XPUStream stream);
  void emptyCache();
  HostAllocatorStats stats() const;

  // Four sizes per power of two, 512 B to 4 EiB.
  static constexpr uint32_t kNumBins = 213;
  static constexpr size_t kMaxSize = size_t(1) << 62;
  static uint32_t binOf(size_t size);
  static size_t sizeOfBin(uint32_t bin);

 private:
  // Sharded by size so that threads which allocate different sizes do not meet.
  struct alignas(64) Bin {
    // Held for a few instructions at a time; never during a call of SYCL.
    mutable std::mutex mutex;
    HostBlockList ready;
    HostBlockList waiting;
    // The lengths of the lists, changed under `mutex` and read without. A
    // block that reclaim() looks at counts as waiting.
    std::atomic<size_t> num_ready{0};
    std::atomic<size_t> num_waiting{0};

    // Held by the one thread that looks at the events of waiting blocks.
    // Taken before `mutex`.
    std::mutex reclaim_mutex;
  };

  enum class Reclaim { FirstReady, AllReady };

  HostBlock* takeReady(uint32_t bin);
  HostBlock* takeCached(uint32_t bin);
  HostBlock* reclaim(uint32_t bin, Reclaim how);
  HostBlock* allocateFromSystem(uint32_t bin, size_t size);
  void pushReady(HostBlock* block) noexcept;
  void pushWaiting(HostBlock* block) noexcept;
  [[noreturn]] void raiseOutOfMemory(size_t size) const;

  std::array<Bin, kNumBins> bins_;
  HostBlockRegistry registry_;
};

} // namespace detail
} // namespace xpu
} // namespace at
