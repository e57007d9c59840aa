// Private pools of memory on real devices.

#include <c10/xpu/test/impl/XPUAllocatorTestUtil.h>
#include <c10/xpu/test/impl/XPUTraceRecorder.h>

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemPool.h>
#include <c10/xpu/XPUMemoryTools.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace allocator = c10::xpu::XPUCachingAllocator;
using c10::xpu::MemPool;
using c10::xpu::MempoolId_t;
using namespace c10::xpu::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool always(sycl::queue* /*queue*/) {
  return true;
}

class XPUMemPoolTest : public AllocatorTest {
 protected:
  // Whether the segment of an address is of the pool, where it is of any.
  static bool isIn(MempoolId_t pool, const void* ptr) {
    const auto at = reinterpret_cast<int64_t>(ptr);
    for (const auto& segment : allocator::snapshot(pool)) {
      EXPECT_EQ(segment.owner_private_pool_id, pool);
      if (at >= segment.address && at < segment.address + segment.total_size) {
        return true;
      }
    }
    return false;
  }
};

} // namespace

TEST_F(XPUMemPoolTest, IdsAreUnique) {
  MemPool first;
  MemPool second(nullptr, /*is_user_created=*/false);
  EXPECT_EQ(first.id().first, 0);
  EXPECT_GT(first.id().second, 0);
  EXPECT_GT(second.id().first, 0);
  EXPECT_EQ(second.id().second, 0);
  EXPECT_NE(MemPool::graph_pool_handle(), MemPool::graph_pool_handle());
  EXPECT_EQ(first.allocator(), nullptr);
  EXPECT_EQ(first.device(), 0);
}

TEST_F(XPUMemPoolTest, GetsWhatTheFilterSends) {
  MemPool pool;
  const auto stream = c10::xpu::getStreamFromPool();
  EXPECT_EQ(pool.use_count(), 1);
  allocator::beginAllocateToPool(0, pool.id(), [&](sycl::queue* queue) {
    return queue == &stream.queue();
  });
  EXPECT_EQ(pool.use_count(), 2);
  void* const inside = allocator::raw_alloc_with_stream(512, stream);
  void* const outside = allocator::raw_alloc(512);
  allocator::endAllocateToPool(0, pool.id());
  void* const after = allocator::raw_alloc_with_stream(512, stream);
  EXPECT_TRUE(isIn(pool.id(), inside));
  EXPECT_FALSE(isIn(pool.id(), outside));
  EXPECT_FALSE(isIn(pool.id(), after));
  allocator::releasePool(0, pool.id());
  EXPECT_EQ(pool.use_count(), 1);
  for (void* const ptr : {inside, outside, after}) {
    allocator::raw_delete(ptr);
  }
}

TEST_F(XPUMemPoolTest, KeepsItsMemoryWhileItLives) {
  auto pool = std::make_unique<MemPool>();
  const MempoolId_t id = pool->id();
  allocator::beginAllocateToPool(0, id, &always);
  allocator::raw_delete(allocator::raw_alloc(512));
  void* const kept = allocator::raw_alloc(3 * kMiB);
  allocator::endAllocateToPool(0, id);
  allocator::releasePool(0, id);
  allocator::emptyCache();
  allocator::emptyCache(id);
  EXPECT_EQ(allocator::snapshot(id).size(), 2);
  pool.reset();
  EXPECT_EQ(allocator::getPoolUseCount(0, id), 0);
  EXPECT_EQ(allocator::snapshot(id).size(), 1);
  allocator::raw_delete(kept);
}

TEST_F(XPUMemPoolTest, ServesAsTheLastResortIfItMay) {
  const size_t total = c10::xpu::get_device_properties(0).global_mem_size;
  for (const bool use_on_oom : {false, true}) {
    MemPool pool(nullptr, /*is_user_created=*/true, use_on_oom);
    allocator::beginAllocateToPool(0, pool.id(), &always);
    allocator::raw_delete(allocator::raw_alloc(4 * kMiB));
    allocator::endAllocateToPool(0, pool.id());
    allocator::releasePool(0, pool.id());
    const double part = 5.0 * kMiB / static_cast<double>(total);
    allocator::setMemoryFraction(part, 0);
    if (use_on_oom) {
      void* const ptr = allocator::raw_alloc(4 * kMiB);
      EXPECT_TRUE(isIn(pool.id(), ptr));
      allocator::raw_delete(ptr);
    } else {
      EXPECT_THROW(allocator::raw_alloc(4 * kMiB), c10::OutOfMemoryError);
    }
    allocator::setMemoryFraction(1, 0);
  }
}

