#pragma once

#include <c10/util/Exception.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>

#include <sycl/queue.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

/// An allocator of the user's instead of the caching allocator, as
/// torch.xpu.memory.XPUPluggableAllocator and change_current_allocator make it.

namespace c10::xpu::XPUCachingAllocator {

/// Returns at least `size` bytes of memory of the device for use on the queue,
/// or null.
using AllocFn = void*(size_t size, int device, sycl::queue* queue);
/// Frees them; the queue may still have work that uses them.
using FreeFn = void(void* ptr, size_t size, int device, sycl::queue* queue);

/// Calls the two functions, from any thread. Nothing is cached: recordStream
/// and emptyCache do nothing.
class PluggableAllocator final : public XPUAllocator {
 public:
  PluggableAllocator(std::function<AllocFn> alloc, std::function<FreeFn> free)
      : alloc_(std::move(alloc)), free_(std::move(free)) {}

  void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) override {
    check_device_index(stream.device_index()); // raises in a forked child
    if (nbytes == 0) {
      return nullptr;
    }
    void* const ptr = alloc_(nbytes, stream.device_index(), &stream.queue());
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        ptr,
        c10::str("The pluggable XPU allocator has no memory for ", nbytes),
        c10::str(" bytes on ", stream.device()));
    const std::lock_guard<std::mutex> guard(mutex_);
    blocks_.emplace(ptr, std::make_pair(nbytes, stream));
    return ptr;
  }

  void raw_delete(void* ptr) override {
    if (ptr == nullptr || is_in_bad_fork()) {
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const auto block = blocks_.extract(ptr);
    lock.unlock();
    TORCH_CHECK(
        block,
        c10::str("invalid XPU pointer: ", ptr, " was not allocated"),
        " by the pluggable XPU allocator");
    const auto [size, stream] = block.mapped();
    free_(ptr, size, stream.device_index(), &stream.queue());
  }

  void recordStream(const DataPtr& /*ptr*/, XPUStream /*stream*/) override {}
  void emptyCache(MempoolId_t /*mempool_id*/) override {}

 private:
  const std::function<AllocFn> alloc_;
  const std::function<FreeFn> free_;
  std::mutex mutex_;
  std::unordered_map<void*, std::pair<size_t, XPUStream>> blocks_;
};

/// Makes an allocator the current one, until the process ends. Raises if the
/// devices were initialized with another, which would own memory.
inline void changeCurrentAllocator(
    const std::shared_ptr<XPUAllocator>& allocator) {
  TORCH_CHECK(allocator, "The XPU allocator cannot be null");
  set(allocator.get());
  // Its memory may be freed while the process ends.
  [[maybe_unused]] static auto& kept =
      *new std::shared_ptr<XPUAllocator>(allocator);
}

} // namespace c10::xpu::XPUCachingAllocator
