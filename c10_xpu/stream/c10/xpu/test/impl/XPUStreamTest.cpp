#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUStreamPool.h>
#include <c10/xpu/test/impl/XPUTestNames.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/irange.h>

#include <array>
#include <sstream>
#include <unordered_set>
#include <vector>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

constexpr int kPoolSize = 32;
constexpr std::array<int, 3> kPriorities = {-1, 0, 1};

Stream plain(DeviceType type, DeviceIndex index, StreamId id) {
  return Stream(Stream::UNSAFE, Device(type, index), id);
}

std::vector<XPUStream> takeWholePool(int priority, DeviceIndex device) {
  std::vector<XPUStream> streams;
  for (const auto i : c10::irange(kPoolSize)) {
    (void)i;
    streams.push_back(getStreamFromPool(priority, device));
  }
  return streams;
}

/// A queue as a user of the library would make it.
sycl::queue makeExternal(DeviceIndex device, sycl::property_list properties) {
  return sycl::queue(get_device_context(), get_raw_device(device), properties);
}

sycl::queue makeExternal(DeviceIndex device = 0) {
  return makeExternal(device, {sycl::property::queue::in_order()});
}

} // namespace

TEST(XPUStreamTest, NoDeviceIsAnError) {
  if (device_count() != 0) {
    GTEST_SKIP() << "there is a device";
  }
  ASSERT_TRUE(mayHaveNoDevice());
  const std::string expected = "No XPU device is available";
  EXPECT_CONTAINS(errorOf([] { getCurrentXPUStream(); }), expected);
  EXPECT_CONTAINS(errorOf([] { getCurrentXPUStream(0); }), expected);
  EXPECT_CONTAINS(errorOf([] { getDefaultXPUStream(); }), expected);
  EXPECT_CONTAINS(errorOf([] { getStreamFromPool(); }), expected);
  EXPECT_CONTAINS(errorOf([] { getStreamFromPool(-1, 0); }), expected);
  EXPECT_CONTAINS(errorOf([] { syncStreamsOnDevice(); }), expected);
  EXPECT_CONTAINS(errorOf([] { XPUStream::unpack3(0, 0, kXPU); }), expected);
  const XPUStream stream(plain(kXPU, 0, 0));
  EXPECT_CONTAINS(errorOf([&] { setCurrentXPUStream(stream); }), expected);
  EXPECT_CONTAINS(errorOf([&] { stream.queue(); }), expected);
  EXPECT_CONTAINS(errorOf([&] { stream.synchronize(); }), expected);
}

TEST(XPUStreamTest, CheckedConstructionNeedsAnXPUStream) {
  EXPECT_CONTAINS(
      errorOf([] { XPUStream wrong(plain(kCPU, 0, 0)); }),
      "the device of the stream must be an xpu device");
  EXPECT_CONTAINS(
      errorOf([] { XPUStream wrong(plain(kCUDA, 1, 3)); }), "cuda:1");
  const Stream cuda = plain(kCUDA, 1, 3);
  EXPECT_EQ(XPUStream(XPUStream::UNCHECKED, cuda).unwrap(), cuda);
  const Stream stream = plain(kXPU, 1, 3);
  EXPECT_EQ(XPUStream(stream).unwrap(), stream);
}

TEST(XPUStreamTest, AccessorsAgree) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream stream = getStreamFromPool(false, last);
  EXPECT_EQ(stream.device_type(), kXPU);
  EXPECT_EQ(stream.device_index(), last);
  EXPECT_EQ(stream.device(), Device(kXPU, last));
  const Stream converted = stream;
  EXPECT_EQ(converted, stream.unwrap());
  EXPECT_EQ(converted.id(), stream.id());
  sycl::queue& queue = stream;
  EXPECT_EQ(&queue, &stream.queue());
  EXPECT_TRUE(queue.is_in_order());
  EXPECT_EQ(queue.get_context(), get_device_context());
  EXPECT_EQ(queue.get_device(), get_raw_device(last));
  std::ostringstream text;
  text << stream;
  EXPECT_EQ(
      text.str(),
      c10::str("stream ", stream.id(), " on device xpu:", int(last)));
}

