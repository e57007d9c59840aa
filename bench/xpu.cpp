// The XPU runtime beside raw SYCL on the same device and context.

#include "Figures.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>
#include <sycl/event.hpp>
#include <sycl/properties/queue_properties.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <exception>
#include <iostream>
#include <sstream>

namespace {

using namespace bench;
namespace Cache = c10::xpu::XPUCachingAllocator;

sycl::device& device() {
  return c10::xpu::get_raw_device(0);
}

sycl::context& context() {
  return c10::xpu::get_device_context();
}

/// A queue with the properties that a stream's queue has.
sycl::queue rawQueue() {
  namespace ext = sycl::ext::oneapi::property::queue;
  return sycl::queue(
      context(),
      device(),
      {sycl::property::queue::in_order(), ext::priority_normal()});
}

sycl::queue timedQueue() {
  return sycl::queue(
      context(),
      device(),
      {sycl::property::queue::in_order(),
       sycl::property::queue::enable_profiling()});
}

/// A queue that has had work and is idle.
std::shared_ptr<sycl::queue> usedQueue() {
  auto queue = std::make_shared<sycl::queue>(rawQueue());
  queue->ext_oneapi_submit_barrier();
  queue->wait();
  return queue;
}

bool isComplete(const sycl::event& event) {
  return event.get_info<sycl::info::event::command_execution_status>() ==
      sycl::info::event_command_status::complete;
}

void* rawAllocate(size_t bytes) {
  return sycl::aligned_alloc_device(512, bytes, device(), context());
}

void rawFree(void* block) {
  sycl::free(block, context());
}

struct Xpu {
  using Stream = c10::xpu::XPUStream;
  using Event = c10::xpu::XPUEvent;
  using DeviceGuard = c10::xpu::XPUGuard;
  using StreamGuard = c10::xpu::XPUStreamGuard;
  static constexpr c10::DeviceType kDevice = c10::DeviceType::XPU;

  static int currentDevice() {
    return c10::xpu::current_device();
  }
  static Stream currentStream() {
    return c10::xpu::getCurrentXPUStream();
  }
  static Stream poolStream() {
    return c10::xpu::getStreamFromPool();
  }
  static Event event(bool timing) {
    return Event(timing);
  }
  static void syncDevice() {
    c10::xpu::syncStreamsOnDevice();
  }
  static void* allocate(size_t bytes) {
    return Cache::raw_alloc(bytes);
  }
  static void* allocateOn(size_t bytes, Stream stream) {
    return Cache::raw_alloc_with_stream(bytes, stream);
  }
  static void free(void* block) {
    Cache::raw_delete(block);
  }
  static void* allocateHost(size_t bytes) {
    return sycl::malloc_host(bytes, context());
  }
  static void freeHost(void* block) {
    sycl::free(block, context());
  }
  static c10::Allocator* allocator() {
    return Cache::get();
  }
  static void recordStream(const c10::DataPtr& block, Stream stream) {
    Cache::recordStream(block, stream);
  }
  static void emptyCache() {
    Cache::emptyCache();
  }
  static auto reserved() {
    return Cache::getDeviceStats(0).reserved_bytes[0];
  }
  static void resetPeak() {
    Cache::resetPeakStats(0);
  }
  static int64_t segmentsMade() {
    return Cache::getDeviceStats(0).segment[0].allocated;
  }
  static void copy(void* to, const void* from, size_t bytes, Stream stream) {
    stream.queue().memcpy(to, from, bytes).wait();
  }
  static inline CopyEnds copyEnds;

  /// The calls of SYCL that do what a figure does.
  static std::optional<Side> raw(const std::string& id) {
    const auto is = [&id](const char* prefix) {
      return id.rfind(prefix, 0) == 0;
    };
    if (is("stream.copy")) {
      auto queue = usedQueue();
      return Side{"memcpy, wait", repeated([queue, ends = copyEnds] {
                    queue->memcpy(ends.to, ends.from, ends.bytes).wait();
                  })};
    }
    if (is("stream") || is("device")) {
      return rawStream(id);
    }
    return is("event") ? rawEvent(id) : rawAllocator(id);
  }

 private:
  static std::optional<Side> rawStream(const std::string& id) {
    auto queue = usedQueue();
    if (id == "stream.sync" || id == "device.sync") {
      return Side{"wait_and_throw() of one queue", repeated([queue] {
                    queue->wait_and_throw();
                  })};
    }
    if (id != "stream.query") {
      return {};
    }
    // Beside threads that submit, OpenCL's ext_oneapi_empty() is a race.
    if (device().get_backend() == sycl::backend::opencl) {
      return Side{"status of the last event", repeated([queue] {
                    const auto last = queue->ext_oneapi_get_last_event();
                    sink(last && isComplete(*last));
                  })};
    }
    return Side{"ext_oneapi_empty()", repeated([queue] {
                  sink(queue->ext_oneapi_empty());
                })};
  }

  static std::optional<Side> rawEvent(const std::string& id) {
    auto queue = id == "event.record.timing"
        ? std::make_shared<sycl::queue>(timedQueue())
        : usedQueue();
    auto event =
        std::make_shared<sycl::event>(queue->ext_oneapi_submit_barrier());
    queue->wait();
    if (id == "event.query") {
      return Side{"status of the event", repeated([event] {
                    sink(isComplete(*event));
                  })};
    }
    const auto drain = [queue] { queue->wait(); };
    if (id == "event.block") {
      auto other = usedQueue();
      return Side{
          "barrier with the event",
          repeated(
              [other, event] { other->ext_oneapi_submit_barrier({*event}); }),
          nullptr,
          [other] { other->wait(); }};
    }
    return Side{
        "barrier",
        repeated(
            [queue, event] { *event = queue->ext_oneapi_submit_barrier(); }),
        nullptr,
        drain};
  }

  static std::optional<Side> rawAllocator(const std::string& id) {
    const std::string hit = "allocator.hit.";
    if (id.rfind(hit, 0) == 0) {
      const size_t bytes = std::stoul(id.substr(hit.size()));
      return Side{"aligned_alloc_device, free", repeated([bytes] {
                    void* const block = rawAllocate(bytes);
                    sink(block);
                    rawFree(block);
                  })};
    }
    if (id == "allocator.recorded") {
      auto queue = usedQueue();
      return Side{
          "barrier",
          repeated([queue] { sink(queue->ext_oneapi_submit_barrier()); }),
          nullptr,
          [queue] { queue->wait(); }};
    }
    if (id.rfind("allocator.trace", 0) == 0) {
      auto trace = std::make_shared<Trace>(
          1,
          id == "allocator.trace.small" ? kMiB : 64 * kMiB,
          &rawAllocate,
          &rawFree);
      trace->play(4 * Trace::kSlots);
      return Side{
          "free, aligned_alloc_device", [trace](size_t n) { trace->play(n); }};
    }
    if (id == "allocator.miss") {
      auto blocks = std::make_shared<std::vector<void*>>();
      return Side{
          "aligned_alloc_device",
          repeated([blocks] { blocks->push_back(rawAllocate(32 * kMiB)); }),
          nullptr,
          [blocks] {
            for (void* block : *blocks) {
              rawFree(block);
            }
            blocks->clear();
          }};
    }
    return {};
  }
};

} // namespace

int main(int argc, char** argv) try {
  const Options options = parseOptions(argc, argv);
  Cache::init(c10::xpu::device_count_ensure_non_zero());
  std::ostringstream backend;
  backend << device().get_backend();
  header("SYCL", device().get_info<sycl::info::device::name>(), backend.str());
  Figures<Xpu>(options).run();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
