#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/irange.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace c10::xpu;
using namespace c10::xpu::test;
using c10::DeviceIndex;

static_assert(std::is_nothrow_move_constructible_v<XPUEvent>, "movable");
static_assert(std::is_nothrow_move_assignable_v<XPUEvent>, "movable");
static_assert(!std::is_copy_constructible_v<XPUEvent>, "not copyable");
static_assert(!std::is_copy_assignable_v<XPUEvent>, "not copyable");

namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

/// Work that takes at least this long.
void submitWork(const XPUStream& stream, double milliseconds) {
  stream.queue().submit([milliseconds](sycl::handler& handler) {
    handler.host_task([milliseconds] {
      const auto start = Clock::now();
      while (millisecondsSince(start) < milliseconds) {
      }
    });
  });
}

/// Whether a timed record on a stream of ours needs a second queue. See
/// Note [Timing of events]
bool getsTimeFromCompanion() {
  return !get_raw_device(0).has(sycl::aspect::ext_oneapi_queue_profiling_tag);
}

} // namespace

TEST(XPUEventTest, AnEventThatWasNotRecordedIsComplete) {
  const XPUEvent event;
  EXPECT_FALSE(event.isCreated());
  EXPECT_TRUE(event.query());
  EXPECT_EQ(event.device(), c10::nullopt);
  EXPECT_EQ(event.device_index(), -1);
  event.synchronize();
  EXPECT_CONTAINS(errorOf([&] { event.event(); }), "Call record first");
}

TEST(XPUEventTest, NoDeviceIsAnError) {
  if (device_count() != 0) {
    GTEST_SKIP() << "there is a device";
  }
  ASSERT_TRUE(mayHaveNoDevice());
  XPUEvent event;
  EXPECT_CONTAINS(errorOf([&] { event.record(); }), "No XPU device");
  EXPECT_FALSE(event.isCreated());
}

TEST(XPUEventTest, BlockOnAnUnrecordedEventDoesNothing) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUEvent event;
  Fault any("");
  event.block(stream);
}

TEST(XPUEventTest, RecordCreatesAndMoves) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  for (const bool timing : {false, true}) {
    const XPUStream stream = getStreamFromPool(false, last);
    const XPUStream other = getStreamFromPool(false, last);
    XPUEvent event(timing);
    event.record(stream);
    EXPECT_TRUE(event.isCreated());
    EXPECT_EQ(event.device(), c10::Device(c10::kXPU, last));
    EXPECT_EQ(event.device_index(), last);
    event.synchronize();
    EXPECT_TRUE(event.query());
    {
      Gate gate(other);
      event.record(other); // moves to what is not complete
      EXPECT_FALSE(event.query());
      event.record(stream); // and back
      event.synchronize();
      EXPECT_TRUE(event.query());
    }
    sycl::event& raw = event;
    EXPECT_EQ(&raw, &event.event());
  }
}

TEST(XPUEventTest, RecordTakesTheCurrentStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  Gate gate(stream);
  XPUEvent event;
  event.record();
  event.synchronize(); // of the default stream, which is idle
  setCurrentXPUStream(stream);
  event.record();
  setCurrentXPUStream(getDefaultXPUStream());
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(XPUEventTest, RecordOnceRecordsOnce) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream idle = getStreamFromPool();
  const XPUStream busy = getStreamFromPool();
  XPUEvent event;
  event.recordOnce(idle);
  event.synchronize();
  Gate gate(busy);
  event.recordOnce(busy);
  EXPECT_TRUE(event.query());
}

TEST(XPUEventTest, RecordOnAnotherDeviceNamesBoth) {
  C10_XPU_NEEDS_DEVICES(2);
  for (const bool timing : {false, true}) {
    XPUEvent event(timing);
    event.record(getDefaultXPUStream(1));
    const auto text = errorOf([&] { event.record(getDefaultXPUStream(0)); });
    EXPECT_CONTAINS(text, "first recorded on device xpu:1");
    EXPECT_CONTAINS(text, "cannot be recorded on device xpu:0");
    EXPECT_EQ(event.device_index(), 1);
    event.recordOnce(getDefaultXPUStream(0)); // does not record
    event.record(getStreamFromPool(false, 1));
    event.synchronize();
  }
}

