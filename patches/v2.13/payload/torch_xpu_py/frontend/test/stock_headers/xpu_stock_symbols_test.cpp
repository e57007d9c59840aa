// Compiled with PyTorch's own headers, and not ours: every function that they
// say is in libc10_xpu or libtorch_xpu. It links only if each is there.
// test_stock_headers.py compares the list with the headers.

#include <gtest/gtest.h>

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <ATen/xpu/EmptyTensor.h>
#if __has_include(<ATen/xpu/MemPool.h>)
#define SINCE_2_14
#include <ATen/xpu/MemPool.h>
#endif
#include <torch/headeronly/version.h>
#if TORCH_VERSION_MINOR >= 15
#define SINCE_2_15
#endif
#include <ATen/xpu/XPUContext.h>
#include <ATen/xpu/XPUEvent.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/XPUGraph.h>
#include <ATen/xpu/XPUGraphsUtils.h>
#include <ATen/xpu/XPUUtils.h>
#include <c10/core/Event.h>
#include <c10/xpu/PeerToPeerAccess.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUGuardImpl.h>
#include <torch/csrc/xpu/XPUPluggableAllocator.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using c10::DeviceIndex;
using c10::xpu::XPUStream;
using Allocator = std::shared_ptr<c10::xpu::XPUCachingAllocator::XPUAllocator>;
#ifdef SINCE_2_15
using PoolAllocator = Allocator;
#else
using PoolAllocator = c10::xpu::XPUCachingAllocator::XPUAllocator*;
#endif
using State = c10::intrusive_ptr<at::XPUGeneratorState>;
using Impl = c10::intrusive_ptr<c10::GeneratorImpl>;
using Alloc = std::function<void*(size_t, int, sycl::queue*)>;
using Free = std::function<void(void*, size_t, int, sycl::queue*)>;
using Inputs = std::pair<uint64_t, uint64_t>;
template <class T>
using Maybe = std::optional<T>;

// The address of a function, or of a member, of a type.
#define FUNCTION(name, result, ...) \
  reinterpret_cast<const void*>(static_cast<result (*)(__VA_ARGS__)>(&name))
#define MEMBER(type, name, result, ...) \
  isThere(static_cast<result(type::*) __VA_ARGS__>(&type::name))

template <class Member>
const void* isThere(Member member) {
  // Otherwise the linker is not asked for it.
  static volatile Member kept;
  const_cast<Member&>(kept) = member;
  return const_cast<Member*>(&kept);
}