TEST_F(XPUMemPoolTest, HasWhatLaterPyTorchDeclares) {
  using Own = allocator::XPUAllocator;
  const MempoolId_t id = MemPool::graph_pool_handle();
  allocator::createOrIncrefPool(0, id, std::shared_ptr<Own>());
  allocator::beginAllocateToPool(0, id, &always);
  void* const ptr = allocator::raw_alloc(512);
  allocator::endAllocateToPool(0, id);
  allocator::releasePool(0, id);
  EXPECT_TRUE(allocator::checkPoolLiveAllocations(0, id, {ptr}));
  EXPECT_FALSE(allocator::checkPoolLiveAllocations(0, id, {}));
  allocator::raw_delete(ptr);
  EXPECT_TRUE(allocator::checkPoolLiveAllocations(0, id, {}));
  allocator::endPool(0, id);
  EXPECT_TRUE(allocator::snapshot(id).empty());
  EXPECT_CONTAINS(
      errorOf([&] { allocator::setNoSplit(0, id); }), "splits its segments");
  for (const auto& text :
       {errorOf([&] { allocator::getCheckpointState(0, id); }),
        errorOf([&] { allocator::setCheckpointPoolState(0, nullptr); })}) {
    EXPECT_CONTAINS(text, "cannot go back");
  }
}

TEST_F(XPUMemPoolTest, OutOfMemoryTakesFromReleasedPools) {
  const size_t total = c10::xpu::get_device_properties(0).global_mem_size;
  const MempoolId_t id = MemPool::graph_pool_handle();
  allocator::beginAllocateToPool(0, id, &always);
  allocator::raw_delete(allocator::raw_alloc(4 * kMiB));
  allocator::endAllocateToPool(0, id);
  allocator::releasePool(0, id);
  EXPECT_EQ(allocator::snapshot(id).size(), 1);
  allocator::setMemoryFraction(5.0 * kMiB / static_cast<double>(total), 0);
  void* const ptr = allocator::raw_alloc(4 * kMiB);
  EXPECT_EQ(allocator::snapshot(id).size(), 0);
  allocator::raw_delete(ptr);
  allocator::setMemoryFraction(1, 0);
}

