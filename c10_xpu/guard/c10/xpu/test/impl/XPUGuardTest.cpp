#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUGuard.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

namespace {

thread_local size_t num_allocations = 0;

} // namespace

// Counts what the calling thread allocates, for GuardsDoNotAllocate. Not
// inline: GCC would warn of new and free() as a mismatch.
// NOLINTBEGIN(cppcoreguidelines-no-malloc): it stands for the library's own
C10_NOINLINE void* operator new(size_t size) {
  ++num_allocations;
  if (void* ptr = std::malloc(size)) {
    return ptr;
  }
  throw std::bad_alloc();
}

// AddressSanitizer's own would not go with the operator delete below.
C10_NOINLINE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++num_allocations;
  return std::malloc(size);
}

C10_NOINLINE void operator delete(void* ptr) noexcept {
  std::free(ptr);
}

C10_NOINLINE void operator delete(void* ptr, size_t) noexcept {
  std::free(ptr);
}
// NOLINTEND(cppcoreguidelines-no-malloc)

namespace {

Device deviceAt(DeviceIndex index) {
  return Device(kXPU, index);
}

const c10::impl::DeviceGuardImplInterface* guardImpl() {
  return c10::impl::getDeviceGuardImpl(kXPU);
}

/// Where the interface forbids it to raise, the stream of a device that does
/// not exist is one that names it.
void expectNoStream(Device device) {
  const Stream none(Stream::DEFAULT, device);
  if constexpr (c10::xpu::impl::XPUGuardImpl::kStreamsRaise) {
    const std::string expected =
        errorOf([&] { check_device_index(device.index()); });
    EXPECT_EQ(errorOf([&] { guardImpl()->getStream(device); }), expected);
    EXPECT_EQ(errorOf([&] { guardImpl()->exchangeStream(none); }), expected);
  } else {
    EXPECT_EQ(guardImpl()->getStream(device), none);
    EXPECT_EQ(guardImpl()->exchangeStream(none), none);
  }
}

} // namespace

TEST(XPUGuardTest, IsRegistered) {
  ASSERT_TRUE(c10::impl::hasDeviceGuardImpl(kXPU));
  EXPECT_EQ(guardImpl()->type(), kXPU);
  EXPECT_EQ(guardImpl()->deviceCount(), device_count());
}

TEST(XPUGuardTest, AForkedChildHasNoDeviceToGuardAndNoWarning) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto ended = inChild({}, []() -> std::string {
    return guardImpl()->deviceCount() == 0 ? "" : "it has devices";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "[]");
}

// A function that forks in the scope of a guard returns twice.
TEST(XPUGuardTest, AForkedChildLeavesTheGuardsOfItsParent) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream original = getCurrentXPUStream(last);
  const XPUStream stream = getStreamFromPool(false, last);
  const std::vector<XPUStream> streams = {stream};
  c10::Event event(kXPU);
  event.record(stream);

  auto device = std::make_unique<XPUGuard>(last);
  auto of_stream = std::make_unique<XPUStreamGuard>(stream);
  auto of_streams = std::make_unique<XPUMultiStreamGuard>(streams);
  auto by_type = std::make_unique<DeviceGuard>(deviceAt(last));
  auto by_stream = std::make_unique<StreamGuard>(stream.unwrap());
  auto taken = std::make_unique<c10::Event>(std::move(event));
  const auto leave = [&] {
    taken.reset();
    by_stream.reset();
    by_type.reset();
    of_streams.reset();
    of_stream.reset();
    device.reset();
  };
  const auto ended = inChild({}, [&]() -> std::string {
    leave();
    const auto text = errorOf([&] { XPUStreamGuard guard(stream); });
    return !contains(text, "forked")          ? "a new guard: " + text
        : c10::xpu::impl::threadDevice() != 0 ? "the device is not restored"
                                              : "";
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "[]");
  leave();
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(getCurrentXPUStream(last), original);
}

