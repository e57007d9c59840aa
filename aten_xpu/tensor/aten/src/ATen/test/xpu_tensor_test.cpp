#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/ATen.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <sycl/ext/oneapi/experimental/graph.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace c10::xpu::test;
using c10::xpu::getStreamFromPool;
namespace allocator = c10::xpu::XPUCachingAllocator;

namespace {

const auto kOnXPU = at::TensorOptions(at::kXPU);

// What is tested is the host's part, also where a later stage has kernels.
[[maybe_unused]] const int kNoKernels =
    setenv("TORCH_XPU_KERNELS", "0", /*overwrite=*/1);

int64_t allocatedBytes() {
  return allocator::getDeviceStats(0).allocated_bytes[0].current;
}

class XPUTensorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    at::empty({0}, kOnXPU); // brings XPU up, without Python
  }
};

} // namespace

TEST_F(XPUTensorTest, ACopyToTheCPUIsMemoryOfTheCPU) {
  const auto x = at::ones({1024}, kOnXPU);
  const auto before = allocatedBytes();
  const auto y = x.cpu();
  EXPECT_EQ(allocatedBytes(), before);
  EXPECT_TRUE(y.device().is_cpu());
}

TEST_F(XPUTensorTest, TheHostWaitsForTheCurrentStream) {
  const auto stream = getStreamFromPool();
  const c10::xpu::XPUStreamGuard guard(stream);
  auto x = at::zeros({1024}, kOnXPU);
  std::atomic<bool> done{false};
  std::thread other;
  {
    Gate gate(stream.queue());
    stream.queue().memset(x.data_ptr(), 0x3f, 4096);
    other = std::thread([&] {
      const c10::xpu::XPUStreamGuard same(stream);
      x.add_(0);
      done = true;
    });
    // Whatever the other thread does by now, it cannot be done.
    EXPECT_FALSE(done);
  }
  other.join();
  EXPECT_TRUE(done);
  EXPECT_GT(x.min().item<float>(), 0.7); // 0x3f3f3f3f
}

TEST_F(XPUTensorTest, ResultsOfFailedWorkAreNotRead) {
  const auto stream = getStreamFromPool();
  const c10::xpu::XPUStreamGuard guard(stream);
  auto x = at::ones({8, 8}, kOnXPU);
  auto host = at::ones({8, 8});
  const std::vector<std::function<void()>> reads = {
      [&] { x.sum().item(); },
      [&] { x[0][0].item(); },
      [&] { x.cpu(); },
      [&] { x.t().cpu(); },
      [&] { host.copy_(x); },
      [&] { x.copy_(host); },
      [&] { at::empty({0}, kOnXPU).set_(x.storage()).resize_({99}); },
      [&] { x + 1; },
      [&] { x.add_(1); },
      [&] { x.nonzero(); },
      [&] { at::_unique(x); },
      [&] { x.equal(x); }};
  for (const auto& read : reads) {
    c10::xpu::impl::launch(stream, [](sycl::queue& queue) {
      submitFailure(queue, "the work has failed");
      return queue.ext_oneapi_submit_barrier();
    });
    c10::xpu::impl::queueOf(stream).wait();
    EXPECT_CONTAINS(errorOf(read), "the work has failed");
    read(); // once
    stream.synchronize();
  }
}

TEST_F(XPUTensorTest, ACopyToPinnedMemoryDoesNotWait) {
  const auto stream = getStreamFromPool();
  const c10::xpu::XPUStreamGuard guard(stream);
  const auto x = at::ones({1024}, kOnXPU);
  auto pinned = at::zeros({1024}).pin_memory(c10::Device(at::kXPU));
  {
    Gate gate(stream.queue());
    pinned.copy_(x, /*non_blocking=*/true);
    EXPECT_EQ(pinned.sum().item<float>(), 0);
  }
  stream.synchronize();
  EXPECT_EQ(pinned.sum().item<float>(), 1024);
}

TEST_F(XPUTensorTest, ACopyBetweenDevicesIsInTheOrderOfBothStreams) {
  C10_XPU_NEEDS_DEVICES(2);
  C10_XPU_NEEDS_PEERS();
  const auto to = getStreamFromPool(false, 1);
  const auto from = getStreamFromPool(false, 0);
  const c10::xpu::XPUStreamGuard theirs(to);
  const c10::xpu::XPUStreamGuard ours(from);
  const auto x = at::zeros({1024}, kOnXPU);
  const auto y = at::zeros({1024}, at::Device(at::kXPU, 1));
  for (const auto& busy : {from, to}) {
    {
      Gate gate(busy.queue());
      to.queue().memset(y.data_ptr(), 0, 4096);
      from.queue().memset(x.data_ptr(), 0x3f, 4096);
      y.copy_(x); // does not wait for the gate
      from.queue().memset(x.data_ptr(), 0, 4096);
    }
    EXPECT_GT(y.min().item<float>(), 0.7); // 0x3f3f3f3f
  }
}

