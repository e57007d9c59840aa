#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <torch/library.h>

#include <cstdlib>
#include <vector>

using namespace c10::xpu::test;
using c10::xpu::device_count;
namespace allocator = c10::xpu::XPUCachingAllocator;

namespace {

const auto kOnXPU = at::TensorOptions(at::kXPU);

// What is tested is the host's part, also where a later stage has kernels.
[[maybe_unused]] const int kNoKernels =
    setenv("TORCH_XPU_KERNELS", "0", /*overwrite=*/1);

int64_t allocatedBytes() {
  return allocator::getDeviceStats(0).allocated_bytes[0].current;
}

constexpr float kOfXPU = 42;

/// A kernel that takes float32 and leaves float64 to the host.
at::Tensor& erfinvOut(const at::Tensor& x, at::Tensor& out) {
  if (x.scalar_type() != at::kFloat) {
    return at::xpu::OnHost<at::_ops::erfinv_out>::call(x, out);
  }
  out.resize_(x.sizes());
  return out.fill_(kOfXPU);
}

class XPUFallbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    allocator::init(device_count());
    at::xpu::detail::registerFallbacks();
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("erfinv.out", TORCH_FN(erfinvOut));
}

TEST_F(XPUFallbackTest, ResultsAreMemoryOfTheDevice) {
  const auto before = allocatedBytes();
  {
    const auto x = at::ones({1024}, kOnXPU);
    const auto y = at::cumsum(x, 0);
    EXPECT_TRUE(y.is_xpu());
    EXPECT_EQ(allocatedBytes() - before, 2 * 4096);
    EXPECT_EQ(y[1023].item<float>(), 1024);
  }
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUFallbackTest, AResultIsResizedAndAStorageReplaced) {
  auto out = at::empty({0}, kOnXPU);
  at::add_out(out, at::ones({3, 5}, kOnXPU), at::ones({5}, kOnXPU));
  EXPECT_EQ(out.sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(out.storage().nbytes(), 60);
  EXPECT_EQ(out.sum().item<float>(), 30);
  EXPECT_TRUE(out.storage().device().type() == at::kXPU);
}

TEST_F(XPUFallbackTest, WhatIsBelowOnTheStackIsTheCallers) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::cos", "");
  torch::jit::Stack stack{at::ones({3}), at::zeros({3}, kOnXPU)};
  op.callBoxed(&stack);
  ASSERT_EQ(stack.size(), 2);
  EXPECT_TRUE(stack[0].toTensor().device().is_cpu());
  EXPECT_TRUE(stack[1].toTensor().is_xpu());
  EXPECT_EQ(stack[1].toTensor().sum().item<float>(), 3);
}

TEST_F(XPUFallbackTest, ErrorsOfAKernelLeaveTheArguments) {
  auto x = at::ones({3}, kOnXPU);
  const auto before = allocatedBytes();
  EXPECT_CONTAINS(errorOf([&] { at::mm(x, x); }), "must be a matrix");
  EXPECT_EQ(allocatedBytes(), before);
  EXPECT_EQ(x.sum().item<float>(), 3);
  // The thread's allocations are the CPU's again.
  EXPECT_TRUE(at::ones({100}).device().is_cpu());
  EXPECT_EQ(allocatedBytes(), before);
}

TEST_F(XPUFallbackTest, AnErrorOfAKernelChangesNoLaterCall) {
  torch::Library library(
      torch::Library::FRAGMENT, "xpu_fallback_test", {}, __FILE__, __LINE__);
  library.def("type_seen(Tensor x, bool fails) -> int");
  library.impl(
      "type_seen",
      torch::dispatch(c10::kCPU, [](const at::Tensor& x, bool fails) {
        TORCH_CHECK(!fails, "type_seen not implemented for 'Half'");
        return int64_t(x.scalar_type());
      }));
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("xpu_fallback_test::type_seen", "")
                      .typed<int64_t(const at::Tensor&, bool)>();
  const auto half = at::ones({2}, kOnXPU.dtype(at::kHalf));
  EXPECT_EQ(op.call(half, false), int64_t(at::kHalf));
  EXPECT_CONTAINS(errorOf([&] { op.call(half, true); }), "not implemented");
  EXPECT_EQ(op.call(half, false), int64_t(at::kHalf));
}

TEST_F(XPUFallbackTest, AKernelLeavesADtypeToTheHost) {
  at::xpu::resetFallbackStatistics();
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const bool host = dtype == at::kDouble;
    const auto x = at::full({3}, 0.5, kOnXPU.dtype(dtype));
    const auto expected = host ? at::erfinv(x.cpu()) : at::full({3}, kOfXPU);
    auto out = at::empty({0}, kOnXPU.dtype(dtype));
    EXPECT_TRUE(at::erfinv_out(out, x).is_same(out));
    EXPECT_TRUE(out.cpu().equal(expected));
    // PyTorch makes these of the kernel.
    EXPECT_TRUE(at::erfinv(x).cpu().equal(expected));
    auto y = x.clone();
    EXPECT_TRUE(y.erfinv_().cpu().equal(expected));
  }
  uint64_t calls = 0;
  for (const auto& count : at::xpu::fallbackStatistics()) {
    calls += count.name == "aten::erfinv.out" ? count.calls : 0;
  }
  EXPECT_EQ(calls, 3);
}

TEST_F(XPUFallbackTest, StatisticsWhileOperatorsRun) {
  const auto one = at::ones({1, 1}, kOnXPU);
  at::xpu::resetFallbackStatistics();
  inThreads(3, [&](int n) {
    for (const auto i : c10::irange(100)) {
      (void)i;
      if (n == 0) {
        at::xpu::fallbackStatistics();
      } else {
        at::cholesky(one);
      }
    }
  });
  uint64_t calls = 0;
  for (const auto& count : at::xpu::fallbackStatistics()) {
    calls += count.name == "aten::cholesky" ? count.calls : 0;
  }
  EXPECT_EQ(calls, 200);
}