TEST(XPUGuardTest, NoDeviceRaises) {
  C10_XPU_NEEDS_NO_DEVICE();
  EXPECT_EQ(guardImpl()->deviceCount(), 0);
  EXPECT_THROW(XPUGuard guard(DeviceIndex(0)), c10::Error);
  EXPECT_THROW(DeviceGuard guard(deviceAt(0)), c10::Error);
  EXPECT_THROW(
      XPUStreamGuard guard(Stream(Stream::DEFAULT, deviceAt(0))), c10::Error);
  EXPECT_THROW(guardImpl()->getDefaultStream(deviceAt(0)), c10::Error);
  // These may not raise; they must not end the process either.
  guardImpl()->uncheckedSetDevice(deviceAt(0));
  expectNoStream(deviceAt(0));
}

TEST(XPUGuardTest, ForeignDeviceTypeRaises) {
  const std::string error = errorOf([] { XPUGuard guard{Device(kCPU)}; });
  EXPECT_CONTAINS(error, "cpu");
  EXPECT_CONTAINS(error, "expected xpu");
  EXPECT_THROW(OptionalXPUGuard guard(Device(kCUDA, 0)), c10::Error);
  EXPECT_THROW(
      XPUStreamGuard guard(Stream(Stream::DEFAULT, Device(kCPU))), c10::Error);
  EXPECT_THROW(guardImpl()->setDevice(Device(kCPU)), c10::Error);
  EXPECT_THROW(guardImpl()->exchangeDevice(Device(kCPU)), c10::Error);
  EXPECT_THROW(guardImpl()->getDefaultStream(Device(kCPU)), c10::Error);
}

TEST(XPUGuardTest, DeviceGuardOnOneDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  {
    XPUGuard guard(DeviceIndex(0));
    EXPECT_EQ(guard.original_device(), deviceAt(0));
    EXPECT_EQ(guard.current_device(), deviceAt(0));
  }
  // The index -1 is the current device.
  XPUGuard current(DeviceIndex(-1));
  EXPECT_EQ(current.current_device(), deviceAt(0));
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUGuardTest, InvalidIndexChangesNothing) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  XPUGuard guard(last);
  const auto beyond = device_count();
  EXPECT_THROW(XPUGuard inner(beyond), c10::Error);
  EXPECT_EQ(current_device(), last);
  EXPECT_THROW(guard.set_index(beyond), c10::Error);
  EXPECT_EQ(current_device(), last);
  EXPECT_EQ(guard.current_device(), deviceAt(last));
  EXPECT_THROW(
      XPUStreamGuard guard(Stream(Stream::DEFAULT, deviceAt(beyond))),
      c10::Error);
  EXPECT_EQ(current_device(), last);
}

