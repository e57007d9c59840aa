#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/irange.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <random>
#include <vector>

using namespace c10;
using namespace c10::xpu;
using namespace c10::xpu::test;

// These tests are of most use under ThreadSanitizer.

namespace {

constexpr int kThreads = 8;

} // namespace

// First, so that the pools are not there yet.
TEST(XPUStreamConcurrencyTest, FirstUseByManyThreadsMakesOnePool) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<DeviceIndex>(device_count() - 1);
  std::vector<sycl::queue*> standard(kThreads);
  std::vector<std::vector<XPUStream>> taken(kThreads);
  inThreads(kThreads, [&](int n) {
    const auto place = static_cast<size_t>(n);
    standard[place] = &getDefaultXPUStream(last).queue();
    for (const auto i : c10::irange(32)) {
      (void)i;
      taken[place].push_back(getStreamFromPool(-1, last));
      taken[place].back().queue();
    }
  });
  EXPECT_EQ(
      std::count(standard.begin(), standard.end(), standard[0]), kThreads);
  // Together every stream was handed out once per thread: the counter has lost
  // nothing.
  std::map<StreamId, int> times;
  std::map<StreamId, sycl::queue*> queues;
  for (const auto& streams : taken) {
    for (const auto& stream : streams) {
      ++times[stream.id()];
      auto* queue = &stream.queue();
      EXPECT_EQ(queues.emplace(stream.id(), queue).first->second, queue);
    }
  }
  EXPECT_EQ(times.size(), 32);
  for (const auto& entry : times) {
    EXPECT_EQ(entry.second, kThreads) << "stream " << entry.first;
  }
}