TEST_F(XPUMemPoolTest, ExternalQueuesHavePoolsToo) {
  sycl::queue queue(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
  const auto stream = c10::xpu::getStreamFromExternal(&queue, 0);
  MemPool pool;
  allocator::beginAllocateToPool(0, pool.id(), &always);
  void* const ptr = allocator::raw_alloc_with_stream(512, stream);
  allocator::endAllocateToPool(0, pool.id());
  allocator::releasePool(0, pool.id());
  EXPECT_TRUE(isIn(pool.id(), ptr));
  allocator::raw_delete(ptr);
}

TEST_F(XPUMemPoolTest, ThreadsUsePoolsOfTheirOwn) {
  inThreads(4, [](size_t) {
    const auto self = std::this_thread::get_id();
    for (int i = 0; i < 20; ++i) {
      MemPool pool;
      allocator::beginAllocateToPool(0, pool.id(), [self](sycl::queue*) {
        return std::this_thread::get_id() == self;
      });
      std::vector<void*> blocks;
      blocks.reserve(20);
      for (int k = 0; k < 20; ++k) {
        blocks.push_back(allocator::raw_alloc(512));
      }
      allocator::endAllocateToPool(0, pool.id());
      allocator::releasePool(0, pool.id());
      const auto segments = allocator::snapshot(pool.id());
      ASSERT_EQ(segments.size(), 1);
      EXPECT_EQ(segments[0].allocated_size, 20 * 512);
      for (void* const ptr : blocks) {
        allocator::raw_delete(ptr);
      }
    }
  });
}

TEST_F(XPUMemPoolTest, EventsOfTheHistoryNameTheirs) {
  const auto never = allocator::RecordContext::NEVER;
  allocator::recordHistory(true, nullptr, 10, never);
  EXPECT_TRUE(allocator::isHistoryEnabled());
  MemPool pool;
  allocator::beginAllocateToPool(0, pool.id(), always);
  void* const ptr = allocator::raw_alloc(512);
  allocator::endAllocateToPool(0, pool.id());
  allocator::releasePool(0, pool.id());
  allocator::raw_delete(ptr);
  const auto traces = allocator::traces();
  allocator::recordHistory(false, nullptr, 10, never);
  EXPECT_FALSE(allocator::isHistoryEnabled());
  ASSERT_EQ(traces.size(), 1);
  EXPECT_EQ(traces[0].size(), 4);
  for (const auto& entry : traces[0]) {
    EXPECT_EQ(entry.pool, pool.id());
  }
}

// ---- pools with an allocator of their own ----

TEST_F(XPUMemPoolTest, AnAllocatorServesAPrivatePool) {
  allocator::PluggableAllocator custom(&allocateOwn, &freeOwn);
  const int before = num_alive;
  {
    MemPool pool(&custom);
    EXPECT_EQ(pool.allocator(), &custom);
    allocator::beginAllocateToPool(0, pool.id(), always);
    void* const first = allocator::raw_alloc(512);
    void* const second = allocator::raw_alloc(512);
    EXPECT_THROW(allocator::raw_alloc(3 * kMiB << 20), c10::OutOfMemoryError);
    allocator::endAllocateToPool(0, pool.id());
    allocator::releasePool(0, pool.id());
    EXPECT_EQ(num_alive, before + 1);
    allocator::raw_delete(first);
    allocator::raw_delete(second);
    EXPECT_EQ(num_alive, before + 1); // cached
  }
  EXPECT_EQ(num_alive, before);
  EXPECT_EQ(last_freed, 2 * kMiB);
}

// Its segments outlive the external queues that use them.
TEST_F(XPUMemPoolTest, AnAllocatorOfAPoolIsNotGivenExternalQueues) {
  allocator::PluggableAllocator custom(&allocateOwn, &freeOwn);
  sycl::queue* const usual = &c10::xpu::getCurrentXPUStream().queue();
  MemPool pool(&custom);
  {
    sycl::queue queue(
        c10::xpu::get_device_context(),
        c10::xpu::get_raw_device(0),
        sycl::property::queue::in_order());
    const auto stream = c10::xpu::getStreamFromExternal(&queue, 0);
    allocator::beginAllocateToPool(0, pool.id(), always);
    allocator::raw_delete(allocator::raw_alloc_with_stream(512, stream));
    allocator::endAllocateToPool(0, pool.id());
    allocator::releasePool(0, pool.id());
    EXPECT_EQ(last_queue, usual);
  }
  last_queue = nullptr;
  allocator::releasePool(0, pool.id());
  allocator::emptyCache();
  EXPECT_EQ(last_queue, usual);
  allocator::createOrIncrefPool(0, pool.id()); // for its end
}

// Python's hooks, that of a new queue among them, and who gathers a stack take
// the GIL, whose holder may wait for the allocator. Hooks stay for the process.
TEST_F(XPUMemPoolTest, PythonIsCalledWithoutLocks) {
  static std::atomic<int> num_gathered{0};
  num_gathered = 0;
  const auto gather = []() -> std::shared_ptr<allocator::GatheredContext> {
    ++num_gathered;
    EXPECT_TRUE(holdsNoLock());
    return nullptr;
  };
  const auto all = allocator::RecordContext::ALL;
  allocator::recordHistory(true, +gather, 10, all);
  auto& recorder = TraceRecorder::get();
  recorder.also = [] { EXPECT_TRUE(holdsNoLock()); };
  sycl::queue queue(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
  allocator::PluggableAllocator custom(&allocateOwn, &freeOwn);
  for (const bool own : {false, true}) {
    MemPool pool(own ? &custom : nullptr);
    allocator::beginAllocateToPool(0, pool.id(), always);
    for (const auto stream :
         {c10::xpu::getStreamFromExternal(&queue, 0),
          c10::xpu::getStreamFromPool()}) {
      void* const ptr = allocator::raw_alloc_with_stream(512, stream);
      EXPECT_TRUE(isIn(pool.id(), ptr));
      allocator::raw_delete(ptr);
    }
    allocator::endAllocateToPool(0, pool.id());
    allocator::releasePool(0, pool.id());
  }
  recorder.also = nullptr;
  allocator::recordHistory(false, nullptr, 10, allocator::RecordContext::NEVER);
  EXPECT_EQ(num_gathered, 8);
  const auto calls = recorder.take();
  EXPECT_GE(
      std::count_if(
          calls.begin(),
          calls.end(),
          [](const auto& call) { return call.find("stream_creation") == 0; }),
      2);
}