TEST(XPUGuardTest, DeviceGuardSetsAndRestores) {
  C10_XPU_NEEDS_DEVICES(2);
  set_device(0);
  {
    XPUGuard guard(deviceAt(1));
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), deviceAt(0));
    EXPECT_EQ(guard.current_device(), deviceAt(1));
    guard.set_index(0);
    EXPECT_EQ(current_device(), 0);
    guard.reset_device(deviceAt(1));
    EXPECT_EQ(current_device(), 1);
    guard.set_device(Device(kXPU));
    EXPECT_EQ(current_device(), 1) << "a device without index is a no-op";
    EXPECT_EQ(guard.original_device(), deviceAt(0));
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUGuardTest, DeviceGuardRestoresOnException) {
  C10_XPU_NEEDS_DEVICES(2);
  set_device(0);
  EXPECT_THROW(
      {
        XPUGuard guard(DeviceIndex(1));
        throw std::runtime_error("work failed");
      },
      std::runtime_error);
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUGuardTest, OptionalDeviceGuard) {
  C10_XPU_NEEDS_DEVICES(2);
  set_device(0);
  {
    OptionalXPUGuard guard;
    EXPECT_FALSE(guard.original_device().has_value());
    EXPECT_FALSE(guard.current_device().has_value());
    guard.set_index(1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(guard.original_device(), deviceAt(0));
    EXPECT_EQ(guard.current_device(), deviceAt(1));
    guard.reset();
    EXPECT_EQ(current_device(), 0);
    EXPECT_FALSE(guard.current_device().has_value());
    guard.reset_device(deviceAt(1));
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
  {
    OptionalXPUGuard empty{optional<Device>()};
    OptionalXPUGuard full{optional<DeviceIndex>(DeviceIndex(1))};
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUGuardTest, StreamGuardSetsAndRestores) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const XPUStream original = getCurrentXPUStream();
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool();
  ASSERT_NE(first, original);
  ASSERT_NE(first, second);
  {
    XPUStreamGuard guard(first);
    EXPECT_EQ(getCurrentXPUStream(), first);
    EXPECT_EQ(guard.original_stream(), original);
    EXPECT_EQ(guard.current_stream(), first);
    EXPECT_EQ(guard.current_device(), deviceAt(0));
    EXPECT_EQ(guard.original_device(), deviceAt(0));
    guard.reset_stream(second);
    EXPECT_EQ(getCurrentXPUStream(), second);
    EXPECT_EQ(guard.current_stream(), second);
    EXPECT_EQ(guard.original_stream(), original);
  }
  EXPECT_EQ(getCurrentXPUStream(), original);
}

TEST(XPUGuardTest, StreamGuardAcrossDevices) {
  C10_XPU_NEEDS_DEVICES(2);
  set_device(0);
  const XPUStream original0 = getCurrentXPUStream(0);
  const XPUStream original1 = getCurrentXPUStream(1);
  const XPUStream stream0 = getStreamFromPool(false, 0);
  const XPUStream stream1 = getStreamFromPool(false, 1);
  {
    XPUStreamGuard guard(stream1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(getCurrentXPUStream(1), stream1);
    EXPECT_EQ(getCurrentXPUStream(0), original0);
    EXPECT_EQ(guard.original_stream(), original0);
    EXPECT_EQ(guard.original_device(), deviceAt(0));
    guard.reset_stream(stream0);
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(getCurrentXPUStream(0), stream0);
    EXPECT_EQ(getCurrentXPUStream(1), original1);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(getCurrentXPUStream(0), original0);
  EXPECT_EQ(getCurrentXPUStream(1), original1);
}

TEST(XPUGuardTest, OptionalStreamGuard) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const XPUStream original = getCurrentXPUStream();
  const XPUStream stream = getStreamFromPool();
  {
    OptionalXPUStreamGuard guard;
    EXPECT_FALSE(guard.original_stream().has_value());
    EXPECT_FALSE(guard.current_stream().has_value());
    guard.reset_stream(stream);
    EXPECT_EQ(getCurrentXPUStream(), stream);
    EXPECT_EQ(guard.original_stream(), original);
    EXPECT_EQ(guard.current_stream(), stream);
    guard.reset();
    EXPECT_EQ(getCurrentXPUStream(), original);
    EXPECT_FALSE(guard.current_stream().has_value());
  }
  {
    OptionalXPUStreamGuard empty{optional<Stream>()};
    EXPECT_EQ(getCurrentXPUStream(), original);
    OptionalXPUStreamGuard full{optional<Stream>(stream)};
    EXPECT_EQ(getCurrentXPUStream(), stream);
  }
  EXPECT_EQ(getCurrentXPUStream(), original);
}

TEST(XPUGuardTest, MultiStreamGuard) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  std::vector<XPUStream> originals;
  std::vector<XPUStream> streams;
  for (const auto i : c10::irange(device_count())) {
    originals.push_back(getCurrentXPUStream(i));
    streams.push_back(getStreamFromPool(false, i));
  }
  {
    XPUMultiStreamGuard empty{ArrayRef<XPUStream>()};
    XPUMultiStreamGuard guard(streams);
    for (const auto i : c10::irange(device_count())) {
      EXPECT_EQ(getCurrentXPUStream(i), streams[i]);
    }
    EXPECT_EQ(current_device(), 0);
  }
  for (const auto i : c10::irange(device_count())) {
    EXPECT_EQ(getCurrentXPUStream(i), originals[i]);
  }
}

TEST(XPUGuardTest, GuardsDoNotAllocate) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream stream = getStreamFromPool(false, last);
  // The first use of a stream by a thread may allocate.
  {
    XPUStreamGuard warm_up(stream);
  }
  const size_t before = num_allocations;
  {
    XPUGuard device_guard(last);
    XPUStreamGuard stream_guard(stream);
    OptionalXPUStreamGuard optional_guard{Stream(stream)};
  }
  EXPECT_EQ(num_allocations, before);
}

TEST(XPUGuardTest, StateIsPerThread) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream stream = getStreamFromPool(false, last);
  XPUStreamGuard guard(stream);
  std::thread other([&] {
    EXPECT_EQ(current_device(), 0);
    EXPECT_NE(getCurrentXPUStream(last), stream);
    XPUStreamGuard inner(getStreamFromPool(false, 0));
  });
  other.join();
  EXPECT_EQ(current_device(), last);
  EXPECT_EQ(getCurrentXPUStream(last), stream);
}