TEST(XPUStreamConcurrencyTest, CurrentStreamsDoNotMix) {
  C10_XPU_NEEDS_DEVICES(1);
  std::atomic<int> wrong{0};
  inThreads(kThreads, [&](int n) {
    const auto device = static_cast<DeviceIndex>(n % device_count());
    set_device(device);
    for (const auto i : c10::irange(200)) {
      const XPUStream stream = getStreamFromPool(i % 3 - 1);
      setCurrentXPUStream(stream);
      wrong += getCurrentXPUStream() != stream;
      wrong += getCurrentXPUStream(device) != stream;
      wrong += current_device() != device;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(XPUStreamConcurrencyTest, ThreadsShareStreams) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr int kSteps = 50;
  constexpr size_t kCount = 256;
  // Fewer streams than threads: several submit to one.
  const std::array<XPUStream, 2> streams = {
      getStreamFromPool(), getStreamFromPool()};
  std::atomic<int> wrong{0};
  inThreads(kThreads, [&](int n) {
    const XPUStream& stream = streams[static_cast<size_t>(n) % 2];
    Ints memory(0, kCount);
    std::vector<int> out(kCount);
    for (const auto step : c10::irange(kSteps)) {
      const int value = (n * kSteps + step) % 127;
      stream.queue().memset(memory.get(), value, memory.bytes());
      stream.queue().memcpy(out.data(), memory.get(), memory.bytes());
      if (step % 3 == 0) {
        syncStreamsOnDevice(0);
      } else {
        stream.synchronize();
      }
      const int expected = value * 0x01010101;
      wrong += out[0] != expected || out[kCount - 1] != expected;
    }
    stream.synchronize();
  });
  EXPECT_EQ(wrong, 0);
}

// See Note [Asking whether a queue is idle]
TEST(XPUStreamConcurrencyTest, StreamsAreAskedWhileOthersSubmit) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr int kSteps = 500;
  const XPUStream stream = getStreamFromPool();
  stream.queue();
  std::atomic<int> submitting{kThreads / 2};
  inThreads(kThreads, [&](int n) {
    if (n % 2 == 0) {
      Ints memory(0, 64);
      for (const auto step : c10::irange(kSteps)) {
        stream.queue().memset(memory.get(), step % 100, memory.bytes());
      }
      stream.synchronize();
      --submitting;
    } else {
      while (submitting > 0) {
        stream.query();
        syncStreamsOnDevice(0);
      }
    }
  });
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST(XPUStreamConcurrencyTest, ExternalQueuesComeAndGo) {
  C10_XPU_NEEDS_DEVICES(1);
  std::atomic<int> wrong{0};
  inThreads(kThreads, [&](int n) {
    for (const auto step : c10::irange(20)) {
      (void)step;
      if (n == 0) {
        syncStreamsOnDevice(0);
        continue;
      }
      sycl::queue queue(
          get_device_context(),
          get_raw_device(0),
          sycl::property::queue::in_order());
      const XPUStream stream = getStreamFromExternal(&queue, 0);
      queue.ext_oneapi_submit_barrier();
      stream.synchronize();
      wrong += XPUStream::unpack3(stream.id(), 0, kXPU) != stream;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(XPUStreamConcurrencyTest, EachAsynchronousErrorIsRaisedOnce) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr int kFailures = 20;
  std::mutex mutex;
  std::string all;
  inThreads(kThreads, [&](int n) {
    const XPUStream stream = getStreamFromPool();
    for (const auto i : c10::irange(kFailures)) {
      const std::string text = c10::str("<", n, ":", i, ">");
      stream.queue().submit([text](sycl::handler& handler) {
        handler.host_task([text] { throw std::runtime_error(text); });
      });
      std::string raised;
      try {
        stream.synchronize();
      } catch (const c10::Error& error) {
        raised = error.what_without_backtrace();
      }
      std::lock_guard<std::mutex> lock(mutex);
      all += raised;
    }
  });
  all += errorOf([] { syncStreamsOnDevice(0); });
  for (const auto n : c10::irange(kThreads)) {
    for (const auto i : c10::irange(kFailures)) {
      const std::string text = c10::str("<", n, ":", i, ">");
      const auto at = all.find(text);
      EXPECT_NE(at, std::string::npos) << text << " was lost";
      EXPECT_EQ(all.find(text, at + 1), std::string::npos) << text << " twice";
    }
  }
}

// See Note [Work of a stream]
TEST(XPUStreamConcurrencyTest, WorkThatRunsIsSeen) {
  C10_XPU_NEEDS_DEVICES(1);
  const XPUStream stream = getStreamFromPool();
  std::promise<void> running;
  std::promise<void> opened;
  std::thread other([&] {
    impl::launch(stream, [&](sycl::queue& queue) {
      auto event = queue.submit([&](sycl::handler& handler) {
        handler.host_task([&] {
          running.set_value();
          opened.get_future().wait();
        });
      });
      // The launch does not end before the work runs.
      running.get_future().wait();
      EXPECT_FALSE(std::async([&] { return stream.query(); }).get());
      return event;
    });
  });
  other.join();
  EXPECT_FALSE(stream.query());
  opened.set_value();
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

// The model of a stream is two numbers: how much work was submitted, and how
// much has ended. A stream is idle only if what was submitted before it was
// asked has ended, and what failed is raised by who learns that it has ended.
TEST(XPUStreamConcurrencyTest, StreamsAreAsTheirModel) {
  C10_XPU_NEEDS_DEVICES(1);
  constexpr int kSteps = 400;
  struct Model {
    XPUStream stream = getStreamFromPool();
    std::atomic<int> submitted{0};
    std::atomic<int> ended{0};
    std::atomic<int> failed{0};
    std::atomic<int> raised{0};
  };
  std::array<Model, 2> models;
  std::atomic<int> wrong{0};
  inThreads(4, [&](int n) {
    std::mt19937 random(static_cast<uint32_t>(n));
    for (const auto step : c10::irange(kSteps)) {
      auto& model = models[random() % models.size()];
      const auto& stream = model.stream;
      const auto work = [&model, fails = random() % 8 == 0](auto& queue) {
        return queue.submit([&model, fails](sycl::handler& handler) {
          handler.host_task([&model, fails] {
            ++model.ended;
            if (fails) {
              ++model.failed;
              throw std::runtime_error("<failed>");
            }
          });
        });
      };
      const auto learns = [&](const auto& ask) {
        const int before = model.submitted;
        try {
          wrong += ask() && model.ended < before;
        } catch (const c10::Error& error) {
          wrong += model.ended < before;
          const std::string text = error.what_without_backtrace();
          for (auto at = text.find("<failed>"); at != std::string::npos;
               at = text.find("<failed>", at + 1)) {
            ++model.raised;
          }
        }
      };
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          impl::launch(stream, work);
          ++model.submitted;
          break;
        case 3:
          if (&model == models.data() && step > kSteps / 2) {
            work(stream.queue()); // from now on it is handed out
            ++model.submitted;
          }
          break;
        case 4:
          learns([&] {
            stream.synchronize();
            return true;
          });
          break;
        case 5:
          learns([&] {
            impl::waitFor(stream);
            return true;
          });
          break;
        default:
          learns([&] { return stream.query(); });
      }
    }
  });
  for (auto& model : models) {
    const auto text = errorOf([&] { model.stream.synchronize(); });
    for (auto at = text.find("<failed>"); at != std::string::npos;
         at = text.find("<failed>", at + 1)) {
      ++model.raised;
    }
    EXPECT_EQ(model.ended, model.submitted);
    EXPECT_EQ(model.raised, model.failed);
    EXPECT_GT(model.failed, 0);
  }
  EXPECT_EQ(wrong, 0);
}

// SYCL may deliver the errors of all queues to the first thread that asks.
TEST(XPUStreamConcurrencyTest, AFailureIsRaisedByTheNextWait) {
  C10_XPU_NEEDS_DEVICES(1);
  std::atomic<int> missed{0};
  inThreads(kThreads, [&](int n) {
    const XPUStream stream = getStreamFromPool();
    const std::string text = c10::str("<", n, ">");
    for (const auto i : c10::irange(50)) {
      (void)i;
      impl::launch(stream, [&](sycl::queue& queue) {
        submitFailure(queue, text);
        return queue.ext_oneapi_submit_barrier();
      });
      missed += !contains(errorOf([&] { impl::waitFor(stream); }), text);
    }
  });
  EXPECT_EQ(missed, 0);
}