TEST(XPUStreamTest, PoolIsHandedOutRoundRobin) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const DeviceIndex device : c10::irange(device_count())) {
    std::unordered_set<sycl::queue> queues;
    std::unordered_set<XPUStream> streams;
    for (const int priority : kPriorities) {
      const auto first = takeWholePool(priority, device);
      const auto second = takeWholePool(priority, device);
      EXPECT_EQ(first, second);
      for (const auto& stream : first) {
        EXPECT_EQ(stream.device_index(), device);
        queues.insert(stream.queue());
        streams.insert(stream);
      }
    }
    const XPUStream standard = getDefaultXPUStream(device);
    queues.insert(standard.queue());
    streams.insert(standard);
    EXPECT_EQ(queues.size(), 3 * kPoolSize + 1);
    EXPECT_EQ(streams.size(), 3 * kPoolSize + 1);
  }
}

TEST(XPUStreamTest, DevicesHaveQueuesOfTheirOwn) {
  C10_XPU_NEEDS_DEVICES(2);
  const auto first = takeWholePool(0, 0);
  std::unordered_set<sycl::queue> queues;
  for (const auto& stream : first) {
    queues.insert(stream.queue());
  }
  for (const auto& stream : takeWholePool(0, 1)) {
    EXPECT_EQ(queues.count(stream.queue()), 0);
    EXPECT_NE(stream, first[0]);
  }
  EXPECT_NE(getDefaultXPUStream(0).queue(), getDefaultXPUStream(1).queue());
  EXPECT_NE(getDefaultXPUStream(0), getDefaultXPUStream(1));
  EXPECT_EQ(getDefaultXPUStream(0).id(), getDefaultXPUStream(1).id());
}

TEST(XPUStreamTest, Priorities) {
  C10_XPU_NEEDS_DEVICES(1);
  namespace ext = sycl::ext::oneapi::property::queue;
  const auto [lowest, highest] = XPUStream::priority_range();
  EXPECT_EQ(lowest, 1);
  EXPECT_EQ(highest, -1);

  EXPECT_EQ(getStreamFromPool().priority(), 0);
  EXPECT_EQ(getStreamFromPool(false).priority(), 0);
  EXPECT_EQ(getStreamFromPool(true).priority(), -1);
  EXPECT_EQ(getDefaultXPUStream().priority(), 0);
  for (const int priority : kPriorities) {
    const XPUStream stream = getStreamFromPool(priority);
    EXPECT_EQ(stream.priority(), priority);
    const auto& queue = stream.queue();
    EXPECT_EQ(queue.has_property<ext::priority_high>(), priority == -1);
    EXPECT_EQ(queue.has_property<ext::priority_normal>(), priority == 0);
    EXPECT_EQ(queue.has_property<ext::priority_low>(), priority == 1);
  }
  // As for CUDA: more than the highest is the highest, less than the lowest is
  // a mistake.
  EXPECT_EQ(getStreamFromPool(-2).priority(), -1);
  EXPECT_EQ(getStreamFromPool(-100).priority(), -1);
  const auto text = errorOf([] { getStreamFromPool(2); });
  EXPECT_CONTAINS(text, "The stream priority 2 is out of range");
  EXPECT_CONTAINS(text, "from -1 (high) to 1 (low)");
}

TEST(XPUStreamTest, IdsAreReversible) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  std::vector<XPUStream> streams{getDefaultXPUStream(last)};
  for (const int priority : kPriorities) {
    for (const auto& stream : takeWholePool(priority, last)) {
      streams.push_back(stream);
    }
  }
  auto queue = makeExternal(last);
  streams.push_back(getStreamFromExternal(&queue, last));
  for (const auto& stream : streams) {
    const auto data = stream.pack3();
    EXPECT_EQ(data.stream_id, stream.id());
    EXPECT_EQ(data.device_index, last);
    EXPECT_EQ(data.device_type, kXPU);
    const auto back =
        XPUStream::unpack3(data.stream_id, data.device_index, data.device_type);
    EXPECT_EQ(back, stream);
    EXPECT_EQ(&back.queue(), &stream.queue());
    EXPECT_EQ(back.priority(), stream.priority());
    EXPECT_EQ(std::hash<XPUStream>{}(back), std::hash<XPUStream>{}(stream));
    EXPECT_EQ(XPUStream(repacked(stream)), stream);
  }
  // c10::Stream promises it, and other parts of PyTorch rely on it
  EXPECT_EQ(getDefaultXPUStream(last).id(), 0);
  EXPECT_EQ(
      getDefaultXPUStream(last).unwrap(),
      Stream(Stream::DEFAULT, Device(kXPU, last)));
}

