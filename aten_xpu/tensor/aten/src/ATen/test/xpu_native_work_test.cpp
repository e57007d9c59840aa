#include <c10/xpu/test/impl/XPUNativeGate.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/Operators.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUStream.h>

#include <chrono>
#include <future>

// Operators that run on the host read what work of a native stream has written.

using namespace c10::xpu::test;

namespace {

/// Whether `read` gets what work that a gate holds has written to a tensor.
template <typename Read>
void expectReads(Read&& read) {
  onEachKind([&] {
    const auto before = c10::xpu::getCurrentXPUStream();
    const auto stream = c10::xpu::getStreamFromPool();
    c10::xpu::setCurrentXPUStream(stream);
    const auto x =
        at::zeros({1024}, at::TensorOptions(at::kXPU).dtype(at::kInt));
    stream.synchronize();
    NativeGate gate(stream.native_stream());
    fillNatively(stream.native_stream(), x.data_ptr(), 1, x.nbytes());
    auto reading = std::async(std::launch::async, [&] {
      c10::xpu::setCurrentXPUStream(stream);
      return read(x);
    });
    EXPECT_EQ(
        reading.wait_for(std::chrono::milliseconds(50)),
        std::future_status::timeout);
    gate.open();
    EXPECT_EQ(reading.get(), 0x01010101);
    c10::xpu::setCurrentXPUStream(before);
  });
}

class XPUNativeWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_NATIVE_WORK();
    c10::xpu::XPUCachingAllocator::init(c10::xpu::device_count());
    at::xpu::detail::registerFallbacks();
  }
};

} // namespace

TEST_F(XPUNativeWorkTest, AnOperatorOnTheHostReadsIt) {
  expectReads([](const at::Tensor& x) { return at::amax(x).item<int>(); });
}

TEST_F(XPUNativeWorkTest, ACopyToTheHostReadsIt) {
  expectReads([](const at::Tensor& x) {
    return x.to(at::kCPU).select(0, 1023).item<int>();
  });
}

TEST_F(XPUNativeWorkTest, AnItemIsReadAfterIt) {
  expectReads([](const at::Tensor& x) { return x.select(0, 5).item<int>(); });
}
