#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/test/impl/XPUAllocatorTestUtil.h>
#include <c10/xpu/test/impl/XPUNativeGate.h>

#include <chrono>
#include <future>

// Memory that work on a native stream uses, of which SYCL knows nothing.

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;
namespace allocator = c10::xpu::XPUCachingAllocator;

class XPUNativeMemoryTest : public AllocatorTest {};

TEST_F(XPUNativeMemoryTest, RecordedMemoryIsNotReusedBeforeNativeWorkIsDone) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream side = getStreamFromPool();
    side.synchronize();
    DataPtr data = allocator::get()->allocate(1 << 20);
    void* const ptr = data.get();
    NativeGate gate(side.native_stream());
    fillNatively(side.native_stream(), ptr, 1, 1 << 20);
    allocator::recordStream(data, side);
    data.clear();
    void* const other = allocator::raw_alloc(1 << 20);
    EXPECT_NE(other, ptr);
    gate.open();
    side.synchronize();
    EXPECT_EQ(allocator::raw_alloc(1 << 20), ptr);
    allocator::raw_delete(ptr);
    allocator::raw_delete(other);
    allocator::emptyCache();
  });
}

TEST_F(XPUNativeMemoryTest, MemoryIsGivenBackAfterNativeWork) {
  C10_XPU_NEEDS_NATIVE_WORK();
  onEachKind([] {
    const XPUStream stream = getStreamFromPool();
    void* const ptr = allocator::raw_alloc_with_stream(1 << 20, stream);
    NativeGate gate(stream.native_stream());
    fillNatively(stream.native_stream(), ptr, 1, 1 << 20);
    allocator::raw_delete(ptr);
    auto emptying =
        std::async(std::launch::async, [] { allocator::emptyCache(); });
    EXPECT_EQ(
        emptying.wait_for(std::chrono::milliseconds(50)),
        std::future_status::timeout);
    gate.open();
    emptying.get();
    EXPECT_TRUE(allocator::snapshot().empty());
  });
}