const void* const kFunctions[] = {
    FUNCTION(
        at::detail::empty_xpu,
        at::TensorBase,
        at::IntArrayRef,
        at::ScalarType,
        Maybe<at::Device>,
        Maybe<at::MemoryFormat>),
    FUNCTION(
        at::detail::empty_xpu,
        at::TensorBase,
        at::IntArrayRef,
        Maybe<at::ScalarType>,
        Maybe<at::Layout>,
        Maybe<at::Device>,
        Maybe<bool>,
        Maybe<at::MemoryFormat>),
    FUNCTION(
        at::detail::empty_xpu,
        at::TensorBase,
        at::IntArrayRef,
        const at::TensorOptions&),
    FUNCTION(
        at::detail::empty_strided_xpu,
        at::TensorBase,
        at::IntArrayRef,
        at::IntArrayRef,
        at::ScalarType,
        Maybe<at::Device>),
    FUNCTION(
        at::detail::empty_strided_xpu,
        at::TensorBase,
        at::IntArrayRef,
        at::IntArrayRef,
        Maybe<at::ScalarType>,
        Maybe<at::Layout>,
        Maybe<at::Device>,
        Maybe<bool>),
    FUNCTION(
        at::detail::empty_strided_xpu,
        at::TensorBase,
        at::IntArrayRef,
        at::IntArrayRef,
        const at::TensorOptions&),
    FUNCTION(c10::xpu::detail::init_p2p_access_cache, void, DeviceIndex),
    FUNCTION(c10::xpu::get_p2p_access, bool, DeviceIndex, DeviceIndex),
    FUNCTION(c10::xpu::device_count, DeviceIndex),
    FUNCTION(c10::xpu::device_count_ensure_non_zero, DeviceIndex),
    FUNCTION(c10::xpu::current_device, DeviceIndex),
    FUNCTION(c10::xpu::set_device, void, DeviceIndex),
    FUNCTION(c10::xpu::exchange_device, DeviceIndex, DeviceIndex),
    FUNCTION(c10::xpu::maybe_exchange_device, DeviceIndex, DeviceIndex),
    FUNCTION(c10::xpu::get_raw_device, sycl::device&, DeviceIndex),
    FUNCTION(c10::xpu::get_device_context, sycl::context&),
    FUNCTION(
        c10::xpu::get_device_properties,
        void,
        c10::xpu::DeviceProp*,
        DeviceIndex),
    FUNCTION(c10::xpu::get_device_idx_from_pointer, DeviceIndex, void*),
    FUNCTION(c10::xpu::getStreamFromPool, XPUStream, const bool, DeviceIndex),
    FUNCTION(c10::xpu::getStreamFromPool, XPUStream, const int, DeviceIndex),
    FUNCTION(
        c10::xpu::getStreamFromExternal,
        XPUStream,
        sycl::queue*,
        DeviceIndex),
    FUNCTION(c10::xpu::getCurrentXPUStream, XPUStream, DeviceIndex),
    FUNCTION(c10::xpu::setCurrentXPUStream, void, XPUStream),
    FUNCTION(
        c10::xpu::operator<<,
        std::ostream&,
        std::ostream&,
        const XPUStream&),
    FUNCTION(c10::xpu::syncStreamsOnDevice, void, DeviceIndex),
    &c10::xpu::XPUCachingAllocator::allocator,
    FUNCTION(
        c10::xpu::XPUCachingAllocator::enablePeerAccess,
        void,
        DeviceIndex,
        DeviceIndex),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::getMemoryFraction,
        double,
        DeviceIndex),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::setMemoryFraction,
        void,
        double,
        DeviceIndex),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::createOrIncrefPool,
        void,
        DeviceIndex,
        c10::MempoolId_t,
        PoolAllocator),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::beginAllocateToPool,
        void,
        DeviceIndex,
        c10::MempoolId_t,
        std::function<bool(sycl::queue*)>),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::endAllocateToPool,
        void,
        DeviceIndex,
        c10::MempoolId_t),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::releasePool,
        void,
        DeviceIndex,
        c10::MempoolId_t),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::getPoolUseCount,
        int,
        DeviceIndex,
        c10::MempoolId_t),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::recordHistory,
        void,
        bool,
        c10::CachingDeviceAllocator::CreateContextFn,
        size_t,
        c10::CachingDeviceAllocator::RecordContext,
        bool,
        const std::vector<std::string>&),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::attachAllocatorTraceTracker,
        void,
        c10::CachingDeviceAllocator::AllocatorTraceTracker),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::snapshot,
        c10::xpu::XPUCachingAllocator::SnapshotInfo,
        c10::MempoolId_t),
#ifdef SINCE_2_14
    FUNCTION(at::xpu::MemPool::graph_pool_handle, c10::MempoolId_t, bool),
    FUNCTION(c10::xpu::device_synchronize, void, DeviceIndex),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::markCaptureBegin,
        void,
        DeviceIndex),
    FUNCTION(c10::xpu::XPUCachingAllocator::markCaptureEnd, void, DeviceIndex),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::shareIpcHandle,
        c10::xpu::XPUCachingAllocator::ShareableHandle,
        void*),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::getIpcDevPtr,
        std::shared_ptr<void>,
        std::string),