TEST_F(XPUTensorTest, WorkIsRecorded) {
  namespace detail = at::xpu::detail;
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const auto stream = getStreamFromPool();
  const c10::xpu::XPUStreamGuard guard(stream);
  const auto x = at::ones({1024}, kOnXPU);
  auto pinned = at::zeros({1024}).pin_memory(c10::Device(at::kXPU));
  const auto before = now();
  detail::startRecordingWork();
  EXPECT_ANY_THROW(detail::startRecordingWork());
  EXPECT_EQ(detail::exchangeWorkCorrelation(7), 0);
  const auto y = at::cos(x);
  EXPECT_EQ(detail::exchangeWorkCorrelation(8), 7);
  int64_t open = 0;
  {
    Gate gate(stream.queue());
    pinned.copy_(x, /*non_blocking=*/true);
    open = now();
  }
  EXPECT_EQ(detail::exchangeWorkCorrelation(0), 8);
  const auto records = detail::stopRecordingWork();
  const auto after = now();

  ASSERT_FALSE(records.empty());
  auto last_end = before;
  for (const auto& record : records) {
    EXPECT_EQ(record.stream, stream);
    EXPECT_EQ(record.correlation, &record == &records.back() ? 8 : 7);
    // The device's clock is read a little after its event.
    const int64_t slack = &record == &records.back() ? 10'000'000 : 0;
    EXPECT_GE(record.begin, last_end - slack);
    EXPECT_GE(record.end, record.begin);
    last_end = record.end;
    EXPECT_LE(record.end, after + slack);
  }
  // The copy could not begin before the gate was open.
  EXPECT_EQ(records.back().name, "Memcpy");
  EXPECT_EQ(records.back().nbytes, 4096);
  EXPECT_GE(records.back().end, open - 10'000'000);
  if (at::xpu::isHostMemory(0)) {
    ASSERT_EQ(records.size(), 2);
    EXPECT_EQ(records[0].name, "aten::cos");
    EXPECT_EQ(records[0].nbytes, 0);
  } else {
    // The argument to the host and the result back.
    ASSERT_EQ(records.size(), 3);
  }

  // Nothing is kept, and nothing is recorded now.
  at::cos(x);
  detail::startRecordingWork();
  EXPECT_TRUE(detail::stopRecordingWork().empty());
}

TEST_F(XPUTensorTest, ThreadsOnStreamsOfTheirOwnAndOnOne) {
  constexpr int kThreads = 4;
  for (const bool own_stream : {true, false}) {
    std::vector<float> sums(kThreads);
    inThreads(kThreads, [&](int n) {
      const auto stream =
          own_stream ? getStreamFromPool() : c10::xpu::getDefaultXPUStream();
      const c10::xpu::XPUStreamGuard guard(stream);
      const auto pinned = at::full({256}, n).pin_memory(c10::Device(at::kXPU));
      auto x = at::zeros({256}, kOnXPU);
      for (const auto i : c10::irange(50)) {
        (void)i;
        x.add_(pinned.to(at::kXPU, at::kFloat, /*non_blocking=*/true));
        x = x.clone();
      }
      sums[n] = x.sum().item<float>();
    });
    for (const auto n : c10::irange(kThreads)) {
      EXPECT_EQ(sums[n], 256 * 50 * n);
    }
  }
}

namespace {

/// Whether a block was freed that a stream still uses.
bool isHeldBack(const void* data) {
  const auto address = reinterpret_cast<int64_t>(data);
  for (const auto& segment : allocator::snapshot()) {
    auto begin = segment.address;
    for (const auto& block : segment.blocks) {
      if (begin <= address && address < begin + block.size) {
        return block.active && !block.allocated;
      }
      begin += block.size;
    }
  }
  return false;
}

} // namespace