TEST(XPUStreamTest, IdsThatAreNoStreamsRaise) {
  C10_XPU_NEEDS_DEVICES(1);
  const StreamId max = std::numeric_limits<StreamId>::max();
  const std::vector<StreamId> bad = {
      -1, // all ones
      -8, // an address below zero
      2, // an address that no queue has
      4,
      7, // a priority there is not
      1 | (3 << 1),
      1 | (32 << 4), // an index there is not
      max,
      max - 6,
      std::numeric_limits<StreamId>::min()};
  for (const StreamId id : bad) {
    const XPUStream stream(plain(kXPU, 0, id));
    const auto expected = c10::str("There is no XPU stream with the id ", id);
    EXPECT_CONTAINS(
        errorOf([&] { XPUStream::unpack3(id, 0, kXPU); }),
        id == max - 7 ? "external" : expected);
    EXPECT_CONTAINS(errorOf([&] { stream.queue(); }), expected);
    EXPECT_CONTAINS(errorOf([&] { stream.query(); }), expected);
    EXPECT_CONTAINS(errorOf([&] { stream.synchronize(); }), expected);
    EXPECT_CONTAINS(errorOf([&] { stream.priority(); }), expected);
  }
  EXPECT_CONTAINS(
      errorOf([] { XPUStream::unpack3(0, 0, kCUDA); }),
      "An XPUStream was given the device type cuda: it must be xpu");
  for (const int index : {-1, deviceCount()}) {
    EXPECT_CONTAINS(
        errorOf([&] {
          XPUStream::unpack3(0, static_cast<DeviceIndex>(index), kXPU);
        }),
        c10::str("XPU device index ", index, " is out of range"));
  }
  // an address, and no queue at it
  EXPECT_CONTAINS(
      errorOf([] { XPUStream::unpack3(0x10000, 0, kXPU); }),
      "names an external queue, but on device xpu:0 there is none");
}

TEST(XPUStreamTest, DeviceIndexOutOfRangeRaises) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const int bad : {-2, deviceCount(), 127}) {
    const auto index = static_cast<DeviceIndex>(bad);
    const auto expected =
        c10::str("XPU device index ", bad, " is out of range");
    EXPECT_CONTAINS(
        errorOf([&] { getStreamFromPool(false, index); }), expected);
    EXPECT_CONTAINS(errorOf([&] { getStreamFromPool(-1, index); }), expected);
    EXPECT_CONTAINS(errorOf([&] { getDefaultXPUStream(index); }), expected);
    EXPECT_CONTAINS(errorOf([&] { getCurrentXPUStream(index); }), expected);
    EXPECT_CONTAINS(errorOf([&] { syncStreamsOnDevice(index); }), expected);
    const XPUStream stream(plain(kXPU, index, 0));
    EXPECT_CONTAINS(errorOf([&] { setCurrentXPUStream(stream); }), expected);
    EXPECT_CONTAINS(errorOf([&] { stream.queue(); }), expected);
  }
}