#else
    FUNCTION(c10::xpu::MemPool::graph_pool_handle, c10::MempoolId_t, bool),
#endif
#ifdef SINCE_2_15
    FUNCTION(
        c10::xpu::XPUCachingAllocator::setNoSplit,
        void,
        DeviceIndex,
        c10::MempoolId_t),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::setUseOnOOM,
        void,
        DeviceIndex,
        c10::MempoolId_t,
        bool),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::getCheckpointState,
        std::shared_ptr<c10::xpu::XPUCachingAllocator::AllocatorState>,
        DeviceIndex,
        c10::MempoolId_t),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::setCheckpointPoolState,
        c10::xpu::XPUCachingAllocator::CheckpointDelta,
        DeviceIndex,
        std::shared_ptr<c10::xpu::XPUCachingAllocator::AllocatorState>),
    FUNCTION(c10::xpu::XPUCachingAllocator::isHistoryEnabled, bool),
    FUNCTION(
        c10::xpu::XPUCachingAllocator::checkPoolLiveAllocations,
        bool,
        DeviceIndex,
        c10::MempoolId_t,
        const std::unordered_set<void*>&),
#endif
    FUNCTION(at::xpu::getCurrentDeviceProperties, c10::xpu::DeviceProp*),
    FUNCTION(at::xpu::getDeviceProperties, c10::xpu::DeviceProp*, DeviceIndex),
    FUNCTION(at::xpu::getGlobalIdxFromDevice, int32_t, DeviceIndex),
    FUNCTION(at::xpu::canDeviceAccessPeer, bool, DeviceIndex, DeviceIndex),
    FUNCTION(
        at::xpu::detail::getDefaultXPUGenerator,
        const at::Generator&,
        DeviceIndex),
    FUNCTION(at::xpu::detail::createXPUGenerator, at::Generator, DeviceIndex),
    FUNCTION(at::XPUGeneratorImpl::device_type, c10::DeviceType),
    FUNCTION(at::xpu::graph_pool_handle, c10::MempoolId_t),
    FUNCTION(torch::xpu::XPUPluggableAllocator::getCurrentAllocator, Allocator),
    FUNCTION(
        torch::xpu::XPUPluggableAllocator::createCustomAllocator,
        Allocator,
        Alloc,
        Free),
    FUNCTION(
        torch::xpu::XPUPluggableAllocator::changeCurrentAllocator,
        void,
        const Allocator&),
};

