#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/ATen.h>
#include <ATen/xpu/HostCall.h>
#include <c10/core/CPUAllocator.h>
#include <c10/xpu/XPUCachingAllocator.h>

#include <vector>

using namespace c10::xpu::test;
using at::Tensor;
using at::xpu::HostCall;
using c10::xpu::device_count;
namespace allocator = c10::xpu::XPUCachingAllocator;

namespace {

int64_t allocatedBytes() {
  return allocator::getDeviceStats(0).allocated_bytes[0].current;
}

Tensor onXPU(const Tensor& tensor) {
  HostCall call(0, "test");
  return call.toDevice(tensor.clone());
}

Tensor onCPU(const Tensor& tensor) {
  HostCall call(0, "test");
  return call.toHost(tensor);
}

/// Some of the elements of a vector, as a tensor that shares their memory.
Tensor part(const Tensor& tensor, int64_t begin, int64_t count) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  view.unsafeGetTensorImpl()->set_storage_offset(begin);
  return view;
}

class XPUHostCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
  }
};

} // namespace

TEST_F(XPUHostCallTest, ResultsAreMemoryOfTheDevice) {
  const auto before = allocatedBytes();
  {
    const auto x = onXPU(at::ones({1024}));
    EXPECT_TRUE(x.is_xpu());
    EXPECT_EQ(allocatedBytes() - before, 4096);
    EXPECT_EQ(onCPU(x).sum().item<float>(), 1024);
  }
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUHostCallTest, MemoryOfTheCPUIsStillTheCPUs) {
  const auto before = allocatedBytes();
  // raw_deallocate frees memory of either allocator.
  auto* const cpu = c10::GetCPUAllocator();
  cpu->raw_deallocate(cpu->raw_allocate(100));
  void* from_device = nullptr;
  {
    const HostCall call(0, "test");
    from_device = cpu->raw_allocate(100);
  }
  EXPECT_EQ(allocatedBytes() > before, at::xpu::isHostMemory(0));
  // Where SYCL cannot be asked, which of the two it is stays open.
  void* const from_cpu = cpu->raw_allocate(100);
  const auto child = inChild({}, [&]() -> std::string {
    cpu->raw_deallocate(from_device);
    cpu->raw_deallocate(from_cpu);
    return "";
  });
  EXPECT_EQ(child.code, 0) << child.output;
  cpu->raw_deallocate(from_cpu);
  cpu->raw_deallocate(from_device);
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUHostCallTest, ResultsOwnMemoryOfTheDevice) {
  const auto before = allocatedBytes();
  Tensor kept; // by the kernel
  Tensor whole;
  Tensor half;
  const auto own = at::ones({1024}); // made before the call
  {
    HostCall call(0, "test");
    kept = at::ones({1024});
    whole = call.toDevice(kept);
    half = call.toDevice(part(kept, 512, 512));
    call.finish();
    EXPECT_TRUE(whole.is_alias_of(half));
    const auto copy = call.toDevice(own);
    EXPECT_EQ(
        copy.storage().data_ptr().get_deleter(),
        allocator::get()->raw_deleter());
    EXPECT_NE(copy.data_ptr(), own.data_ptr());
    EXPECT_EQ(onCPU(copy).sum().item<float>(), 1024);
  }
  EXPECT_EQ(allocatedBytes() - before, 4096);
  EXPECT_EQ(
      whole.storage().data_ptr().get_deleter(),
      allocator::get()->raw_deleter());
  whole = Tensor();
  EXPECT_EQ(onCPU(half).sum().item<float>(), 512);
  half = Tensor();
  EXPECT_EQ(kept.sum().item<float>(), 1024);
  kept = Tensor();
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUHostCallTest, AnAliasKeepsTheMemory) {
  if (!at::xpu::isHostMemory(0)) {
    GTEST_SKIP() << "the device's memory is not host memory";
  }
  const auto before = allocatedBytes();
  auto x = onXPU(at::ones({1024}));
  auto host = at::xpu::hostAlias(x.storage());
  EXPECT_EQ(host.data_ptr().get(), x.data_ptr());
  x = Tensor();
  EXPECT_GT(allocatedBytes(), before);
  auto back = at::xpu::deviceAlias(host, 0);
  host = c10::Storage();
  EXPECT_GT(allocatedBytes(), before);
  EXPECT_EQ(back.nbytes(), 4096);
  back = c10::Storage();
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUHostCallTest, ArgumentsThatOverlap) {
  const auto x = onXPU(at::arange(8));
  const auto first = part(x, 0, 4);
  const auto second = part(x, 4, 4);
  HostCall call(0, "test");
  call.expect(first);
  call.expect(second);
  auto host = call.toHost(first, /*written=*/true);
  EXPECT_TRUE(host.storage().is_alias_of(call.toHost(second).storage()));
  EXPECT_TRUE(call.toHost(first).is_same(host));
  host.add_(call.toHost(second));
  EXPECT_TRUE(call.toDevice(host).is_same(first));
  call.finish();
  const auto expected = at::tensor({4, 6, 8, 10, 4, 5, 6, 7}, at::kLong);
  EXPECT_TRUE(onCPU(x).equal(expected));
}

