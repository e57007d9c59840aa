// The calls that only look at or change the state of the calling thread, and
// getStreamFromPool: each beside an access to a thread_local, or an atomic
// increment.

#include "Floor.h"
#include "Harness.h"
#include "Raw.h"

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

// Visible, so that the compiler does not know that nobody writes to it.
thread_local int program_variable = 0;

namespace {

using namespace bench;

std::atomic<uint32_t> counter{0};

/// A figure against the access to a thread_local.
/// See Note [What a thread_local access costs]
void againstThreadLocal(
    const Options& options,
    const std::string& id,
    const std::string& title,
    double bound,
    std::function<void(size_t)> ours) {
  const std::vector<Side> sides = {
      {title, std::move(ours)},
      {"thread_local access", accessThreadLocal},
      {"call of an empty function",
       [](size_t n) { repeat(n, [] { emptyFunction(); }); }},
      {"thread_local of the main program",
       [](size_t n) { repeat(n, [] { sink(int(program_variable)); }); }},
  };
  compare(
      options,
      {id, title, Bound::RatioAtMost, bound},
      sides,
      {/*seconds=*/0.6});
}

void deviceCalls(const Options& options) {
  using namespace c10::xpu;
  againstThreadLocal(options, "device.set", "set_device", 3, [](size_t n) {
    repeat(n, [] {
      set_device(0);
      sink(0); // or the first of two stores would be left out
    });
  });
  againstThreadLocal(
      options, "device.current", "current_device", 3, [](size_t n) {
        repeat(n, [] { sink(current_device()); });
      });
  againstThreadLocal(options, "device.count", "device_count", 3, [](size_t n) {
    repeat(n, [] { sink(device_count()); });
  });
}

void properties(const Options& options) {
  using namespace c10::xpu;
  DeviceProp prop;
  get_device_properties(&prop, 0); // the first call asks the driver
  const Side raw = {"raw get_info of the name alone", [](size_t n) {
                      for (size_t i = 0; i < n; ++i) {
                        sink(rawDevice().get_info<sycl::info::device::name>());
                      }
                    }};
  const Side copy = {"get_device_properties", [&prop](size_t n) {
                       for (size_t i = 0; i < n; ++i) {
                         get_device_properties(&prop, 0);
                         sink(prop.max_compute_units);
                       }
                     }};
  const Side reference = {
      "get_device_properties, by reference", [](size_t n) {
        repeat(n, [] { sink(get_device_properties(0).max_compute_units); });
      }};
  const Plan plan{/*seconds=*/0.4};
  compare(
      options,
      {"device.properties",
       "get_device_properties after the first call",
       Bound::ValueAtMost,
       1000},
      {copy, raw},
      plan);
  compare(
      options,
      {"device.properties.reference",
       "get_device_properties by reference",
       Bound::ValueAtMost,
       1000},
      {reference, raw},
      plan);
}

void streamCalls(const Options& options) {
  using namespace c10::xpu;
  const auto current = [](size_t n) {
    repeat(n, [] { sink(getCurrentXPUStream()); });
  };
  againstThreadLocal(
      options,
      "stream.current.default",
      "getCurrentXPUStream, none set",
      4,
      current);
  const XPUStream before = getCurrentXPUStream();
  setCurrentXPUStream(getStreamFromPool());
  againstThreadLocal(
      options,
      "stream.current.set",
      "getCurrentXPUStream, one set",
      4,
      current);
  setCurrentXPUStream(before);

  const std::vector<Side> sides = {
      {"getStreamFromPool",
       [](size_t n) { repeat(n, [] { sink(getStreamFromPool()); }); }},
      {"atomic increment",
       [](size_t n) {
         repeat(
             n, [] { sink(counter.fetch_add(1, std::memory_order_relaxed)); });
       }},
  };
  compare(
      options,
      {"stream.from_pool", "getStreamFromPool", Bound::RatioAtMost, 2},
      sides,
      {/*seconds=*/0.6});
}

void guards(const Options& options) {
  using namespace c10::xpu;
  const XPUStream stream = getStreamFromPool();
  againstThreadLocal(
      options, "guard.stream", "XPUStreamGuard", 15, [stream](size_t n) {
        repeat(n, [&] {
          XPUStreamGuard guard(stream.unwrap());
          sink(guard);
        });
      });
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  c10::xpu::device_count_ensure_non_zero();
  c10::xpu::getStreamFromPool(); // makes the queues of the pool
  deviceCalls(options);
  properties(options);
  streamCalls(options);
  guards(options);
  return 0;
}