TEST(XPUGuardTest, VirtualGuards) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream original = getCurrentXPUStream(last);
  const XPUStream stream = getStreamFromPool(false, last);
  {
    DeviceGuard guard(deviceAt(last));
    EXPECT_EQ(current_device(), last);
    EXPECT_EQ(guard.original_device(), deviceAt(0));
  }
  {
    OptionalDeviceGuard guard;
    guard.reset_device(deviceAt(last));
    EXPECT_EQ(current_device(), last);
  }
  {
    StreamGuard guard{Stream(stream)};
    EXPECT_EQ(current_device(), last);
    EXPECT_EQ(getCurrentXPUStream(last), stream);
    EXPECT_EQ(guard.original_device(), deviceAt(0));
  }
  {
    OptionalStreamGuard guard;
    guard.reset_stream(stream);
    EXPECT_EQ(getCurrentXPUStream(last), stream);
  }
  {
    const std::vector<Stream> streams = {stream};
    MultiStreamGuard guard(streams);
    EXPECT_EQ(getCurrentXPUStream(last), stream);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(getCurrentXPUStream(last), original);

  const c10::impl::VirtualGuardImpl virtual_impl(kXPU);
  EXPECT_EQ(virtual_impl.type(), kXPU);
  EXPECT_EQ(virtual_impl.getDevice(), deviceAt(0));
  EXPECT_EQ(virtual_impl.deviceCount(), device_count());
  EXPECT_EQ(virtual_impl.exchangeDevice(deviceAt(last)), deviceAt(0));
  EXPECT_EQ(current_device(), last);
  virtual_impl.setDevice(deviceAt(0));
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUGuardTest, DevicesThatDoNotExistLeaveTheStateAsItIs) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  const XPUStream original = getCurrentXPUStream();
  for (const int index : {deviceCount(), 127}) {
    const Device beyond(kXPU, static_cast<DeviceIndex>(index));
    guardImpl()->uncheckedSetDevice(beyond);
    expectNoStream(beyond);
    const Stream stream(Stream::DEFAULT, beyond);
    void* event = nullptr;
    const auto raises = [&](const auto& call) {
      EXPECT_CONTAINS(errorOf(call), "is out of range");
    };
    raises([&] { guardImpl()->setDevice(beyond); });
    raises([&] { guardImpl()->exchangeDevice(beyond); });
    raises([&] { guardImpl()->getDefaultStream(beyond); });
    raises([&] { guardImpl()->getStreamFromGlobalPool(beyond); });
    raises([&] { guardImpl()->queryStream(stream); });
    raises([&] { guardImpl()->synchronizeStream(stream); });
    raises([&] {
      guardImpl()->record(&event, stream, -1, EventFlag::PYTORCH_DEFAULT);
    });
    guardImpl()->destroyEvent(event, beyond.index());
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(getCurrentXPUStream(), original);
}

