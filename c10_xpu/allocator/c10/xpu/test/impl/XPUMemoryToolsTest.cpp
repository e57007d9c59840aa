// The history of the caching allocator, and pluggable allocators.

#include <c10/xpu/test/impl/XPUAllocatorTestUtil.h>

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMemoryTools.h>

#include <thread>

namespace allocator = c10::xpu::XPUCachingAllocator;
using namespace c10::xpu::test;
using allocator::RecordContext;
using allocator::TraceEntry;

namespace {

struct Place final : allocator::GatheredContext {};

std::shared_ptr<allocator::GatheredContext> gather() {
  return std::make_shared<Place>();
}

int64_t addressOf(const void* ptr) {
  return reinterpret_cast<int64_t>(ptr);
}

class XPUMemoryHistoryTest : public AllocatorTest {
 protected:
  void TearDown() override {
    allocator::recordHistory(false, nullptr, 0, RecordContext::NEVER);
    AllocatorTest::TearDown();
  }
  static std::vector<TraceEntry::Action> actions() {
    std::vector<TraceEntry::Action> result;
    const auto all = allocator::traces();
    for (const auto& entry : all.empty() ? std::deque<TraceEntry>() : all[0]) {
      result.push_back(entry.action);
    }
    return result;
  }
};

TEST_F(XPUMemoryHistoryTest, RecordsTheLifeOfABlock) {
  allocator::recordHistory(true, &gather, 100, RecordContext::ALL);
  void* const ptr = allocator::raw_alloc(1000);
  EXPECT_NE(allocator::contextOf(addressOf(ptr)), nullptr);
  allocator::raw_delete(ptr);
  EXPECT_EQ(allocator::contextOf(addressOf(ptr)), nullptr);
  allocator::emptyCache();
  EXPECT_EQ(
      actions(),
      (std::vector<TraceEntry::Action>{
          TraceEntry::SEGMENT_ALLOC,
          TraceEntry::ALLOC,
          TraceEntry::FREE_REQUESTED,
          TraceEntry::FREE_COMPLETED,
          TraceEntry::SEGMENT_FREE}));
  const auto entries = allocator::traces()[0];
  EXPECT_EQ(entries[1].addr, addressOf(ptr));
  EXPECT_EQ(entries[1].size, 1024);
  EXPECT_NE(entries[1].context, nullptr);
  EXPECT_LE(entries[0].time_us, entries[4].time_us);
}

TEST_F(XPUMemoryHistoryTest, KeepsTheLastEntries) {
  allocator::recordHistory(true, nullptr, 2, RecordContext::NEVER);
  allocator::raw_delete(allocator::raw_alloc(512));
  EXPECT_EQ(
      actions(),
      (std::vector<TraceEntry::Action>{
          TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED}));
  allocator::recordHistory(false, nullptr, 0, RecordContext::NEVER);
  allocator::raw_delete(allocator::raw_alloc(512));
  EXPECT_EQ(actions().size(), 2); // what was recorded stays
}

TEST_F(XPUMemoryHistoryTest, GoesOnWithoutWhatIsSkipped) {
  const auto record = [](bool clear) {
    allocator::recordHistory(
        true,
        &gather,
        100,
        RecordContext::ALL,
        clear,
        {TraceEntry::FREE_REQUESTED, TraceEntry::SEGMENT_ALLOC});
  };
  record(/*clear=*/true);
  void* const ptr = allocator::raw_alloc(512);
  record(/*clear=*/false);
  EXPECT_NE(allocator::contextOf(addressOf(ptr)), nullptr);
  allocator::raw_delete(ptr);
  EXPECT_EQ(
      actions(),
      (std::vector<TraceEntry::Action>{
          TraceEntry::ALLOC, TraceEntry::FREE_COMPLETED}));
  // Whether a block is still in use is not known after a pause.
  void* const other = allocator::raw_alloc(512);
  allocator::recordHistory(false, nullptr, 0, RecordContext::NEVER);
  record(/*clear=*/false);
  EXPECT_EQ(allocator::contextOf(addressOf(other)), nullptr);
  EXPECT_EQ(actions().size(), 3);
  record(/*clear=*/true);
  EXPECT_EQ(actions().size(), 0);
  allocator::raw_delete(other);
}

TEST_F(XPUMemoryHistoryTest, ContextsAreGatheredAsAsked) {
  allocator::recordHistory(true, &gather, 10, RecordContext::STATE);
  void* const ptr = allocator::raw_alloc(512);
  EXPECT_NE(allocator::contextOf(addressOf(ptr)), nullptr);
  EXPECT_EQ(allocator::traces()[0].back().context, nullptr);
  allocator::recordHistory(true, &gather, 10, RecordContext::ALLOC);
  void* const other = allocator::raw_alloc(512);
  EXPECT_NE(allocator::traces()[0].back().context, nullptr);
  allocator::raw_delete(other);
  EXPECT_EQ(allocator::traces()[0].back().context, nullptr);
  allocator::raw_delete(ptr);
}

TEST_F(XPUMemoryHistoryTest, OutOfMemoryIsRecorded) {
  allocator::recordHistory(true, nullptr, 10, RecordContext::NEVER);
  EXPECT_THROW(allocator::raw_alloc(size_t{1} << 50), c10::OutOfMemoryError);
  EXPECT_EQ(actions().back(), TraceEntry::OOM);
  EXPECT_EQ(allocator::traces()[0].back().size, int64_t{1} << 50);
}

// To gather a stack of Python takes the GIL, whose holder may wait for the
// allocator.
TEST_F(XPUMemoryHistoryTest, ContextsAreGatheredWithoutLocks) {
  static std::atomic<int> num_gathered{0};
  num_gathered = 0;
  const auto gatherUnlocked = [] {
    ++num_gathered;
    EXPECT_TRUE(holdsNoLock());
    allocator::traces(); // nor that of the history
    return gather();
  };
  allocator::recordHistory(true, +gatherUnlocked, 10, RecordContext::ALL);
  sycl::queue queue(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
  for (const auto stream :
       {c10::xpu::getStreamFromPool(), // its first allocation, and a cached one
        c10::xpu::getStreamFromExternal(&queue, 0)}) {
    allocator::raw_delete(allocator::raw_alloc_with_stream(512, stream));
    allocator::raw_delete(allocator::raw_alloc_with_stream(512, stream));
    EXPECT_THROW(
        allocator::raw_alloc_with_stream(size_t{1} << 50, stream),
        c10::OutOfMemoryError);
  }
  EXPECT_EQ(num_gathered, 10);
}

// Observers of Python take the GIL as well.
TEST_F(XPUMemoryHistoryTest, ObserversAreCalledWithoutLocks) {
  static std::atomic<int> num_observed{0};
  allocator::attachOutOfMemoryObserver([](int, size_t, size_t, size_t) {
    ++num_observed;
    EXPECT_TRUE(holdsNoLock());
  });
  const auto stream = c10::xpu::getStreamFromPool();
  EXPECT_THROW(
      allocator::raw_alloc_with_stream(size_t{1} << 50, stream),
      c10::OutOfMemoryError);
  EXPECT_EQ(num_observed, 1);
}

TEST_F(XPUMemoryHistoryTest, ThreadsRecordAtOnce) {
  allocator::recordHistory(true, &gather, 50, RecordContext::ALL);
  const auto work = [] {
    for (int i = 0; i < 500; ++i) {
      allocator::raw_delete(allocator::raw_alloc(512));
    }
  };
  std::thread first(work);
  std::thread second(work);
  for (int i = 0; i < 50; ++i) {
    EXPECT_LE(actions().size(), 50);
  }
  first.join();
  second.join();
  EXPECT_EQ(actions().size(), 50);
}

// ---- pluggable allocators; the process changes its allocator last ----

TEST_F(XPUMemoryHistoryTest, TheAllocatorInUseStays) {
  EXPECT_THROW(
      allocator::changeCurrentAllocator(
          std::make_shared<allocator::PluggableAllocator>(
              &allocateOwn, &freeOwn)),
      c10::Error);
}

TEST(XPUPluggableAllocatorTest, ServesAllocations) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto custom =
      std::make_shared<allocator::PluggableAllocator>(&allocateOwn, &freeOwn);
  const c10::xpu::XPUStream stream = c10::xpu::getCurrentXPUStream();
  void* const ptr = custom->raw_alloc_with_stream(777, stream);
  EXPECT_NE(ptr, nullptr);
  EXPECT_EQ(num_alive, 1);
  custom->raw_delete(ptr);
  EXPECT_EQ(num_alive, 0);
  EXPECT_EQ(last_freed, 777);
  EXPECT_THROW(custom->raw_delete(ptr), c10::Error);
  EXPECT_EQ(custom->raw_alloc_with_stream(0, stream), nullptr);
  EXPECT_THROW(
      custom->raw_alloc_with_stream(size_t{1} << 41, stream),
      c10::OutOfMemoryError);
}

} // namespace