TEST(XPUStreamTest, CurrentStreamIsPerThreadAndDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const DeviceIndex count = device_count();
  const auto last = static_cast<DeviceIndex>(count - 1);
  for (const DeviceIndex device : c10::irange(count)) {
    EXPECT_EQ(getCurrentXPUStream(device), getDefaultXPUStream(device));
  }
  const XPUStream mine = getStreamFromPool(false, last);
  setCurrentXPUStream(mine);
  // the current device is not touched
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(getCurrentXPUStream(last), mine);
  for (const DeviceIndex device : c10::irange(last)) {
    EXPECT_EQ(getCurrentXPUStream(device), getDefaultXPUStream(device));
  }
  std::thread([&] {
    EXPECT_EQ(getCurrentXPUStream(last), getDefaultXPUStream(last));
    const XPUStream theirs = getStreamFromPool(true, last);
    setCurrentXPUStream(theirs);
    EXPECT_EQ(getCurrentXPUStream(last), theirs);
    set_device(last);
    EXPECT_EQ(getCurrentXPUStream(), theirs);
  }).join();
  EXPECT_EQ(getCurrentXPUStream(last), mine);

  // -1 is the current device
  set_device(last);
  EXPECT_EQ(getCurrentXPUStream(), mine);
  EXPECT_EQ(getDefaultXPUStream().device_index(), last);
  EXPECT_EQ(getStreamFromPool().device_index(), last);
  EXPECT_EQ(getStreamFromPool(-1, -1).device_index(), last);
  set_device(0);
  setCurrentXPUStream(getDefaultXPUStream(last));
  EXPECT_EQ(getCurrentXPUStream(last), getDefaultXPUStream(last));
}

namespace {

struct UsesStreamsAtItsEnd {
  std::atomic<bool>* right = nullptr;

  ~UsesStreamsAtItsEnd() {
    if (!right) {
      return;
    }
    const XPUStream stream = getStreamFromPool(false, 0);
    setCurrentXPUStream(stream);
    *right = getCurrentXPUStream(0) == stream;
  }
};

thread_local UsesStreamsAtItsEnd at_end;

} // namespace

TEST(XPUStreamTest, StreamsWorkWhileAThreadEnds) {
  C10_XPU_NEEDS_DEVICES(1);
  std::atomic<bool> right{false};
  std::thread([&] {
    // Made first, so destroyed last: after what the library has per thread.
    at_end.right = &right;
    setCurrentXPUStream(getStreamFromPool(false, 0));
  }).join();
  EXPECT_TRUE(right);
}

TEST(XPUStreamTest, QuerySeesPendingWork) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  EXPECT_TRUE(stream.query());
  {
    Gate gate(stream);
    EXPECT_FALSE(stream.query());
    EXPECT_TRUE(other.query());
    other.synchronize(); // does not wait for `stream`
    gate.open();
    stream.synchronize();
    EXPECT_TRUE(stream.query());
  }
}

TEST(XPUStreamTest, QueryCountsWorkAfterAnEarlierQuery) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  Gate first(stream);
  EXPECT_FALSE(stream.query());
  {
    Gate second(stream);
    first.open();
    EXPECT_FALSE(stream.query());
  }
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  Gate third(stream);
  EXPECT_FALSE(stream.query());
  EXPECT_FALSE(stream.query());
}

TEST(XPUStreamTest, WorkOfAStreamRunsInOrder) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kCount = 1 << 16;
  constexpr int kSteps = 20;
  for (const DeviceIndex device : c10::irange(device_count())) {
    const XPUStream stream = getStreamFromPool(false, device);
    Ints a(device, kCount);
    Ints b(device, kCount);
    std::vector<int> out(kCount, -1);
    for (const auto step : c10::irange(kSteps)) {
      stream.queue().memset(a.get(), step, a.bytes());
      stream.queue().memcpy(b.get(), a.get(), a.bytes());
    }
    stream.queue().memset(a.get(), 0x7f, a.bytes());
    stream.queue().memcpy(out.data(), b.get(), b.bytes());
    stream.synchronize();
    const int expected = (kSteps - 1) * 0x01010101;
    EXPECT_EQ(out, std::vector<int>(kCount, expected));
  }
}

