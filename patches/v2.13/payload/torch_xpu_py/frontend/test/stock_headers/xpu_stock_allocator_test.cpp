// Compiled with PyTorch's own headers, and not ours: an allocator of a class
// that is derived from PyTorch's.

#include <gtest/gtest.h>

#include <ATen/Context.h>
#if __has_include(<ATen/xpu/MemPool.h>) // since 2.14
#include <ATen/xpu/MemPool.h>
using at::xpu::MemPool;
#endif
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/xpu/XPUPluggableAllocator.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace c10::xpu;
namespace allocator = c10::xpu::XPUCachingAllocator;
namespace pluggable = torch::xpu::XPUPluggableAllocator;

namespace {

/// Remembers what it was asked for.
class OwnAllocator final : public allocator::XPUAllocator {
 public:
  void init(c10::DeviceIndex count) override {
    devices = count;
  }
  void* raw_alloc(size_t size) override {
    const auto stream = getCurrentXPUStream();
    last = stream.unwrap();
    void* const ptr = sycl::aligned_alloc_device(512, size, stream.queue());
    sizes[ptr] = size;
    return ptr;
  }
  void raw_delete(void* ptr) override {
    ASSERT_EQ(sizes.erase(ptr), 1);
    sycl::free(ptr, get_device_context());
  }
  c10::DataPtr allocate(size_t size) override {
    void* const ptr = raw_alloc(size);
    return {ptr, ptr, raw_deleter(), getCurrentXPUStream().device()};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &allocator::raw_delete;
  }
  void copy_data(void* to, const void* from, size_t size) const override {
    getCurrentXPUStream().queue().memcpy(to, from, size);
  }
  bool initialized() override {
    return devices > 0;
  }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    ++emptied;
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    recorded.emplace_back(ptr.get(), stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex /*device*/) override {
    return {};
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}

  c10::DeviceIndex devices = 0;
  std::map<void*, size_t> sizes;
  c10::Stream last{c10::Stream::DEFAULT, c10::Device(c10::kXPU, 0)};
  int emptied = 0;
  std::vector<std::pair<void*, c10::Stream>> recorded;
};

/// Runs it in a process of its own, since there is one allocator in each.
void inOwnProcess(const std::function<void()>& body) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const char* mapping = std::getenv("TORCH_XPU_MAPPING");
        if (device_count() > 0) {
          body();
        } else {
          EXPECT_EQ(std::string(mapping ? mapping : "GPU"), "GPU");
        }
        std::_Exit(::testing::Test::HasFailure());
      },
      ::testing::ExitedWithCode(0),
      "");
}

} // namespace

TEST(XPUStockAllocatorTest, BecomesTheCurrentOne) {
  inOwnProcess([] {
    const auto own = std::make_shared<OwnAllocator>();
    pluggable::changeCurrentAllocator(own);
    EXPECT_EQ(pluggable::getCurrentAllocator().get(), own.get());
    at::globalContext().lazyInitDevice(c10::kXPU);
    void* const ptr = allocator::raw_alloc(100);
    EXPECT_EQ(own->devices, device_count());
    EXPECT_EQ(own->sizes[ptr], 100);
    allocator::raw_delete(ptr);
    const auto stream = getStreamFromPool();
    auto data = c10::GetAllocator(c10::kXPU)->allocate(200);
    ASSERT_EQ(own->sizes.count(data.get()), 1);
    allocator::recordStream(data, stream);
    EXPECT_EQ(own->recorded.back().first, data.get());
    EXPECT_EQ(own->recorded.back().second, stream.unwrap());
    allocator::emptyCache();
    EXPECT_EQ(own->emptied, 1);
    data.clear();
    EXPECT_TRUE(own->sizes.empty());
  });
}

TEST(XPUStockAllocatorTest, IsOfPyTorchsClass) {
  struct Counting : pluggable::XPUPluggableAllocator {
    using XPUPluggableAllocator::XPUPluggableAllocator;
    size_t blocks() {
      return allocation_metadata_.size();
    }
  };
  inOwnProcess([] {
    sycl::queue* last = nullptr;
    const auto own = std::make_shared<Counting>(
        [&](size_t size, int device, sycl::queue* queue) -> void* {
          EXPECT_EQ(device, 0);
          last = queue;
          return size < 1000 ? sycl::malloc_device(size, *queue) : nullptr;
        },
        [&](void* ptr, size_t size, int /*device*/, sycl::queue* queue) {
          EXPECT_EQ(size, 100);
          EXPECT_EQ(queue, last);
          sycl::free(ptr, *queue);
        });
    int devices = 0;
    void* recorded = nullptr;
    own->set_init_fn([&](int count) { devices = count; });
    own->set_record_stream_fn(
        [&](void* ptr, sycl::queue* /*queue*/) { recorded = ptr; });
    EXPECT_FALSE(own->initialized());
    pluggable::changeCurrentAllocator(own);
    EXPECT_EQ(pluggable::getCurrentAllocator().get(), own.get());
    at::globalContext().lazyInitDevice(c10::kXPU);
    const auto stream = getStreamFromPool();
    setCurrentXPUStream(stream);
    auto data = c10::GetAllocator(c10::kXPU)->allocate(100);
    EXPECT_EQ(devices, device_count());
    EXPECT_TRUE(own->initialized());
    EXPECT_EQ(last, &stream.queue());
    EXPECT_EQ(own->blocks(), 1);
    allocator::recordStream(data, getStreamFromPool());
    EXPECT_EQ(recorded, data.get());
    EXPECT_THROW(allocator::raw_alloc(1000), c10::OutOfMemoryError);
    EXPECT_THROW(own->raw_delete(&devices), c10::Error);
    data.clear();
    EXPECT_EQ(own->blocks(), 0);
    // As a caller that has the object itself.
    data = own->allocate(100);
    EXPECT_EQ(own->blocks(), 1);
    char got = 0;
    stream.queue().fill(data.get(), 'x', 100);
    own->copy_data(&got, data.get(), 1);
    stream.synchronize();
    EXPECT_EQ(got, 'x');
    data = own->allocate(0);
    EXPECT_EQ(own->blocks(), 0);
  });
}

TEST(XPUStockAllocatorTest, GivesAPoolItsMemory) {
  inOwnProcess([] {
    at::globalContext().lazyInitDevice(c10::kXPU);
    const auto kept = std::make_shared<OwnAllocator>();
    OwnAllocator& own = *kept;
    {
#if TORCH_VERSION_MINOR < 15
      MemPool pool(&own);
      EXPECT_EQ(pool.allocator(), &own);
#else
      MemPool pool(kept);
#endif
      const auto stream = getStreamFromPool();
      setCurrentXPUStream(stream);
      allocator::beginAllocateToPool(
          0, pool.id(), [](sycl::queue*) { return true; });
      void* const ptr = allocator::raw_alloc(100);
      allocator::endAllocateToPool(0, pool.id());
      allocator::releasePool(0, pool.id());
      EXPECT_EQ(own.sizes.count(ptr), 1);
      EXPECT_EQ(own.last, stream.unwrap());
      allocator::raw_delete(ptr);
    }
    EXPECT_TRUE(own.sizes.empty());
  });
}
