#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/XPUContext.h>
#include <ATen/xpu/XPUEvent.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/XPUGraph.h>
#include <ATen/xpu/XPUGraphsUtils.h>
#include <c10/xpu/XPUMemPool.h>

#include <array>
#include <cstdio>
#include <string>

// Real work, recorded by SYCL's graph extension.

namespace allocator = c10::xpu::XPUCachingAllocator;
using at::xpu::XPUGraph;
using namespace c10::xpu::test;

namespace {

class XPUGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    at::globalContext().lazyInitDevice(at::kXPU);
    c10::xpu::set_device(0);
    const auto& device = c10::xpu::get_raw_device(0);
    if (!device.has(sycl::aspect::ext_oneapi_limited_graph)) {
      GTEST_SKIP() << "SYCL has no graphs for this device";
    }
    c10::xpu::setCurrentXPUStream(c10::xpu::getStreamFromPool());
    from_ = allocator::raw_alloc(kSize);
    to_ = allocator::raw_alloc(kSize);
  }
  void TearDown() override {
    allocator::raw_delete(from_);
    allocator::raw_delete(to_);
  }

  static sycl::queue& queue() {
    return c10::xpu::getCurrentXPUStream().queue();
  }
  static int read(const void* ptr) {
    std::array<char, kSize> host{};
    queue().memcpy(host.data(), ptr, kSize).wait();
    return host[kSize - 1];
  }
  static bool isCapturing() {
    return at::xpu::currentStreamCaptureStatus() ==
        c10::xpu::CaptureStatus::Recording;
  }
  void set(int value) {
    queue().memset(from_, value, kSize);
  }

  static constexpr size_t kSize = 1000;
  void* from_ = nullptr;
  void* to_ = nullptr;
};

} // namespace

TEST_F(XPUGraphTest, RunsWhenItIsReplayed) {
  set(1);
  queue().memset(to_, 0, kSize).wait();
  XPUGraph graph;
  EXPECT_FALSE(isCapturing());
  graph.capture_begin();
  EXPECT_TRUE(isCapturing());
  queue().memcpy(to_, from_, kSize);
  graph.capture_end();
  EXPECT_FALSE(isCapturing());
  EXPECT_EQ(read(to_), 0);
  for (const int value : {1, 2, 3}) {
    set(value);
    graph.replay();
    EXPECT_EQ(read(to_), value);
  }
}

TEST_F(XPUGraphTest, KeepsItsMemory) {
  void* inside = nullptr;
  c10::xpu::MempoolId_t pool;
  {
    XPUGraph graph;
    graph.capture_begin();
    inside = allocator::raw_alloc(kSize);
    queue().memcpy(inside, from_, kSize);
    queue().memcpy(to_, inside, kSize);
    allocator::raw_delete(inside);
    graph.capture_end();
    pool = graph.pool();
    allocator::emptyCache();
    EXPECT_EQ(allocator::snapshot(pool).size(), 1);
    void* const other = allocator::raw_alloc(kSize);
    EXPECT_NE(other, inside);
    set(7);
    graph.replay();
    EXPECT_EQ(read(to_), 7);
    allocator::raw_delete(other);

    XPUGraph second; // in the same pool
    second.capture_begin(pool);
    EXPECT_EQ(allocator::raw_alloc(kSize), inside);
    second.capture_end();
    EXPECT_EQ(allocator::getPoolUseCount(0, pool), 2);
    allocator::raw_delete(inside);
  }
  EXPECT_EQ(allocator::getPoolUseCount(0, pool), 0);
  allocator::emptyCache();
  EXPECT_TRUE(allocator::snapshot(pool).empty());
}

TEST_F(XPUGraphTest, RecordedStreamsHoldMemoryBackUntilTheCaptureEnds) {
  const auto side = c10::xpu::getStreamFromPool();
  XPUGraph graph;
  graph.capture_begin();
  {
    const auto data = allocator::get()->allocate(kSize);
    allocator::recordStream(data, c10::xpu::getCurrentXPUStream());
    allocator::recordStream(data, side);
  }
  void* const kept = allocator::raw_alloc_with_stream(kSize, side);
  c10::DataPtr data(
      kept, kept, allocator::get()->raw_deleter(), c10::Device(c10::kXPU, 0));
  allocator::recordStream(data, c10::xpu::getCurrentXPUStream());
  data.clear();
  void* const next = allocator::raw_alloc_with_stream(kSize, side);
  EXPECT_NE(next, kept);
  allocator::raw_delete(next);
  allocator::emptyCache(); // cannot wait for what is recorded
  graph.capture_end();
  allocator::emptyCache();
  for (const auto& segment : allocator::snapshot()) {
    EXPECT_EQ(segment.active_size, segment.allocated_size);
  }
}

TEST_F(XPUGraphTest, StreamsThatWaitForItRecordToo) {
  const auto main = c10::xpu::getCurrentXPUStream();
  const auto side = c10::xpu::getStreamFromPool();
  set(1);
  queue().wait();
  XPUGraph graph;
  graph.capture_begin();
  at::xpu::XPUEvent fork;
  fork.record(main);
  fork.block(side);
  side.queue().memcpy(to_, from_, kSize);
  void* const inside = allocator::raw_alloc_with_stream(kSize, side);
  at::xpu::XPUEvent join;
  join.record(side);
  join.block(main);
  graph.capture_end();
  EXPECT_EQ(allocator::snapshot(graph.pool()).size(), 1);
  allocator::raw_delete(inside);
  set(5);
  graph.replay();
  EXPECT_EQ(read(to_), 5);
}