TEST(XPUGuardTest, StreamsOfTheInterface) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  for (const auto i : c10::irange(device_count())) {
    const auto index = static_cast<DeviceIndex>(i);
    const Stream by_default = guardImpl()->getDefaultStream(deviceAt(index));
    EXPECT_EQ(by_default, guardImpl()->getDefaultStream(deviceAt(index)));
    EXPECT_EQ(by_default.device(), deviceAt(index));
    // It is a stream that work can be given to.
    by_default.synchronize();
    EXPECT_TRUE(by_default.query());

    const Stream pooled = guardImpl()->getStreamFromGlobalPool(deviceAt(index));
    EXPECT_EQ(pooled.device(), deviceAt(index));
    EXPECT_NE(pooled, by_default);
    const Stream high =
        guardImpl()->getStreamFromGlobalPool(deviceAt(index), true);
    EXPECT_EQ(high.device(), deviceAt(index));
    EXPECT_LT(XPUStream(high).priority(), XPUStream(pooled).priority());
    EXPECT_EQ(
        guardImpl()->getStream(deviceAt(index)), getCurrentXPUStream(index));
  }
  EXPECT_EQ(
      guardImpl()->getDefaultStream(Device(kXPU)),
      guardImpl()->getDefaultStream(deviceAt(0)));
  EXPECT_THROW(
      guardImpl()->getDefaultStream(deviceAt(device_count())), c10::Error);
}

TEST(XPUGuardTest, QueryAndSynchronizeStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  EXPECT_FALSE(stream.unwrap().query());
  held.finish();
  stream.unwrap().synchronize();
  EXPECT_TRUE(stream.unwrap().query());
}

TEST(XPUGuardTest, EventBeforeAnyRecord) {
  C10_XPU_NEEDS_DEVICES(1);
  c10::Event event(kXPU);
  EXPECT_TRUE(event.query());
  EXPECT_FALSE(event.was_marked_for_recording());
  EXPECT_EQ(event.device_index(), -1);
  event.block(getCurrentXPUStream(0));
  // The members of the interface take the null pointer of such an event.
  EXPECT_TRUE(guardImpl()->queryEvent(nullptr));
  guardImpl()->block(nullptr, getCurrentXPUStream(0));
  guardImpl()->destroyEvent(nullptr, -1);
}

TEST(XPUGuardTest, EventQueryFollowsTheStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream stream = getStreamFromPool(false, last);
  c10::Event event(kXPU, EventFlag::BACKEND_DEFAULT);
  Gate held(stream);
  event.record(stream);
  EXPECT_EQ(event.device_index(), last);
  EXPECT_FALSE(event.query());
  event.recordOnce(getCurrentXPUStream(last));
  EXPECT_FALSE(event.query()) << "recordOnce must not record again";
  held.finish();
  EXPECT_TRUE(event.query());

  // A second record replaces the first.
  Gate again(stream);
  event.record(stream);
  EXPECT_FALSE(event.query());
  c10::Event moved(std::move(event));
  EXPECT_FALSE(moved.query());
  again.finish();
  EXPECT_TRUE(moved.query());
}

TEST(XPUGuardTest, EventOutlivedByItsWork) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  {
    c10::Event event(kXPU);
    event.record(stream);
  }
  EXPECT_FALSE(stream.query());
  held.finish();
  EXPECT_TRUE(stream.query());
}

TEST(XPUGuardTest, EventBlocksAnotherStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream producer = getStreamFromPool(false, 0);
  const XPUStream consumer = getStreamFromPool(false, last);
  ASSERT_NE(producer, consumer);
  Ints memory(0, 1);
  int read = -1;
  Gate held(producer);
  producer.queue().memset(memory.get(), 0, memory.bytes());
  c10::Event event(kXPU);
  event.record(producer);
  // Returns though the event depends on a host task that has yet to end.
  event.block(consumer);
  consumer.queue().memcpy(&read, memory.get(), memory.bytes());
  EXPECT_FALSE(consumer.query());
  held.finish();
  consumer.synchronize();
  EXPECT_EQ(read, 0);
}