TEST(XPUEventTest, MovedEvents) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  Gate gate(stream);
  XPUEvent event(true);
  event.record(stream);
  const sycl::event raw = event.event();

  XPUEvent moved(std::move(event));
  EXPECT_EQ(moved.event(), raw);
  EXPECT_FALSE(moved.query());
  // NOLINTNEXTLINE(bugprone-use-after-move): the moved-from event is as new
  EXPECT_FALSE(event.isCreated());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(stream);
  event.record(getStreamFromPool());
  event.synchronize();

  XPUEvent assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.event(), raw);
  auto& itself = assigned;
  assigned = std::move(itself);
  EXPECT_EQ(assigned.event(), raw);

  std::vector<XPUEvent> many;
  for (const auto i : c10::irange(100)) {
    many.emplace_back(i % 2 == 0);
    many.back().record(stream);
  }
  many.erase(many.begin(), many.begin() + 50);
  EXPECT_FALSE(many.front().query());
  gate.open();
  for (const auto& each : many) {
    each.synchronize();
  }
  EXPECT_TRUE(assigned.query());
}

TEST(XPUEventTest, EventsCanBeInSets) {
  C10_XPU_NEEDS_DEVICES(1);
  std::set<XPUEvent> events;
  for (const auto i : c10::irange(5)) {
    (void)i;
    XPUEvent event;
    event.record();
    events.insert(std::move(event));
  }
  EXPECT_EQ(events.size(), 5);
}

TEST(XPUEventTest, AnEventMayBeDestroyedWhileItIsPending) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool();
  for (const bool timing : {false, true}) {
    Gate gate(first);
    {
      XPUEvent event(timing);
      event.record(first);
      event.block(second);
    }
    EXPECT_FALSE(second.query());
    gate.open();
    second.synchronize();
    EXPECT_TRUE(second.query());
  }
}

TEST(XPUEventTest, ABlockedStreamWaitsForTheFormerRecord) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool();
  const XPUStream third = getStreamFromPool();
  XPUEvent event;
  event.record(first);
  event.block(third);
  Gate gate(second);
  event.record(second); // does not hold `third` up
  third.synchronize();
  EXPECT_FALSE(event.query());
}

// Each stream adds to the memory that the one before it wrote. Without the
// events the values would come out wrong.
TEST(XPUEventTest, EventsOrderWorkBetweenStreams) {
  C10_XPU_NEEDS_DEVICES(1);
  C10_XPU_NEEDS_PEERS();
  constexpr size_t kCount = 1 << 18;
  constexpr int kRounds = 8;
  for (const bool timing : {false, true}) {
    std::vector<XPUStream> streams;
    for (const DeviceIndex device : c10::irange(device_count())) {
      streams.push_back(getStreamFromPool(-1, device));
      streams.push_back(getStreamFromPool(1, device));
    }
    std::vector<std::unique_ptr<Ints>> memory;
    for (const auto i : c10::irange(streams.size() * kRounds + 1)) {
      (void)i;
      memory.push_back(std::make_unique<Ints>(0, kCount));
    }
    std::vector<int> out(kCount, -1);
    {
      // Holds everything up until all is submitted, so that no order comes
      // about by chance.
      Gate gate(streams[0]);
      streams[0].queue().memset(memory[0]->get(), 5, memory[0]->bytes());
      std::vector<XPUEvent> events;
      for (const auto step : c10::irange(memory.size() - 1)) {
        const XPUStream& from = streams[step % streams.size()];
        const XPUStream& to = streams[(step + 1) % streams.size()];
        events.emplace_back(timing);
        events.back().record(from);
        events.back().block(to);
        to.queue().memcpy(
            memory[step + 1]->get(), memory[step]->get(), memory[0]->bytes());
        // What `from` does next must not overtake what `to` reads.
        XPUEvent read(timing);
        read.record(to);
        read.block(from);
        from.queue().memset(memory[step]->get(), 7, memory[0]->bytes());
      }
      const XPUStream& end = streams[(memory.size() - 1) % streams.size()];
      end.queue().memcpy(out.data(), memory.back()->get(), memory[0]->bytes());
      gate.open();
      end.synchronize();
    }
    EXPECT_EQ(std::count(out.begin(), out.end(), out[0]), kCount);
    EXPECT_EQ(out[kCount - 1], 0x05050505);
    for (const DeviceIndex device : c10::irange(device_count())) {
      syncStreamsOnDevice(device);
    }
  }
}