const void* const kMembers[] = {
#ifdef SINCE_2_14
    MEMBER(at::xpu::MemPool, id, c10::MempoolId_t, ()),
#ifndef SINCE_2_15
    MEMBER(at::xpu::MemPool, allocator, PoolAllocator, ()),
#endif
    MEMBER(at::xpu::MemPool, use_count, int, ()),
    MEMBER(at::xpu::MemPool, device, DeviceIndex, ()),
#else
    MEMBER(c10::xpu::MemPool, id, c10::MempoolId_t, ()),
    MEMBER(c10::xpu::MemPool, allocator, PoolAllocator, ()),
    MEMBER(c10::xpu::MemPool, use_count, int, ()),
    MEMBER(c10::xpu::MemPool, device, DeviceIndex, ()),
#endif
    MEMBER(c10::xpu::XPUStream, priority, int, () const),
    MEMBER(c10::xpu::XPUStream, queue, sycl::queue&, () const),
    MEMBER(
        at::XPUGeneratorImpl,
        clone,
        std::shared_ptr<at::XPUGeneratorImpl>,
        () const),
    MEMBER(at::XPUGeneratorImpl, set_current_seed, void, (uint64_t)),
    MEMBER(at::XPUGeneratorImpl, set_offset, void, (uint64_t)),
    MEMBER(at::XPUGeneratorImpl, get_offset, uint64_t, () const),
    MEMBER(at::XPUGeneratorImpl, current_seed, uint64_t, () const),
    MEMBER(at::XPUGeneratorImpl, seed, uint64_t, ()),
    MEMBER(at::XPUGeneratorImpl, set_state, void, (const c10::TensorImpl&)),
    MEMBER(
        at::XPUGeneratorImpl,
        get_state,
        c10::intrusive_ptr<c10::TensorImpl>,
        () const),
    MEMBER(at::XPUGeneratorImpl, graphsafe_set_state, void, (const Impl&)),
    MEMBER(at::XPUGeneratorImpl, graphsafe_get_state, Impl, () const),
    MEMBER(
        at::XPUGeneratorImpl,
        set_philox_offset_per_thread,
        void,
        (uint64_t)),
    MEMBER(at::XPUGeneratorImpl, philox_offset_per_thread, uint64_t, () const),
    MEMBER(
        at::XPUGeneratorImpl,
        register_graph,
        void,
        (at::xpu::XPUGraphImpl*)),
    MEMBER(
        at::XPUGeneratorImpl,
        unregister_graph,
        void,
        (at::xpu::XPUGraphImpl*)),
    MEMBER(
        at::XPUGeneratorImpl,
        philox_xpu_state,
        at::PhiloxXpuState,
        (uint64_t)),
    MEMBER(at::XPUGeneratorImpl, philox_engine_inputs, Inputs, (uint64_t)),
    MEMBER(at::xpu::XPUGraphImpl, register_generator_state, void, (State)),
    MEMBER(
        at::xpu::XPUGraphImpl,
        register_generator_state,
        void,
        (const at::Generator&)),
    MEMBER(
        at::xpu::XPUGraphImpl,
        capture_begin,
        void,
        (c10::MempoolId_t, at::GraphCaptureMode)),
    MEMBER(at::xpu::XPUGraphImpl, capture_end, void, ()),
    MEMBER(at::xpu::XPUGraphImpl, instantiate, void, ()),
    MEMBER(at::xpu::XPUGraphImpl, replay, void, ()),
    MEMBER(at::xpu::XPUGraphImpl, reset, void, ()),
    MEMBER(at::xpu::XPUGraphImpl, pool, c10::MempoolId_t, () const),
    MEMBER(at::xpu::XPUGraphImpl, enable_debug_mode, void, ()),
    MEMBER(at::xpu::XPUGraphImpl, debug_dump, void, (const std::string&)),
    MEMBER(at::xpu::XPUGraphImpl, raw_xpu_graph, at::xpu::xpuGraph_t*, ()),
    MEMBER(
        at::xpu::XPUGraphImpl,
        raw_xpu_graph_exec,
        at::xpu::xpuGraphExec_t*,
        ()),
    MEMBER(
        torch::xpu::XPUPluggableAllocator::XPUPluggableAllocator,
        malloc,
        void*,
        (size_t, DeviceIndex, sycl::queue*)),
};

} // namespace

TEST(XPUStockSymbolsTest, AreThere) {
  for (const auto* address : kFunctions) {
    EXPECT_NE(address, nullptr);
  }
  for (const auto* address : kMembers) {
    EXPECT_NE(address, nullptr);
  }
}

class XPUStockClassesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* mapping = std::getenv("TORCH_XPU_MAPPING");
    if (c10::xpu::device_count() == 0 &&
        (!mapping || std::string(mapping) == "GPU")) {
      GTEST_SKIP() << "the mapping GPU finds no device here";
    }
    ASSERT_GT(c10::xpu::device_count(), 0);
    at::globalContext().lazyInitDevice(c10::kXPU);
  }
};