TEST(XPUGuardTest, EventsAreXPUEvents) {
  C10_XPU_NEEDS_DEVICES(1);
  const Stream stream = getStreamFromPool(false, 0);
  void* plain = nullptr;
  void* timed = nullptr;
  guardImpl()->record(&plain, stream, -1, EventFlag::PYTORCH_DEFAULT);
  guardImpl()->record(&timed, stream, -1, EventFlag::BACKEND_DEFAULT);
  stream.synchronize();
  const auto& with_time = *static_cast<XPUEvent*>(timed);
  EXPECT_EQ(with_time.elapsed_time(with_time), 0);
  EXPECT_CONTAINS(
      errorOf([&] { with_time.elapsed_time(*static_cast<XPUEvent*>(plain)); }),
      "without timing");
  EXPECT_TRUE(guardImpl()->queryEvent(plain));
  {
    Fault any(""); // a completed event is not asked again
    EXPECT_TRUE(guardImpl()->queryEvent(plain));
  }
  guardImpl()->destroyEvent(plain, 0);
  guardImpl()->destroyEvent(timed, 0);
}

TEST(XPUGuardTest, EventStaysWithItsDevice) {
  C10_XPU_NEEDS_DEVICES(2);
  c10::Event event(kXPU);
  event.record(getStreamFromPool(false, 0));
  const std::string error =
      errorOf([&] { event.record(getStreamFromPool(false, 1)); });
  EXPECT_CONTAINS(error, "xpu:0");
  EXPECT_CONTAINS(error, "xpu:1");
  EXPECT_EQ(event.device_index(), 0);
}

TEST(XPUGuardTest, EventRefusesForeignStreamsAndFlags) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  c10::Event event(kXPU);
  const Stream cpu(Stream::DEFAULT, Device(kCPU));
  EXPECT_THROW(event.record(cpu), c10::Error);
  EXPECT_FALSE(event.was_marked_for_recording());
  event.record(stream);
  EXPECT_THROW(event.block(cpu), c10::Error);
  // Those of other backends are between the two.
  constexpr int kFirst = static_cast<int>(EventFlag::BACKEND_DEFAULT) + 1;
  constexpr int kLast = static_cast<int>(EventFlag::INVALID);
  for (int flag = kFirst; flag <= kLast; ++flag) {
    c10::Event foreign(kXPU, static_cast<EventFlag>(flag));
    const std::string error = errorOf([&] { foreign.record(stream); });
    EXPECT_CONTAINS(error, "PYTORCH_DEFAULT");
    EXPECT_FALSE(foreign.was_marked_for_recording());
  }
}

TEST(XPUGuardTest, FailedRecordLeavesTheEventAsItWas) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool(false, 0);
  c10::Event event(kXPU);
  {
    Fault fault("submit_barrier");
    const std::string error = errorOf([&] { event.record(stream); });
    EXPECT_CONTAINS(error, "injected");
  }
  EXPECT_FALSE(event.was_marked_for_recording());
  EXPECT_TRUE(event.query());
  // It takes the device of the first record that succeeds.
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  const XPUStream other = getStreamFromPool(false, last);
  Gate held(other);
  event.record(other);
  EXPECT_EQ(event.device_index(), last);
  {
    Fault fault("submit_barrier");
    EXPECT_THROW(event.record(other), c10::Error);
  }
  EXPECT_FALSE(event.query()) << "the former record must still count";
  {
    Fault fault("get_info");
    EXPECT_THROW(event.query(), c10::Error);
  }
  held.finish();
  EXPECT_TRUE(event.query());
}

TEST(XPUGuardTest, RecordDataPtrOnStream) {
  C10_XPU_NEEDS_DEVICES(1);
  set_device(0);
  constexpr size_t kBytes = size_t(1) << 20;
  XPUCachingAllocator::init(device_count());
  Allocator* allocator = GetAllocator(kXPU);
  ASSERT_NE(allocator, nullptr);
  const XPUStream stream = getStreamFromPool(false, 0);
  Gate held(stream);
  DataPtr data = allocator->allocate(kBytes);
  void* const address = data.get();
  guardImpl()->recordDataPtrOnStream(data, stream);
  data.clear();
  // The other stream may still work with the block.
  DataPtr meanwhile = allocator->allocate(kBytes);
  EXPECT_NE(meanwhile.get(), address);
  held.finish();
  DataPtr afterwards = allocator->allocate(kBytes);
  EXPECT_EQ(afterwards.get(), address);
}