TEST(XPUStreamTest, ExternalQueue) {
  C10_XPU_NEEDS_DEVICES(1);
  namespace ext = sycl::ext::oneapi::property::queue;
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  auto queue = makeExternal(last);
  const XPUStream stream = getStreamFromExternal(&queue, last);
  EXPECT_EQ(&stream.queue(), &queue);
  EXPECT_EQ(stream.device_index(), last);
  EXPECT_EQ(stream.priority(), 0);
  EXPECT_EQ(getStreamFromExternal(&queue, last), stream);
  EXPECT_TRUE(stream.query());
  {
    Gate gate(stream);
    EXPECT_FALSE(stream.query());
    gate.open();
    stream.synchronize();
    EXPECT_TRUE(stream.query());
  }
  setCurrentXPUStream(stream);
  EXPECT_EQ(getCurrentXPUStream(last), stream);
  setCurrentXPUStream(getDefaultXPUStream(last));

  const sycl::property::queue::in_order in_order;
  auto high = makeExternal(last, {in_order, ext::priority_high()});
  auto low = makeExternal(last, {in_order, ext::priority_low()});
  EXPECT_EQ(getStreamFromExternal(&high, last).priority(), -1);
  EXPECT_EQ(getStreamFromExternal(&low, last).priority(), 1);

  set_device(last);
  EXPECT_EQ(getStreamFromExternal(&high, -1).device_index(), last);
  set_device(0);
}

TEST(XPUStreamTest, ExternalQueueThatCannotBeAStreamRaises) {
  C10_XPU_NEEDS_DEVICES(1);
  EXPECT_CONTAINS(
      errorOf([] { getStreamFromExternal(nullptr, 0); }), "null queue");
  auto out_of_order = makeExternal(0, {});
  EXPECT_CONTAINS(
      errorOf([&] { getStreamFromExternal(&out_of_order, 0); }),
      "The external queue is out of order");
  sycl::queue elsewhere(
      sycl::context(get_raw_device(0)),
      get_raw_device(0),
      sycl::property::queue::in_order());
  EXPECT_CONTAINS(
      errorOf([&] { getStreamFromExternal(&elsewhere, 0); }),
      "on a context of its own");
  auto queue = makeExternal();
  const int count = deviceCount();
  EXPECT_CONTAINS(
      errorOf([&] {
        getStreamFromExternal(&queue, static_cast<DeviceIndex>(count));
      }),
      "is out of range");
  bool other_root = false;
  for (const DeviceIndex device : c10::irange(device_count())) {
    if (get_raw_device(device) != get_raw_device(0)) {
      other_root = true;
      EXPECT_CONTAINS(
          errorOf([&] { getStreamFromExternal(&queue, device); }),
          c10::str("is not on xpu:", int(device)));
    }
  }
  if (!other_root) {
    // all ordinals are over one root, where the queue may belong to any
    EXPECT_EQ(
        getStreamFromExternal(&queue, static_cast<DeviceIndex>(count - 1))
            .device_index(),
        count - 1);
  }
}

TEST(XPUStreamTest, ExternalQueueIsNotKeptAlive) {
  C10_XPU_NEEDS_DEVICES(1);
  StreamId id = 0;
  {
    auto queue = makeExternal();
    id = getStreamFromExternal(&queue, 0).id();
    EXPECT_EQ(XPUStream::unpack3(id, 0, kXPU).id(), id);
  }
  EXPECT_CONTAINS(
      errorOf([&] { XPUStream::unpack3(id, 0, kXPU); }),
      "names an external queue, but on device xpu:0 there is none");
  syncStreamsOnDevice(0); // has nothing to do with it any more
}

TEST(XPUStreamTest, AnotherExternalQueueAtTheSameAddressReplacesTheFormer) {
  C10_XPU_NEEDS_DEVICES(1);
  c10::optional<sycl::queue> queue = makeExternal();
  const XPUStream first = getStreamFromExternal(&*queue, 0);
  {
    // A copy keeps the first queue alive, and busy; it is not the stream's.
    sycl::queue former = *queue;
    Gate gate(former);
    *queue = makeExternal();
    EXPECT_EQ(getStreamFromExternal(&*queue, 0), first);
    EXPECT_TRUE(first.query());
    first.synchronize();
    syncStreamsOnDevice(0); // would not return if it waited for the former
  }
  EXPECT_EQ(XPUStream::unpack3(first.id(), 0, kXPU), first);
  queue.reset();
  EXPECT_CONTAINS(
      errorOf([&] { XPUStream::unpack3(first.id(), 0, kXPU); }),
      "there is none");
}