// Each is another way in which a tensor gets its memory.
TEST_F(XPUTensorTest, RecordedStreamsHoldMemoryBack) {
  const auto x = at::rand({6, 2}, kOnXPU);
  std::vector<std::pair<std::string, std::function<at::Tensor()>>> ways = {
      {"factory", [] { return at::empty({100}, kOnXPU); }},
      {"result", [&] { return at::cos(x); }},
      {"resized",
       [&] {
         auto out = at::empty({0}, kOnXPU);
         at::cos_out(out, x);
         return out;
       }},
      {"list", [&] { return at::_histogramdd_bin_edges(x, {2, 2})[1]; }},
      {"part of a sparse tensor", [&] { return x.to_sparse()._values(); }},
      {"part of a nested tensor",
       [&] { return at::_nested_tensor_from_tensor_list({x, x}).unbind()[1]; }},
      {"copy", [&] { return at::ones({7}).to(at::kXPU); }},
  };
  if (at::xpu::isHostMemory(0)) {
    ways.emplace_back("alias of an alias", [] {
      const auto y = at::ones({100}, kOnXPU);
      return at::empty({0}, kOnXPU)
          .set_(at::xpu::deviceAlias(at::xpu::hostAlias(y.storage()), 0));
    });
  }
  for (const auto& [name, make] : ways) {
    auto tensor = make();
    const void* const data = tensor.data_ptr();
    const auto stream = getStreamFromPool();
    Gate gate(stream.queue());
    tensor.record_stream(stream);
    EXPECT_FALSE(isHeldBack(data)) << name;
    tensor = at::Tensor();
    EXPECT_TRUE(isHeldBack(data)) << name;
    gate.finish();
    allocator::emptyCache();
    EXPECT_FALSE(isHeldBack(data)) << name;
  }
}

TEST_F(XPUTensorTest, AGraphRecordsCopiesAndNothingThatItWouldMiss) {
  if (!c10::xpu::get_raw_device(0).has(
          sycl::aspect::ext_oneapi_limited_graph)) {
    GTEST_SKIP() << "SYCL has no graphs for this device";
  }
  const auto stream = getStreamFromPool();
  const c10::xpu::XPUStreamGuard guard(stream);
  const auto x = at::rand({4, 6}, kOnXPU);
  const auto out = at::zeros({4, 6}, kOnXPU);
  const auto sparse = x.to_sparse();
  const auto image = at::rand({1, 1, 4, 4}, kOnXPU);
  const auto pinned = at::zeros({4, 6}).pin_memory(c10::Device(at::kXPU));
  auto grown = at::zeros({4}, kOnXPU);
  auto& queue = stream.queue();
  queue.wait();
  using sycl::ext::oneapi::experimental::command_graph;
  command_graph graph(queue.get_context(), queue.get_device());
  graph.begin_recording(queue);
  const std::vector<std::pair<std::string, std::function<void()>>> missed = {
      {"aten::add", [&] { x + 1; }},
      {"aten::add", [&] { out.add_(x); }},
      {"aten::_local_scalar_dense", [&] { x[0][0].item(); }},
      {"aten::cat", [&] { at::cat({x, x}); }},
      {"aten::nonzero", [&] { x.nonzero(); }},
      {"aten::convolution", [&] { at::conv2d(image, image); }},
      {"aten::mul", [&] { sparse.mul(2); }},
      {"aten::uniform_", [&] { at::rand({3}, kOnXPU); }},
      {"aten::copy_", [&] { x.cpu(); }},
      {"aten::copy_", [&] { at::ones({4, 6}).to(at::kXPU); }},
      {"aten::copy_", [&] { out.copy_(at::ones({4, 6}), true); }},
      {"aten::copy_", [&] { out.t().copy_(x.t().contiguous()); }},
      {"aten::copy_", [&] { out.copy_(x.to(at::kDouble)); }},
      {"aten::resize_", [&] { grown.resize_({8}); }},
      // Which operators make it depends on PyTorch's release.
      {"aten::", [&] { at::_nested_tensor_from_tensor_list({x, x}); }},
  };
  for (const auto& [name, call] : missed) {
    EXPECT_CONTAINS(errorOf(call), name);
    EXPECT_CONTAINS(errorOf(call), "runs on the host");
    EXPECT_EQ(graph.get_nodes().size(), 0) << name;
  }
  out.copy_(x);
  pinned.copy_(out, /*non_blocking=*/true);
  EXPECT_EQ(graph.get_nodes().size(), 2);
  graph.end_recording();
  EXPECT_EQ(pinned.sum().item<float>(), 0);
  queue.ext_oneapi_graph(graph.finalize()).wait();
  EXPECT_TRUE(pinned.equal(x.cpu()));
  EXPECT_TRUE(out.equal(x));
  EXPECT_EQ(grown.add_(1).sum().item<float>(), 4);
}
