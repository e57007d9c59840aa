#pragma once

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <sycl/usm.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace c10::xpu::test {

/// Whether the caller holds no lock that another thread needs to ask about the
/// memory of device 0. One that has to wait ends when the lock is released.
inline bool holdsNoLock() {
  std::packaged_task<void()> task([] {
    XPUCachingAllocator::getDeviceStats(0);
    XPUCachingAllocator::snapshot();
  });
  const auto done = task.get_future();
  std::thread(std::move(task)).detach();
  return done.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

/// Tests of the caching allocator, which has no memory before and after each.
class AllocatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    set_device(0);
    XPUCachingAllocator::init(c10::xpu::device_count());
    XPUCachingAllocator::emptyCache();
    ASSERT_EQ(XPUCachingAllocator::snapshot().size(), 0);
  }
  void TearDown() override {
    if (c10::xpu::device_count() != 0) {
      XPUCachingAllocator::emptyCache();
      EXPECT_EQ(XPUCachingAllocator::snapshot().size(), 0)
          << "the test left memory";
    }
  }
};

// The functions of a pluggable allocator for device 0, and what they did.

inline std::atomic<int> num_alive{0};
inline std::atomic<size_t> last_freed{0}; // bytes
inline std::atomic<sycl::queue*> last_queue{nullptr};

inline void* allocateOwn(size_t size, int device, sycl::queue* queue) {
  EXPECT_EQ(device, 0);
  if (size > (size_t{1} << 40)) {
    return nullptr;
  }
  ++num_alive;
  last_queue = queue;
  return sycl::malloc_device(size, *queue);
}

inline void freeOwn(
    void* ptr,
    size_t size,
    int /*device*/,
    sycl::queue* queue) {
  --num_alive;
  last_freed = size;
  last_queue = queue;
  queue->wait();
  sycl::free(ptr, *queue);
}

} // namespace c10::xpu::test