TEST(XPUStreamTest, OnlyIdsOfExternalQueuesAreExternal) {
  C10_XPU_NEEDS_DEVICES(1);
  auto queue = makeExternal();
  EXPECT_TRUE(impl::isExternalStream(getStreamFromExternal(&queue, 0).id()));
  EXPECT_FALSE(impl::isExternalStream(0));
  EXPECT_FALSE(impl::isExternalStream(getStreamFromPool().id()));
  EXPECT_FALSE(impl::isExternalStream(2));
  EXPECT_FALSE(impl::isExternalStream(-8));
}

TEST(XPUStreamTest, AnEventBehindAHostTaskIsHeldByIt) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream held = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  auto done = other.queue().ext_oneapi_submit_barrier();
  EXPECT_FALSE(impl::isHeldByHost(done));
  Gate gate(held);
  const auto event = held.queue().ext_oneapi_submit_barrier();
  EXPECT_TRUE(impl::isHeldByHost(event));
  EXPECT_FALSE(impl::isComplete(event));
  gate.finish();
  EXPECT_TRUE(impl::isComplete(event));
}

TEST(XPUStreamTest, SynchronizationsWarnOrRaiseWhereAsked) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  set_sync_debug_mode(SyncDebugMode::L_ERROR);
  const auto of_stream = errorOf([&] { stream.synchronize(); });
  const auto of_device = errorOf([] { syncStreamsOnDevice(); });
  set_sync_debug_mode(SyncDebugMode::L_DISABLED);
  EXPECT_CONTAINS(of_stream, "synchronizing XPU operation");
  EXPECT_CONTAINS(of_device, "synchronizing XPU operation");
  stream.synchronize();
}

// What a guard's destructor needs in a child that was forked inside of it.
TEST(XPUStreamTest, TheFormerStreamCanBeRestoredInAForkedChild) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  setCurrentXPUStream(stream);
  const auto ended = inChild({}, [&]() -> std::string {
    impl::threadDevice() = 0;
    if (impl::exchangeThreadStream(0, 0) != stream.id()) {
      return "another stream was current";
    }
    const auto text = errorOf([] { getCurrentXPUStream(); });
    return contains(text, "forked subprocess") ? "" : text;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(impl::exchangeThreadStream(0, 0), stream.id());
}

TEST(XPUStreamTest, SyncStreamsOnDeviceWaitsForAll) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kCount = 1 << 20;
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  auto external = makeExternal(last);
  const std::vector<XPUStream> streams = {
      getDefaultXPUStream(last),
      getStreamFromPool(-1, last),
      getStreamFromPool(0, last),
      getStreamFromPool(0, last),
      getStreamFromPool(1, last),
      getStreamFromExternal(&external, last)};
  std::vector<std::unique_ptr<Ints>> memory;
  std::vector<std::vector<int>> out;
  for (const auto& stream : streams) {
    memory.push_back(std::make_unique<Ints>(last, kCount));
    out.emplace_back(kCount, -1);
    stream.queue().memset(memory.back()->get(), 1, memory.back()->bytes());
    stream.queue().memcpy(
        out.back().data(), memory.back()->get(), memory.back()->bytes());
  }
  syncStreamsOnDevice(last);
  for (const auto& stream : streams) {
    EXPECT_TRUE(stream.query());
  }
  for (const auto& values : out) {
    EXPECT_EQ(values, std::vector<int>(kCount, 0x01010101));
  }
}

TEST(XPUStreamTest, SyncStreamsOnDeviceLeavesOtherDevicesAlone) {
  C10_XPU_NEEDS_DEVICES(2);
  const XPUStream busy = getStreamFromPool(false, 1);
  Gate gate(busy);
  syncStreamsOnDevice(0); // would not return if it waited for `busy`
  EXPECT_FALSE(busy.query());
}