// Nor does it where nothing is to wait for. See
// Note [Waiting for an event without blocking the host]
TEST(XPUEventTest, BlockDoesNotWait) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool();
  const XPUStream third = getStreamFromPool();
  XPUEvent event;
  XPUEvent next(true);
  Gate gate(first); // would never open if one of these calls waited
  event.record(first);
  event.block(second);
  next.record(second);
  next.block(third);
  EXPECT_FALSE(third.query());
  gate.open();
  third.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_TRUE(next.query());

  Ints memory(0, 1 << 24);
  first.queue().memset(memory.get(), 1, memory.bytes());
  event.record(first);
  event.block(second);
  second.synchronize();
  EXPECT_TRUE(event.query());
  event.block(third); // is complete
  EXPECT_TRUE(third.query());
}

// The barrier may be complete before the stream's own work is. See
// Note [Work of a stream]
TEST(XPUEventTest, ABlockedStreamIsBusyUntilItsOwnWorkHasEnded) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  Ints memory(0, 1 << 22);
  const std::vector<std::function<void()>> waits = {
      [&] { impl::waitFor(stream); },
      [&] { stream.synchronize(); },
      [&] {
        while (!stream.query()) {
          std::this_thread::yield();
        }
      }};
  for (const auto& wait : waits) {
    for (const auto& recorded : {stream, other}) {
      XPUEvent event;
      event.record(recorded);
      const auto work = impl::launch(stream, [&](sycl::queue& queue) {
        return queue.memset(memory.get(), 1, memory.bytes());
      });
      event.block(stream);
      wait();
      EXPECT_TRUE(impl::isComplete(work));
    }
  }
}

TEST(XPUEventTest, BlockOrdersAcrossDevices) {
  C10_XPU_NEEDS_DEVICES(2);
  const XPUStream first = getStreamFromPool(false, 0);
  const XPUStream second = getStreamFromPool(false, 1);
  Gate gate(first);
  XPUEvent event;
  event.record(first);
  event.block(second);
  XPUEvent after;
  after.record(second);
  EXPECT_FALSE(after.query());
  gate.open();
  after.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(XPUEventTest, ElapsedTimeIsThatOfTheWorkBetween) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr double kWork = 20;
  for (const DeviceIndex device : c10::irange(device_count())) {
    const XPUStream stream = getStreamFromPool(false, device);
    XPUEvent start(true);
    XPUEvent end(true);
    const auto began = Clock::now();
    start.record(stream);
    submitWork(stream, kWork);
    end.record(stream);
    end.synchronize();
    const double wall = millisecondsSince(began);
    const double elapsed = start.elapsed_time(end);
    // A time comes late by some microseconds, the first as the second; on a
    // loaded machine by more.
    EXPECT_GT(elapsed, kWork / 2);
    EXPECT_LT(elapsed, wall + kWork / 2);
    EXPECT_DOUBLE_EQ(end.elapsed_time(start), -elapsed);
    EXPECT_EQ(start.elapsed_time(start), 0);
  }
}

