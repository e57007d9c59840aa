// Compiled with PyTorch's own headers, and not ours.

#include <gtest/gtest.h>

#if __has_include(<ATen/xpu/MemPool.h>) // since 2.14
#include <ATen/xpu/MemPool.h>
using at::xpu::MemPool;
#endif
#include <ATen/xpu/XPUContext.h>
#include <c10/xpu/PeerToPeerAccess.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUGuardImpl.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

using namespace c10::xpu;
namespace allocator = c10::xpu::XPUCachingAllocator;

namespace {

class XPUStockHeadersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* mapping = std::getenv("TORCH_XPU_MAPPING");
    if (device_count() == 0 && (!mapping || std::string(mapping) == "GPU")) {
      GTEST_SKIP() << "the mapping GPU finds no device here";
    }
    ASSERT_GT(device_count(), 0);
    at::globalContext().lazyInitDevice(c10::kXPU);
  }
};

} // namespace

TEST_F(XPUStockHeadersTest, DevicesAndTheirProperties) {
  set_device(0);
  EXPECT_EQ(current_device(), 0);
  DeviceProp filled;
  get_device_properties(&filled, 0);
  const auto& raw = get_raw_device(0);
  for (const DeviceProp* prop : {&filled, at::xpu::getDeviceProperties(0)}) {
    EXPECT_EQ(prop->name, raw.get_info<sycl::info::device::name>());
    EXPECT_EQ(
        prop->platform_name,
        raw.get_platform().get_info<sycl::info::platform::name>());
    EXPECT_EQ(prop->has_fp64, raw.has(sycl::aspect::fp64));
    EXPECT_GT(prop->gpu_eu_count, 0u);
  }
  EXPECT_TRUE(get_p2p_access(0, 0));
  EXPECT_TRUE(at::xpu::canDeviceAccessPeer(0, 0));
}

TEST_F(XPUStockHeadersTest, Streams) {
  const XPUStream stream = getStreamFromPool();
  setCurrentXPUStream(stream);
  EXPECT_EQ(getCurrentXPUStream(), stream);
  EXPECT_EQ(stream.priority(), 0);
  EXPECT_EQ(XPUStream(stream.unwrap()), stream);
  int number = 0;
  stream.queue().submit(
      [&](sycl::handler& handler) { handler.host_task([&] { number = 1; }); });
  syncStreamsOnDevice();
  EXPECT_EQ(number, 1);
  std::ostringstream text;
  text << stream;
  EXPECT_NE(text.str().find("xpu:0"), std::string::npos);
}

TEST_F(XPUStockHeadersTest, Memory) {
  constexpr size_t kAll = 0;
  allocator::emptyCache();
  const auto before = allocator::getDeviceStats(0);
  void* const ptr = allocator::raw_alloc(1000);
  const auto during = allocator::getDeviceStats(0);
  EXPECT_EQ(get_device_idx_from_pointer(ptr), 0);
  EXPECT_EQ(
      during.allocated_bytes[kAll].current,
      before.allocated_bytes[kAll].current + 1024);
  EXPECT_EQ(during.num_device_alloc, before.num_device_alloc + 1);
  allocator::raw_delete(ptr);
  c10::DataPtr data = allocator::get()->allocate(512);
  allocator::recordStream(data, getStreamFromPool());
  allocator::resetPeakStats(0);
  allocator::setMemoryFraction(0.5, 0);
  EXPECT_EQ(allocator::getMemoryFraction(0), 0.5);
  allocator::setMemoryFraction(1, 0);
}

namespace {

struct Place : c10::GatheredContext {};

std::shared_ptr<c10::GatheredContext> gatherPlace() {
  return std::make_shared<Place>();
}

} // namespace