// An object that is made here has the size that PyTorch's header says.
TEST_F(XPUStockClassesTest, Generator) {
  const auto made = at::make_generator<at::XPUGeneratorImpl>(DeviceIndex(0));
  auto* const impl = at::check_generator<at::XPUGeneratorImpl>(made);
  impl->set_current_seed(7);
  EXPECT_EQ(impl->philox_engine_inputs(5), std::make_pair(7ul, 0ul));
  const auto state = impl->philox_xpu_state(1);
  EXPECT_FALSE(state.captured_);
  EXPECT_EQ(at::xpu::philox::unpack(state), std::make_tuple(7ul, 8ul));

  const auto copy = impl->clone();
  copy->set_current_seed(8);
  EXPECT_EQ(impl->current_seed(), 7);

  // These two share one state.
  const auto other = at::xpu::detail::createXPUGenerator(0);
  other.unsafeGetGeneratorImpl()->graphsafe_set_state(
      impl->graphsafe_get_state());
  EXPECT_EQ(other.current_seed(), 7);
  impl->set_current_seed(9);
  EXPECT_EQ(other.current_seed(), 9);
  const at::XPUGeneratorImpl local(
      0, c10::make_intrusive<at::XPUGeneratorState>(3, 4));
  EXPECT_EQ(local.current_seed(), 3);
  EXPECT_EQ(local.philox_offset_per_thread(), 4);
}

TEST_F(XPUStockClassesTest, EmptyTensor) {
  const auto empty =
      c10::Dispatcher::singleton().findOp({"aten::empty", "memory_format"});
  if (!empty->hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
    GTEST_SKIP() << "this stage has no tensors";
  }
  const auto current = at::Device(at::kXPU, 0);
  const auto dense = at::detail::empty_xpu({2, 3}, at::TensorOptions());
  EXPECT_EQ(dense.device(), current);
  EXPECT_EQ(dense.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(dense.scalar_type(), at::kFloat);
  const auto last = at::detail::empty_xpu(
      {1, 2, 3, 4}, at::kLong, current, at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(last.scalar_type(), at::kLong);
  EXPECT_TRUE(last.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(
      at::detail::empty_xpu({0}, at::kHalf, {}, current, {}, {}).numel(), 0);
  const auto strided =
      at::detail::empty_strided_xpu({2, 3}, {1, 2}, at::kDouble, std::nullopt);
  EXPECT_EQ(strided.device(), current);
  EXPECT_EQ(strided.strides(), at::IntArrayRef({1, 2}));
  EXPECT_ANY_THROW(at::detail::empty_xpu({2}, at::kFloat, {}, {}, true, {}));
}

// A kernel gets memory whatever modes are on: the dispatcher is not asked.
TEST_F(XPUStockClassesTest, EmptyTensorIsTheAllocators) {
  const auto empty =
      c10::Dispatcher::singleton().findOp({"aten::empty", "memory_format"});
  if (!empty->hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
    GTEST_SKIP() << "this stage has no tensors";
  }
  static int calls;
  calls = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&)
              -> std::unique_ptr<at::ObserverContext> {
            ++calls;
            return nullptr;
          }));
  at::empty({2}, at::kXPU);
  EXPECT_GT(calls, 0);
  calls = 0;
  at::detail::empty_xpu({2}, at::TensorOptions());
  at::detail::empty_xpu({2}, at::kFloat, {}, {});
  at::detail::empty_strided_xpu({2}, {1}, at::TensorOptions());
  at::detail::empty_strided_xpu({2}, {1}, at::kFloat, {});
  EXPECT_EQ(calls, 0);
  at::removeCallback(handle);
}

TEST_F(XPUStockClassesTest, Event) {
  const auto first = c10::xpu::getStreamFromPool();
  const auto second = c10::xpu::getStreamFromPool(true);
  int number = 0;
  first.queue().submit(
      [&](sycl::handler& handler) { handler.host_task([&] { number = 1; }); });
  at::xpu::XPUEvent event;
  EXPECT_TRUE(event.query());
  event.record(first);
  event.block(second);
  at::xpu::XPUEvent moved = std::move(event);
  moved.synchronize();
  EXPECT_TRUE(moved.query());
  EXPECT_EQ(number, 1);
  second.synchronize();
  EXPECT_TRUE(second.query());
  EXPECT_FALSE(second.is_capturing());
  EXPECT_NO_THROW(at::xpu::assertNotCapturing("A test"));
}