TEST(XPUEventTest, ElapsedTimeOfCopies) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getDefaultXPUStream();
  Ints memory(0, 1 << 22);
  XPUEvent start(true);
  XPUEvent middle(true);
  XPUEvent end(true);
  start.record(stream);
  stream.queue().memset(memory.get(), 1, memory.bytes());
  middle.record(stream);
  for (const auto i : c10::irange(20)) {
    stream.queue().memset(memory.get(), i, memory.bytes());
  }
  end.record(stream);
  // the device's synchronization is enough for a time to be taken
  syncStreamsOnDevice();
  EXPECT_GT(start.elapsed_time(middle), 0);
  EXPECT_GT(middle.elapsed_time(end), 0);
  EXPECT_NEAR(
      start.elapsed_time(middle) + middle.elapsed_time(end),
      start.elapsed_time(end),
      1e-3);
}

TEST(XPUEventTest, ElapsedTimeBetweenStreams) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream first = getStreamFromPool();
  const XPUStream second = getStreamFromPool(true);
  XPUEvent start(true);
  XPUEvent end(true);
  start.record(first);
  start.block(second);
  submitWork(second, 10);
  end.record(second);
  second.synchronize();
  EXPECT_GT(start.elapsed_time(end), 5);
}

TEST(XPUEventTest, TimedEventsOfAnIdleStreamDoNotWaitForABusyOne) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream busy = getStreamFromPool();
  const XPUStream idle = getStreamFromPool();
  XPUEvent pending(true);
  XPUEvent start(true);
  XPUEvent end(true);
  Gate gate(busy);
  pending.record(busy);
  start.record(idle);
  end.record(idle);
  end.synchronize(); // would hang if it waited for `busy`
  EXPECT_GE(start.elapsed_time(end), 0);
  EXPECT_FALSE(pending.query());
}

TEST(XPUEventTest, ExternalQueuesCanBeTimed) {
  C10_XPU_NEEDS_DEVICES(1);
  const sycl::property_list plain{sycl::property::queue::in_order()};
  const sycl::property_list profiled{
      sycl::property::queue::in_order(),
      sycl::property::queue::enable_profiling()};
  c10::optional<sycl::queue> queue; // all at one address, and of one stream id
  for (const auto& properties : {plain, profiled, plain}) {
    queue.emplace(get_device_context(), get_raw_device(0), properties);
    const XPUStream stream = getStreamFromExternal(&*queue, 0);
    XPUEvent start(true);
    XPUEvent end(true);
    start.record(stream);
    submitWork(stream, 10);
    end.record(stream);
    end.synchronize();
    EXPECT_GT(start.elapsed_time(end), 5);
  }
}

TEST(XPUEventTest, EachReasonAgainstATimeIsAnErrorOfItsOwn) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const auto timeOf = [](const XPUEvent& first, const XPUEvent& second) {
    return errorOf([&] { first.elapsed_time(second); });
  };
  XPUEvent fresh(true);
  XPUEvent good(true);
  XPUEvent untimed;
  good.record(stream);
  untimed.record(stream);
  stream.synchronize();
  EXPECT_CONTAINS(timeOf(fresh, good), "the first event has not been recorded");
  EXPECT_CONTAINS(
      timeOf(good, fresh), "the second event has not been recorded");
  EXPECT_CONTAINS(
      timeOf(untimed, good), "the first event was made without timing");
  EXPECT_CONTAINS(
      timeOf(good, untimed), "the second event was made without timing");
  {
    Gate gate(stream);
    fresh.record(stream);
    EXPECT_CONTAINS(timeOf(fresh, good), "the first event is not complete");
    EXPECT_CONTAINS(timeOf(good, fresh), "the second event is not complete");
  }
  EXPECT_GE(good.elapsed_time(fresh), 0);
}

TEST(XPUEventTest, ATimeBetweenDevicesRaises) {
  C10_XPU_NEEDS_DEVICES(2);
  XPUEvent first(true);
  XPUEvent second(true);
  first.record(getDefaultXPUStream(0));
  second.record(getDefaultXPUStream(1));
  first.synchronize();
  second.synchronize();
  const auto text = errorOf([&] { first.elapsed_time(second); });
  EXPECT_CONTAINS(text, "the first event was recorded on device xpu:0");
  EXPECT_CONTAINS(text, "the second on device xpu:1");
}

