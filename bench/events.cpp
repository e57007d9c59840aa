// Events, beside the barriers that they are made of.

#include "Harness.h"
#include "Loaded.h"
#include "Raw.h"

#include <ATen/xpu/XPUEvent.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <string>
#include <vector>

namespace {

using namespace bench;
using at::xpu::XPUEvent;
using c10::xpu::XPUStream;

void record(const Options& options) {
  const XPUStream stream = c10::xpu::getStreamFromPool();
  sycl::queue raw = makeRawQueue();
  XPUEvent event;
  sycl::event raw_event;
  compare(
      options,
      {"event.record", "record an event", Bound::RatioAtMost, 1.05},
      {{"XPUEvent::record",
        [&](size_t n) {
          for (; n != 0; --n) {
            event.record(stream);
          }
        }},
       {"raw barrier",
        [&](size_t n) {
          for (; n != 0; --n) {
            raw_event = raw.ext_oneapi_submit_barrier();
          }
        }},
       {"XPUEvent made, recorded, destroyed",
        [&](size_t n) {
          for (; n != 0; --n) {
            XPUEvent fresh;
            fresh.record(stream);
          }
        }}},
      {/*seconds=*/2});
}

void block(const Options& options) {
  const XPUStream first = c10::xpu::getStreamFromPool();
  const XPUStream second = c10::xpu::getStreamFromPool();
  sycl::queue raw_first = makeRawQueue();
  sycl::queue raw_second = makeRawQueue();
  XPUEvent event;
  event.record(first);
  const sycl::event raw_event = raw_first.ext_oneapi_submit_barrier();
  compare(
      options,
      {"event.block",
       "let a stream wait for an event",
       Bound::RatioAtMost,
       1.05},
      {{"XPUEvent::block",
        [&](size_t n) {
          for (; n != 0; --n) {
            event.block(second);
          }
        }},
       {"raw barrier with the event",
        [&](size_t n) {
          for (; n != 0; --n) {
            raw_second.ext_oneapi_submit_barrier({raw_event});
          }
        }}},
      {/*seconds=*/2});
}

void timing(const Options& options) {
  const XPUStream stream = c10::xpu::getStreamFromPool();
  sycl::queue raw(
      rawContext(),
      rawDevice(),
      {sycl::property::queue::in_order(),
       sycl::property::queue::enable_profiling()});
  XPUEvent event(/*enable_timing=*/true);
  sycl::event raw_event;
  compare(
      options,
      {"event.timing", "record an event with timing", Bound::None},
      {{"XPUEvent(true)::record",
        [&](size_t n) {
          for (; n != 0; --n) {
            event.record(stream);
          }
        }},
       {"raw barrier on a queue with profiling",
        [&](size_t n) {
          for (; n != 0; --n) {
            raw_event = raw.ext_oneapi_submit_barrier();
          }
        }}},
      {/*seconds=*/0.8});
}

void query(const Options& options) {
  const XPUStream stream = c10::xpu::getStreamFromPool();
  sycl::queue raw = makeRawQueue();
  XPUEvent event;
  event.record(stream);
  event.synchronize();
  sycl::event raw_event = raw.ext_oneapi_submit_barrier();
  raw_event.wait();
  compare(
      options,
      {"event.query", "query a completed event", Bound::RatioAtMost, 1.2},
      {{"XPUEvent::query",
        [&](size_t n) { repeat(n, [&] { sink(event.query()); }); }},
       {"raw status",
        [&](size_t n) { repeat(n, [&] { sink(isComplete(raw_event)); }); }}},
      {/*seconds=*/0.8});
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  const std::string before = loadedBySycl();
  c10::xpu::device_count_ensure_non_zero();
  const std::string after = loadedBySycl();
  if (wanted(options, "start.aten")) {
    check(
        "start.aten",
        "nothing of SYCL is loaded before the first use, with ATen",
        before.empty() && !after.empty());
  }
  record(options);
  block(options);
  timing(options);
  query(options);
  return 0;
}
