// What the caching allocator tells Python's trace hooks.

#include <c10/xpu/test/impl/XPUAllocatorTestUtil.h>
#include <c10/xpu/test/impl/XPUTraceRecorder.h>

#include <c10/util/ScopeExit.h>

#include <string>
#include <vector>

namespace allocator = c10::xpu::XPUCachingAllocator;
using namespace c10::xpu::test;

TEST(XPUCachingAllocatorTraceTest, AllocationsAndFreesAreTraced) {
  C10_XPU_NEEDS_DEVICES(1);
  allocator::init(c10::xpu::device_count());
  void* untraced = allocator::raw_alloc(512);
  auto& recorder = TraceRecorder::get();
  recorder.take(); // of a former run of this test
  void* ptr = allocator::raw_alloc(512);
  allocator::raw_delete(ptr);
  std::vector<std::string> expected = {
      TraceRecorder::call("memory_allocation", ptr),
      TraceRecorder::call("memory_deallocation", ptr)};
  EXPECT_EQ(recorder.take(), expected);

  void* data = nullptr;
  {
    const c10::DataPtr block = allocator::get()->allocate(3 << 20);
    data = block.get();
  }
  allocator::raw_delete(untraced);
  expected = {
      TraceRecorder::call("memory_allocation", data),
      TraceRecorder::call("memory_deallocation", data),
      TraceRecorder::call("memory_deallocation", untraced)};
  EXPECT_EQ(recorder.take(), expected);

  // What is no allocation or free is none in the trace.
  EXPECT_THROW(allocator::raw_delete(ptr), c10::Error);
  EXPECT_THROW(allocator::raw_alloc(size_t{1} << 60), c10::OutOfMemoryError);
  allocator::raw_delete(allocator::raw_alloc(0));
  const c10::DataPtr empty = allocator::get()->allocate(0);
  EXPECT_EQ(recorder.take(), std::vector<std::string>());
}

// Python's hooks take the GIL, whose holder may wait for the allocator.
TEST(XPUCachingAllocatorTraceTest, HooksAreCalledWithoutLocks) {
  C10_XPU_NEEDS_DEVICES(1);
  allocator::init(c10::xpu::device_count());
  auto& recorder = TraceRecorder::get();
  recorder.take();
  recorder.also = [] { EXPECT_TRUE(holdsNoLock()); };
  const auto quiet = c10::make_scope_exit([&] { recorder.also = nullptr; });
  sycl::queue queue(
      c10::xpu::get_device_context(),
      c10::xpu::get_raw_device(0),
      sycl::property::queue::in_order());
  for (const auto stream :
       {c10::xpu::getStreamFromPool(), // its first allocation, and a cached one
        c10::xpu::getStreamFromExternal(&queue, 0)}) {
    allocator::raw_delete(allocator::raw_alloc_with_stream(512, stream));
    allocator::raw_delete(allocator::raw_alloc_with_stream(512, stream));
  }
  EXPECT_EQ(recorder.take().size(), 8);
}