TEST_F(XPUGraphTest, KeepsTheGraphIfAsked) {
  XPUGraph graph(/*keep_graph=*/true);
  EXPECT_THROW(graph.raw_xpu_graph(), c10::Error);
  graph.capture_begin();
  queue().memcpy(to_, from_, kSize);
  graph.capture_end();
  EXPECT_NE(graph.raw_xpu_graph(), nullptr);
  EXPECT_THROW(graph.raw_xpu_graph_exec(), c10::Error);
  set(9);
  graph.replay();
  EXPECT_EQ(read(to_), 9);
  EXPECT_NE(graph.raw_xpu_graph_exec(), nullptr);
  const std::string path = ::testing::TempDir() + "xpu_graph_test.dot";
  graph.debug_dump(path);
  EXPECT_EQ(std::remove(path.c_str()), 0);
  XPUGraph other;
  EXPECT_THROW(other.debug_dump(path), c10::Error);
}

// What a kernel would use is copied in its place.
TEST_F(XPUGraphTest, DrawsOtherRandomNumbersAtEachReplay) {
  const auto empty =
      c10::Dispatcher::singleton().findOp({"aten::empty", "memory_format"});
  if (!empty->hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
    GTEST_SKIP() << "this stage has no tensors";
  }
  const auto own = at::xpu::detail::createXPUGenerator(0);
  for (const auto& generator :
       {at::xpu::detail::getDefaultXPUGenerator(0), own}) {
    auto* const impl = at::check_generator<at::XPUGeneratorImpl>(generator);
    XPUGraph graph;
    if (generator == own) {
      graph.register_generator_state(generator);
    }
    impl->set_current_seed(7);
    impl->set_offset(8);
    auto* const drawn = static_cast<int64_t*>(to_);
    graph.capture_begin();
    EXPECT_CONTAINS(
        errorOf([&] { graph.register_generator_state(generator); }),
        "before its capture");
    // What the graph does before has memory that is free afterwards.
    const std::array<void*, 2> used{
        allocator::raw_alloc(kSize), allocator::raw_alloc(kSize)};
    for (void* const each : used) {
      queue().memset(each, 1, kSize);
      allocator::raw_delete(each);
    }
    for (const int i : {0, 1}) {
      const auto state = impl->philox_xpu_state(5);
      EXPECT_TRUE(state.captured_);
      EXPECT_EQ(state.offset_intragraph_, 8 * i);
      queue().memcpy(drawn + 2 * i, state.seed_.ptr, sizeof(int64_t));
      queue().memcpy(drawn + 2 * i + 1, state.offset_.ptr, sizeof(int64_t));
    }
    graph.capture_end();
    EXPECT_EQ(impl->get_offset(), 8);
    EXPECT_FALSE(impl->philox_xpu_state(1).captured_); // 4 more
    using Drawn = std::array<int64_t, 4>;
    const auto replayed = [&] {
      graph.replay();
      Drawn host{};
      queue().memcpy(host.data(), drawn, sizeof(host)).wait();
      return host;
    };
    EXPECT_EQ(replayed(), (Drawn{7, 12, 7, 12}));
    EXPECT_EQ(replayed(), (Drawn{7, 28, 7, 28}));
    EXPECT_EQ(impl->get_offset(), 44);
    impl->set_current_seed(9);
    EXPECT_EQ(replayed(), (Drawn{9, 0, 9, 0}));
  }
}

TEST_F(XPUGraphTest, MisuseIsAnError) {
  XPUGraph graph;
  EXPECT_CONTAINS(errorOf([&] { graph.replay(); }), "after its capture");
  EXPECT_CONTAINS(errorOf([&] { graph.capture_end(); }), "does not record");
  EXPECT_CONTAINS(errorOf([&] { (void)graph.pool(); }), "after its capture");
  graph.capture_begin();
  XPUGraph other;
  EXPECT_CONTAINS(errorOf([&] { other.capture_begin(); }), "another XPUGraph");
  {
    const auto recording = c10::xpu::getCurrentXPUStream();
    c10::xpu::setCurrentXPUStream(c10::xpu::getStreamFromPool());
    EXPECT_CONTAINS(errorOf([&] { other.capture_begin(); }), "in use");
    c10::xpu::setCurrentXPUStream(recording);
  }
  EXPECT_CONTAINS(errorOf([&] { graph.replay(); }), "after its capture");
  const auto stream = c10::xpu::getCurrentXPUStream();
  c10::xpu::setCurrentXPUStream(c10::xpu::getStreamFromPool());
  EXPECT_CONTAINS(errorOf([&] { graph.capture_end(); }), "where it began");
  c10::xpu::setCurrentXPUStream(stream);
  graph.capture_end();
  EXPECT_CONTAINS(errorOf([&] { graph.capture_begin(); }), "reset()");
  EXPECT_CONTAINS(errorOf([&] { graph.instantiate(); }), "keep_graph=True");
  graph.reset();
  graph.capture_begin(); // and is given up while it records
}
