#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <c10/xpu/XPUStream.h>

#include <cstring>

using namespace c10::xpu::test;

// The allocator of pinned memory as the at::HostAllocator of XPU.

namespace {

at::HostAllocator& host() {
  return *at::getHostAllocator(at::kXPU);
}

} // namespace

TEST(XPUHostAllocatorTest, OneAllocatorUnderAllNames) {
  C10_XPU_NEEDS_DEVICES(1);
  EXPECT_EQ(&host(), at::xpu::getCachingHostAllocator());
  EXPECT_EQ(&host(), at::globalContext().getPinnedMemoryAllocator(at::kXPU));
}

TEST(XPUHostAllocatorTest, MemoryIsKeptForAStreamThatUsesIt) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto stream = c10::xpu::getStreamFromPool();
  void* ptr = nullptr;
  {
    Gate gate(stream.queue());
    c10::DataPtr data = host().allocate(512);
    ptr = data.get();
    EXPECT_TRUE(host().record_event(ptr, data.get_context(), stream.unwrap()));
    data.clear();
    EXPECT_NE(host().allocate(512).get(), ptr);
    EXPECT_EQ(host().get_stats().active_bytes.current, 512);
  }
  host().empty_cache();
  EXPECT_EQ(host().get_stats().active_bytes.current, 0);
  EXPECT_EQ(host().get_stats().allocated_bytes.current, 0);
  EXPECT_EQ(host().get_stats().num_host_alloc, 2);
}

TEST(XPUHostAllocatorTest, ClonesAndRefusals) {
  C10_XPU_NEEDS_DEVICES(1);
  const c10::DataPtr data = host().allocate(4);
  std::memcpy(data.get(), "xpu", 4);
  EXPECT_STREQ(
      static_cast<const char*>(host().clone(data.get(), 4).get()), "xpu");
  EXPECT_THROW(host().reset_peak_stats(), c10::NotImplementedError);
  EXPECT_THROW(host().reset_accumulated_stats(), c10::NotImplementedError);
}
