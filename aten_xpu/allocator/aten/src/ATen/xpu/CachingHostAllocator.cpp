#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/PinnedMemoryAllocator.h>
#include <ATen/xpu/detail/HostAllocatorBase.h>

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/llvmMathExtras.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace at::xpu {

namespace {

// Note [Reuse of pinned host blocks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// An asynchronous copy returns before it has read or written its host memory.
// The block must therefore outlive the copy even if the tensor does not.
//
// recordEvent only notes the stream's queue in the block. The free submits one
// barrier to each of these queues and keeps its event; the block is pending
// until all its events are complete, then it is cached. The block holds copies
// of the queues, because the owner of an external queue may destroy it, or make
// another one in its place, before the block is freed.
//
// An allocation that finds no cached block, and emptyCache, query the events of
// pending blocks, and never wait for them. Where SYCL failed to submit a
// barrier they try again. Pending blocks are in the order of their frees, so a
// queue that has not passed the barrier of one block is not asked for those
// behind.
//
// mutex_ guards the blocks and is never held during a call of SYCL. A thread
// that queries events holds query_mutex_, so that another one that needs a
// block waits for the outcome and does not go to the system.

using c10::xpu::is_in_bad_fork;
using c10::xpu::XPUStream;

constexpr size_t kAlignment = 64; // that of CPU tensors
constexpr size_t kMinSize = 512;
constexpr size_t kMaxSize = size_t(1) << 62;

// With this many stream uses a block in use drops those that are complete.
constexpr size_t kManyUses = 32;

// Rounds up to one of four sizes per power of two.
size_t roundSize(size_t size) {
  if (size <= kMinSize) {
    return kMinSize;
  }
  const size_t step = c10::llvm::PowerOf2Ceil(size) / 8;
  return (size + step - 1) / step * step;
}

void warnDoubleFree(const void* ptr) noexcept {
  try {
    TORCH_WARN("The pinned host block at ", ptr, " was freed twice; ignored.");
  } catch (...) { // NOLINT(bugprone-empty-catch): a deleter cannot raise
  }
}

// Blocks and their uses are in lists, because moving an element from one list
// to another cannot fail.
struct StreamUse {
  sycl::queue queue;
  // A barrier behind the work that uses the block.
  c10::optional<sycl::event> event;

  // A deleter cannot raise: if SYCL does, there is no event for now.
  void ensureBarrier() noexcept {
    try {
      if (!event) {
        event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
      }
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch)
    }
  }

  bool isComplete() noexcept {
    ensureBarrier();
    try {
      return event && c10::xpu::impl::isComplete(*event);
    } catch (const std::exception&) {
      return false;
    }
  }
};
using StreamUses = std::list<StreamUse>;

// Moves the complete uses to `complete`. Does not ask the queues in `busy`, and
// adds those that turn out to be. The caller destroys `complete` when it holds
// no lock, since the end of an external queue may call its error handler.
void takeComplete(
    StreamUses& uses,
    StreamUses& complete,
    std::vector<sycl::queue>& busy) noexcept {
  for (auto it = uses.begin(); it != uses.end();) {
    const auto use = it++;
    if (std::find(busy.begin(), busy.end(), use->queue) != busy.end()) {
      continue;
    }
    if (use->isComplete()) {
      complete.splice(complete.end(), uses, use);
    } else {
      busy.push_back(use->queue);
    }
  }
}

struct Block {
  void* ptr = nullptr;
  size_t size = 0;
  bool in_use = false;
  StreamUses uses; // one for each queue
};
using Blocks = std::list<Block>;

class CachingHostAllocatorImpl {
 public:
  void* allocate(size_t size) {
    // Raises in a forked child, where cached blocks cannot be used and a lock
    // may have been held by a thread that the child does not have.
    c10::xpu::device_count_ensure_non_zero();
    void* ptr = size <= kMaxSize ? tryAllocate(roundSize(size)) : nullptr;
    if (C10_UNLIKELY(!ptr)) {
      const HostAllocatorStats now = stats();
      TORCH_CHECK_WITH(
          OutOfMemoryError,
          false,
          "XPU: no pinned host memory for ",
          size,
          " bytes. Of pinned blocks ",
          now.in_use_bytes(),
          " bytes are in use, ",
          now.waiting_bytes,
          " bytes are freed but still used by a stream, and ",
          now.cached_bytes,
          " bytes are cached. Free pinned tensors, synchronize the streams "
          "that copy from them, or pin less at a time.");
    }
    return ptr;
  }

  void free(void* ptr) noexcept {
    if (is_in_bad_fork()) {
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = by_ptr_.find(ptr);
    if (found == by_ptr_.end() || !found->second->in_use) {
      lock.unlock();
      warnDoubleFree(ptr);
      return;
    }
    const auto block = found->second;
    block->in_use = false;
    if (block->uses.empty()) {
      moveToCache(in_use_, block);
      return;
    }
    stats_.waiting_bytes += block->size;
    Blocks freed;
    freed.splice(freed.end(), in_use_, block);
    lock.unlock();
    for (auto& use : block->uses) {
      use.ensureBarrier();
    }
    lock.lock();
    pending_.splice(pending_.end(), freed);
  }

  bool recordStream(void* ptr, void* ctx, XPUStream stream) {
    // raises in a forked child
    const sycl::queue& queue = c10::xpu::impl::queueOf(stream);
    std::unique_lock<std::mutex> lock(mutex_);
    Block* block = find(ptr, ctx);
    if (!block || !block->in_use) {
      return false;
    }
    auto& uses = block->uses;
    for (auto& use : uses) {
      if (use.queue == queue) {
        use.event.reset(); // if it has one from dropComplete, it is too early
        return true;
      }
    }
    uses.push_back({queue, c10::nullopt});
    if (uses.size() >= kManyUses && c10::llvm::isPowerOf2_64(uses.size())) {
      dropComplete(uses, lock);
    }
    return true;
  }

  void emptyCache() {
    if (is_in_bad_fork()) {
      return;
    }
    processPending();
    std::unique_lock<std::mutex> lock(mutex_);
    for (auto& [size, cached] : cached_) {
      while (!cached.empty()) {
        Blocks block;
        block.splice(block.end(), cached, cached.begin());
        // First, since another thread may get the address once it is free.
        auto entry = by_ptr_.extract(block.front().ptr);
        lock.unlock();
        try {
          C10_XPU_CHECK(
              sycl::free(block.front().ptr, c10::xpu::get_device_context()));
        } catch (...) {
          lock.lock();
          by_ptr_.insert(std::move(entry));
          cached.splice(cached.end(), block);
          throw;
        }
        lock.lock();
        stats_.reserved_bytes -= size;
        stats_.cached_bytes -= size;
        ++stats_.num_host_free;
      }
    }
  }

  HostAllocatorStats stats() {
    if (is_in_bad_fork()) {
      return {};
    }
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

 private:
  void* tryAllocate(size_t size) {
    void* ptr = allocateCached(size);
    if (!ptr) {
      processPending();
      ptr = allocateCached(size);
    }
    if (!ptr) {
      ptr = allocateFromSystem(size);
    }
    if (!ptr) {
      emptyCache();
      ptr = allocateFromSystem(size);
    }
    return ptr;
  }

  // A cached block of at least `size` and less than twice that, or null.
  void* allocateCached(size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = cached_.lower_bound(size);
         it != cached_.end() && it->first < 2 * size;
         ++it) {
      if (!it->second.empty()) {
        const auto block = it->second.begin();
        block->in_use = true;
        stats_.cached_bytes -= block->size;
        in_use_.splice(in_use_.end(), it->second, block);
        return block->ptr;
      }
    }
    return nullptr;
  }

  // Null if the system has no memory left.
  void* allocateFromSystem(size_t size) {
    Blocks made;
    made.push_back({nullptr, size, /*in_use=*/true, {}});
    void* const ptr = C10_XPU_CHECK(
        sycl::aligned_alloc_host(
            kAlignment, size, c10::xpu::get_device_context()));
    if (ptr) {
      made.front().ptr = ptr;
      std::lock_guard<std::mutex> lock(mutex_);
      cached_[size]; // so that moveToCache finds it
      by_ptr_[ptr] = made.begin();
      in_use_.splice(in_use_.end(), made);
      stats_.reserved_bytes += size;
      ++stats_.num_host_alloc;
    }
    return ptr;
  }

  // Moves the pending blocks that no stream uses any more to the cache.
  void processPending() noexcept {
    StreamUses complete;
    std::vector<sycl::queue> busy;
    std::lock_guard<std::mutex> query_lock(query_mutex_);
    Blocks blocks;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      blocks.swap(pending_);
    }
    for (auto& block : blocks) {
      takeComplete(block.uses, complete, busy);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = blocks.begin(); it != blocks.end();) {
      const auto block = it++;
      if (block->uses.empty()) {
        stats_.waiting_bytes -= block->size;
        moveToCache(blocks, block);
      }
    }
    // In front of what was freed meanwhile.
    pending_.splice(pending_.begin(), blocks);
  }

  // A block that stays in use for long may be used by many external queues, one
  // after the other, and must not keep all of them. What is not complete now
  // has a barrier, and is asked again when there are twice as many.
  void dropComplete(StreamUses& uses, std::unique_lock<std::mutex>& lock) {
    StreamUses complete;
    StreamUses taken;
    std::vector<sycl::queue> busy;
    taken.swap(uses);
    lock.unlock();
    takeComplete(taken, complete, busy);
    lock.lock();
    uses.splice(uses.end(), taken);
    lock.unlock(); // before `complete` ends
  }

  Block* find(void* ptr, void* ctx) {
    auto it = by_ptr_.find(ctx); // a block's context is its address
    if (it != by_ptr_.end()) {
      return &*it->second;
    }
    it = by_ptr_.upper_bound(ptr);
    if (it == by_ptr_.begin()) {
      return nullptr;
    }
    Block& block = *std::prev(it)->second;
    void* const end = static_cast<char*>(block.ptr) + block.size;
    return ptr < end ? &block : nullptr;
  }

  void moveToCache(Blocks& from, Blocks::iterator block) noexcept {
    stats_.cached_bytes += block->size;
    // In front: the memory that was touched last is handed out first.
    Blocks& cached = cached_.find(block->size)->second;
    cached.splice(cached.begin(), from, block);
  }

  std::mutex query_mutex_; // taken before mutex_
  std::mutex mutex_;
  std::map<void*, Blocks::iterator> by_ptr_; // all blocks
  Blocks in_use_;
  Blocks pending_;
  std::map<size_t, Blocks> cached_; // by size
  HostAllocatorStats stats_;
};

// Never destroyed: tensors with static storage duration return their blocks
// while the process ends.
CachingHostAllocatorImpl& impl() {
  static auto* instance = new CachingHostAllocatorImpl();
  return *instance;
}

void deleteBlock(void* ctx) {
  if (ctx) {
    impl().free(ctx);
  }
}

struct CachingHostAllocator final : public detail::HostAllocatorBase {
  c10::DataPtr allocatePinned(size_t size) const override {
    void* const ptr = size == 0 ? nullptr : impl().allocate(size);
    return {ptr, ptr, &deleteBlock, c10::DeviceType::CPU};
  }
};

} // namespace

c10::Allocator* getCachingHostAllocator() {
  static CachingHostAllocator allocator;
  return &allocator;
}

c10::Allocator* getPinnedMemoryAllocator() {
  return getCachingHostAllocator();
}

bool CachingHostAllocator_recordEvent(void* ptr, void* ctx, XPUStream stream) {
  return impl().recordStream(ptr, ctx, stream);
}

void CachingHostAllocator_emptyCache() {
  impl().emptyCache();
}

HostAllocatorStats CachingHostAllocator_getStats() {
  return impl().stats();
}

} // namespace at::xpu