TEST(XPUEventTest, ErrorsOfSYCLComeOutAsErrors) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream busy = getStreamFromPool();
  const char* const barrier = "submit_barrier";
  for (const bool timing : {false, true}) {
    if (timing && !getsTimeFromCompanion()) {
      continue; // a profiling tag is inline in SYCL's headers
    }
    XPUEvent event(timing);
    const auto failsToRecord = [&](int from) {
      Fault fault(barrier, from);
      EXPECT_CONTAINS(errorOf([&] { event.record(stream); }), "injected");
    };
    failsToRecord(0);
    EXPECT_FALSE(event.isCreated());
    event.record(stream);
    event.synchronize();
    const sycl::event before = event.event();
    failsToRecord(0);
    if (timing) {
      failsToRecord(1); // the companion's barrier, after that of the stream
    }
    EXPECT_EQ(event.event(), before);
    EXPECT_TRUE(event.query());

    event.record(stream);
    stream.synchronize();
    for (const auto& [call, use] :
         std::vector<std::pair<const char*, std::function<void()>>>{
             {"get_info", [&] { event.query(); }},
             {barrier, [&] { event.block(busy); }},
             {"wait_and_throw", [&] { event.synchronize(); }}}) {
      Fault fault(call);
      EXPECT_CONTAINS(errorOf(use), "injected");
    }
    if (timing) {
      Fault fault("get_profiling_info");
      EXPECT_CONTAINS(errorOf([&] { event.elapsed_time(event); }), "injected");
    }
    EXPECT_TRUE(event.query());
    event.synchronize();
  }
}

TEST(XPUEventTest, ACompletedEventIsNotAskedAgain) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  for (const bool timing : {false, true}) {
    XPUEvent event(timing);
    event.record(stream);
    event.synchronize();
    {
      Fault any(""); // whatever SYCL would be asked
      EXPECT_TRUE(event.query());
    }
    Gate gate(stream);
    event.record(stream);
    EXPECT_FALSE(event.query());
  }
}

TEST(XPUEventTest, SynchronizeRaisesTheErrorsOfItsStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  for (const bool timing : {false, true}) {
    XPUEvent event(timing);
    XPUEvent of_other(timing);
    submitFailure(stream.queue(), "the work before the event");
    event.record(stream);
    of_other.record(other);
    stream.queue().wait();
    of_other.synchronize();
    const auto text = errorOf([&] { event.synchronize(); });
    EXPECT_CONTAINS(text, "asynchronous error");
    EXPECT_CONTAINS(text, "the work before the event");
    event.synchronize(); // once
    EXPECT_TRUE(event.query());
    stream.synchronize();
  }
}

TEST(XPUEventTest, QueryOfACompleteEventRaisesTheErrorsOfItsStream) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  for (const bool timing : {false, true}) {
    XPUEvent event(timing);
    submitFailure(stream.queue(), "the work before the event");
    event.record(stream);
    const auto text = errorOf([&] {
      while (!event.query()) {
        std::this_thread::yield();
      }
    });
    EXPECT_CONTAINS(text, "the work before the event");
    EXPECT_TRUE(event.query()); // once
    // also of an event that is known to be complete
    event.synchronize();
    submitFailure(stream.queue(), "later work");
    stream.queue().wait_and_throw();
    EXPECT_CONTAINS(errorOf([&] { event.query(); }), "later work");
    stream.synchronize();
  }
}

// See Note [Asynchronous errors]
TEST(XPUEventTest, EventsOfAnExternalStreamRaiseWhatItsHandlerKept) {
  C10_XPU_NEEDS_DEVICES(1);
  sycl::queue external(
      get_raw_device(0), asyncHandler, sycl::property::queue::in_order());
  const XPUStream stream = getStreamFromExternal(&external, 0);
  for (const bool waits : {false, true}) {
    XPUEvent event;
    submitFailure(external, "external work failed");
    event.record(stream);
    const auto text = errorOf([&] {
      if (waits) {
        event.synchronize();
      }
      while (!event.query()) {
        std::this_thread::yield();
      }
    });
    EXPECT_CONTAINS(text, "external work failed");
    event.synchronize(); // once
  }
}