// PyTorch's class of this name and the runtime's are both in this process.
TEST_F(XPUStockClassesTest, EventOfTheRuntime) {
  const auto stream = c10::xpu::getStreamFromPool();
  std::promise<void> gate;
  stream.queue().submit(
      [open = gate.get_future().share()](sycl::handler& handler) {
        handler.host_task([open] { open.wait(); });
      });
  c10::Event event(c10::kXPU);
  event.record(stream);
  EXPECT_FALSE(event.query());
  event.block(c10::xpu::getStreamFromPool());
  gate.set_value();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(XPUStockClassesTest, Properties) {
  const auto& device = c10::xpu::get_raw_device(0);
  const auto* prop = at::xpu::getDeviceProperties(0);
  EXPECT_EQ(
      prop->is_integrated_gpu,
      device.is_gpu() &&
          device.get_backend() != sycl::backend::ext_oneapi_cuda &&
          device.has(sycl::aspect::ext_oneapi_is_integrated_gpu));
  // The last member.
  namespace info = sycl::ext::oneapi::experimental::info::device;
  EXPECT_EQ(prop->architecture, device.get_info<info::architecture>());
}

TEST_F(XPUStockClassesTest, Graph) {
  EXPECT_NE(at::xpu::graph_pool_handle(), at::xpu::graph_pool_handle());
  namespace allocator = c10::xpu::XPUCachingAllocator;
  const auto& device = c10::xpu::get_raw_device(0);
  at::xpu::XPUGraph graph;
  if (!device.has(sycl::aspect::ext_oneapi_limited_graph)) {
    EXPECT_THROW(graph.capture_begin(), c10::NotImplementedError);
    return;
  }
  const auto stream = c10::xpu::getStreamFromPool();
  c10::xpu::setCurrentXPUStream(stream);
  auto* const number = static_cast<int*>(allocator::raw_alloc(sizeof(int)));
  const auto read = [&] {
    int host = 0;
    stream.queue().memcpy(&host, number, sizeof(int)).wait();
    return host;
  };
  stream.queue().fill(number, 1, 1).wait();
  graph.capture_begin();
  EXPECT_TRUE(stream.is_capturing());
  EXPECT_THROW(at::xpu::assertNotCapturing("A test"), c10::Error);
  stream.queue().fill(number, 2, 1);
  graph.capture_end();
  EXPECT_EQ(read(), 1);
  graph.replay();
  EXPECT_EQ(read(), 2);
  EXPECT_NE(graph.raw_xpu_graph_exec(), nullptr);
  EXPECT_EQ(allocator::getPoolUseCount(0, graph.pool()), 1);
  allocator::raw_delete(number);
}

TEST_F(XPUStockClassesTest, PluggableAllocator) {
  namespace pluggable = torch::xpu::XPUPluggableAllocator;
  EXPECT_EQ(
      pluggable::getCurrentAllocator().get(),
      c10::xpu::XPUCachingAllocator::get());
  EXPECT_THROW(pluggable::createCustomAllocator(nullptr, nullptr), c10::Error);
  int calls = 0;
  const auto allocator = pluggable::createCustomAllocator(
      [&](size_t size, int, sycl::queue* queue) {
        ++calls;
        return sycl::malloc_device(size, *queue);
      },
      [&](void* ptr, size_t size, int device, sycl::queue* queue) {
        EXPECT_EQ(size, 100);
        EXPECT_EQ(device, 0);
        ++calls;
        sycl::free(ptr, *queue);
      });
  allocator->raw_delete(allocator->raw_alloc(100));
  EXPECT_EQ(calls, 2);
  // The native allocator is initialized.
  EXPECT_THROW(pluggable::changeCurrentAllocator(allocator), c10::Error);
}