TEST_F(XPUStockHeadersTest, MemoryHistory) {
  using c10::CachingDeviceAllocator::RecordContext;
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  set_device(0);
  setCurrentXPUStream(getStreamFromPool());
  const auto* const queue = &getCurrentXPUStream().queue();
  static int tracked; // a tracker stays
  allocator::attachAllocatorTraceTracker([](const Entry& entry) {
    EXPECT_EQ(entry.device_, 0);
    ++tracked;
  });
  allocator::recordHistory(
      true, &gatherPlace, 10, RecordContext::ALL, true, {"free_completed"});
  void* const ptr = allocator::raw_alloc(1000);
  const auto address = reinterpret_cast<size_t>(ptr);
  auto now = allocator::snapshot();
  bool found = false;
  for (const auto& segment : now.segments) {
    if (segment.address <= address &&
        address < segment.address + segment.total_size) {
      found = true;
      EXPECT_EQ(segment.stream, queue);
      size_t at = segment.address;
      for (const auto& block : segment.blocks) {
        if (at == address) {
          EXPECT_EQ(block.requested_size, 1000);
          EXPECT_TRUE(block.allocated);
          EXPECT_TRUE(
              std::dynamic_pointer_cast<Place>(block.context_when_allocated));
        }
        at += block.size;
      }
    }
  }
  EXPECT_TRUE(found);
  allocator::raw_delete(ptr);
  now = allocator::snapshot();
  allocator::recordHistory(false, nullptr, 0, RecordContext::NEVER, true, {});
  ASSERT_EQ(now.device_traces.size(), device_count());
  const auto& trace = now.device_traces[0];
  ASSERT_GE(trace.size(), 2);
  const auto& alloc = trace[trace.size() - 2];
  EXPECT_EQ(alloc.action_, Entry::ALLOC);
  EXPECT_EQ(alloc.addr_, address);
  EXPECT_EQ(alloc.size_, 1024);
  EXPECT_EQ(alloc.stream_, queue);
  EXPECT_TRUE(std::dynamic_pointer_cast<Place>(alloc.context_));
  EXPECT_EQ(trace.back().action_, Entry::FREE_REQUESTED);
  EXPECT_GE(trace.back().time_.t_, alloc.time_.t_);
  EXPECT_GE(tracked, 3);
  const int before = tracked;
  allocator::raw_delete(allocator::raw_alloc(1000));
  EXPECT_EQ(tracked, before + 3); // also without a history
  EXPECT_THROW(
      allocator::recordHistory(
          true, nullptr, 1, RecordContext::ALL, true, {"none"}),
      c10::Error);
}

TEST_F(XPUStockHeadersTest, MemPools) {
  constexpr size_t kAll = 0;
  const auto reserved = [] {
    return allocator::getDeviceStats(0).reserved_bytes[kAll].current;
  };
  set_device(0);
  allocator::emptyCache();
  const auto before = reserved();
  void* ptr = nullptr;
  {
    MemPool pool;
    EXPECT_NE(pool.id(), MemPool::graph_pool_handle());
    EXPECT_EQ(pool.device(), 0);
#if TORCH_VERSION_MINOR < 15
    EXPECT_EQ(pool.allocator(), nullptr);
#endif
    allocator::createOrIncrefPool(0, pool.id());
    allocator::beginAllocateToPool(
        0, pool.id(), [](sycl::queue*) { return true; });
    EXPECT_EQ(pool.use_count(), 3);
    ptr = allocator::raw_alloc(512);
    allocator::endAllocateToPool(0, pool.id());
    allocator::releasePool(0, pool.id());
    allocator::releasePool(0, pool.id());
    EXPECT_EQ(allocator::getPoolUseCount(0, pool.id()), 1);
    allocator::raw_delete(ptr);
    allocator::emptyCache();
    EXPECT_GT(reserved(), before);
  }
  EXPECT_EQ(reserved(), before);
}

TEST_F(XPUStockHeadersTest, Guards) {
  const auto last = static_cast<c10::DeviceIndex>(device_count() - 1);
  {
    const c10::DeviceGuard guard(c10::Device(c10::kXPU, last));
    EXPECT_EQ(current_device(), last);
    const c10::impl::InlineDeviceGuard<c10::xpu::impl::XPUGuardImpl> inner(0);
    EXPECT_EQ(current_device(), 0);
  }
  EXPECT_EQ(current_device(), 0);
}