TEST(XPUEventTest, AForkedChildCanOnlyDestroyEvents) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  for (const bool timing : {false, true}) {
    c10::optional<XPUEvent> complete;
    complete.emplace(timing);
    complete->record(stream);
    complete->synchronize();
    Gate gate(stream);
    c10::optional<XPUEvent> pending;
    pending.emplace(timing);
    pending->record(stream);
    const auto ended = inChild({}, [&]() -> std::string {
      std::string failure;
      for (const auto& [name, use] :
           std::vector<std::pair<const char*, std::function<void()>>>{
               {"record", [&] { pending->record(stream); }},
               {"record()", [&] { pending->record(); }},
               {"new", [&] { XPUEvent().record(stream); }},
               {"query", [&] { pending->query(); }},
               {"block", [&] { pending->block(stream); }},
               {"synchronize", [&] { pending->synchronize(); }},
               {"elapsed_time", [&] { pending->elapsed_time(*pending); }}}) {
        const auto error = errorOf(use);
        const bool own = !timing && std::string(name) == "elapsed_time";
        if (!contains(error, own ? "without timing" : "forked")) {
          failure += std::string(name) + ": " + error + "; ";
        }
      }
      complete.reset();
      pending.reset();
      return failure;
    });
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(ended.output, "[]");
  }
}

// A program that waits for an event in one thread and records it in another
// must not stand still.
TEST(XPUEventTest, RecordDoesNotWaitForSynchronize) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream busy = getStreamFromPool();
  const XPUStream idle = getStreamFromPool();
  for (const bool timing : {false, true}) {
    XPUEvent event(timing);
    Gate gate(busy);
    event.record(busy);
    const XPUEvent& seen = event;
    std::thread waiting([&] { seen.synchronize(); });
    event.record(idle);
    event.synchronize();
    EXPECT_TRUE(event.query());
    event.block(idle);
    gate.open();
    waiting.join();
    EXPECT_TRUE(event.query());
  }
}

// As threads of Python do, which hold no lock then.
TEST(XPUEventTest, ManyThreadsUseOneEvent) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  const XPUStream other = getStreamFromPool();
  XPUEvent event(/*enable_timing=*/true);
  event.record(stream);
  const XPUEvent& seen = event;
  std::atomic<int> wrong{0};
  const std::array<std::function<void()>, 6> uses = {
      [&] { event.record(stream); },
      [&] { event.record(other); },
      [&] { seen.query(); },
      [&] { seen.synchronize(); },
      [&] { seen.block(other); },
      [&] {
        const auto error = errorOf([&] { seen.elapsed_time(seen); });
        wrong += error != "no error" && !contains(error, "is not complete");
      }};
  inThreads(uses.size(), [&](size_t n) {
    for (int step = 0; step < 100; ++step) {
      uses[n]();
    }
  });
  EXPECT_EQ(wrong, 0);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(XPUEventTest, ManyThreadsUseTheirOwnEventsOnSharedStreams) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr size_t kThreads = 8;
  constexpr int kSteps = 50;
  const std::array<XPUStream, 3> streams = {
      getStreamFromPool(), getStreamFromPool(), getStreamFromPool(true)};
  std::atomic<int> wrong{0};
  inThreads(kThreads, [&](size_t n) {
    Ints memory(0, 64);
    std::array<int, 64> out{};
    for (const auto step : c10::irange(kSteps)) {
      const auto place = static_cast<size_t>(step);
      const XPUStream& from = streams[(n + place) % 3];
      const XPUStream& to = streams[(n + place + 1) % 3];
      XPUEvent written(step % 2 == 0);
      XPUEvent read(step % 2 == 0);
      from.queue().memset(memory.get(), step, memory.bytes());
      written.record(from);
      written.block(to);
      to.queue().memcpy(out.data(), memory.get(), memory.bytes());
      read.record(to);
      read.synchronize();
      wrong += out[63] != step * 0x01010101;
      wrong += !written.query();
      if (step % 2 == 0) {
        wrong += written.elapsed_time(read) < 0;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}