TEST_F(XPUHostCallTest, AnArgumentIsResized) {
  const auto x = onXPU(at::ones({2}));
  HostCall call(0, "test");
  const auto host = call.toHost(x, /*written=*/true);
  host.resize_({3, 5}).fill_(2);
  call.finish();
  EXPECT_EQ(x.sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(x.storage().nbytes(), 60);
  EXPECT_EQ(onCPU(x).sum().item<float>(), 30);
  host.zero_(); // the kernel has kept it
}

TEST_F(XPUHostCallTest, WhatIsBetweenTheElementsIsNotWritten) {
  struct View {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t offset;
  };
  for (const auto& view :
       {View{{8}, {1}, 4},
        View{{5}, {3}, 1},
        View{{2, 3}, {10, 2}, 0},
        View{{3, 2}, {2, 10}, 0},
        View{{2, 2, 2}, {40, 9, 2}, 3},
        View{{2, 3, 2, 2}, {40, 10, 4, 1}, 1},
        View{{4, 3}, {0, 2}, 5}, // expanded
        View{{3, 4}, {2, 1}, 7}, // overlaps
        View{{3, 4}, {2, 9}, 7},
        View{{1, 4, 1}, {50, 3, 7}, 2},
        View{{0, 4}, {4, 2}, 2}}) {
    const auto expected = at::zeros({100});
    const auto as_view = [&](const Tensor& tensor) {
      auto made = part(tensor, view.offset, 0);
      made.unsafeGetTensorImpl()->set_sizes_and_strides(
          view.sizes, view.strides);
      return made;
    };
    as_view(expected).fill_(2);
    const auto x = onXPU(at::ones({100}));
    HostCall call(0, "test");
    const auto host = call.toHost(as_view(x), /*written=*/true);
    {
      HostCall other(0, "test"); // such as one of another thread
      other.toHost(x, /*written=*/true).zero_();
      other.finish();
    }
    host.fill_(2);
    call.finish();
    EXPECT_TRUE(onCPU(x).equal(expected))
        << at::IntArrayRef(view.sizes) << at::IntArrayRef(view.strides);
  }
}

TEST_F(XPUHostCallTest, ThePartBeforeAResizedArgumentIsKept) {
  const auto x = onXPU(at::ones({4}));
  const auto last = part(x, 3, 1);
  HostCall call(0, "test");
  call.toHost(last, /*written=*/true).resize_({3}).fill_(2);
  call.finish();
  EXPECT_EQ(last.sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(x.storage().nbytes(), 24);
  EXPECT_EQ(onCPU(last).sum().item<float>(), 6);
  EXPECT_EQ(onCPU(x).sum().item<float>(), 5);
}
