// What goes through a stream's queue, and waiting for all of them.

#include "Harness.h"
#include "Raw.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace bench;
using c10::xpu::XPUStream;
namespace Allocator = c10::xpu::XPUCachingAllocator;

// ---- waiting for a device whose queues are idle ----

/// That synchronizing makes no queue; and that making one would be seen.
void makesNone() {
  const XPUStream stream = c10::xpu::getStreamFromPool();
  const auto made = [&] {
    return c10::xpu::impl::findUsedQueue(0, stream.id()) != nullptr;
  };
  c10::xpu::syncStreamsOnDevice();
  const bool by_sync = made();
  stream.queue();
  check(
      "sync.makes_no_queue",
      "syncStreamsOnDevice makes no queue",
      !by_sync && made());
}

/// Each queue has had work, as all but those that nobody asked for have.
void use(sycl::queue& queue) {
  queue.ext_oneapi_submit_barrier();
  queue.wait();
}

void synchronize(const Options& options, const std::string& id, size_t used) {
  sycl::queue one = makeRawQueue();
  use(one);
  std::vector<sycl::queue> raw;
  for (size_t i = 0; i < used; ++i) {
    raw.push_back(makeRawQueue());
    use(raw.back());
  }
  const auto for_each = [&raw](auto ask) {
    return [&raw, ask](size_t n) {
      for (; n != 0; --n) {
        for (auto& queue : raw) {
          ask(queue);
        }
      }
    };
  };
  std::vector<Side> sides = {
      {"syncStreamsOnDevice",
       [](size_t n) {
         for (; n != 0; --n) {
           c10::xpu::syncStreamsOnDevice();
         }
       }},
      {"wait() of one idle queue",
       [&one](size_t n) {
         for (; n != 0; --n) {
           one.wait();
         }
       }},
  };
  int need = -1;
  if (used != 0) {
    // The ways in which SYCL tells that a queue is idle; errors of work that
    // has failed are then to be thrown.
    const auto last = for_each([](sycl::queue& queue) {
      const auto event = queue.ext_oneapi_get_last_event();
      sink(event && isComplete(*event));
      queue.throw_asynchronous();
    });
    const auto barrier = for_each([](sycl::queue& queue) {
      sink(isComplete(queue.ext_oneapi_submit_barrier()));
      queue.throw_asynchronous();
    });
    const auto wait =
        for_each([](sycl::queue& queue) { queue.wait_and_throw(); });
    const auto empty = for_each([](sycl::queue& queue) {
      sink(queue.ext_oneapi_empty());
      queue.throw_asynchronous();
    });
    sides.push_back({"each: last event and its status", last});
    sides.push_back({"each: a barrier and its status", barrier});
    sides.push_back({"each: wait_and_throw()", wait});
    sides.push_back(
        {canAskEmpty() ? "each: ext_oneapi_empty()"
                       : "each: ext_oneapi_empty(), a race on this backend",
         empty});
    need = canAskEmpty() ? 5 : 2;
  }
  compare(
      options,
      {id,
       "syncStreamsOnDevice, " +
           (used ? std::to_string(used) + " idle queue(s) in use"
                 : std::string("no queue in use")),
       Bound::RatioAtMost,
       0.5,
       "ns",
       used && !canAskEmpty()
           ? "OpenCL: ext_oneapi_empty() reads the queue's last event without"
             " a lock, beside threads that submit"
           : ""},
      sides,
      {/*seconds=*/0.8, /*batch_us=*/200},
      need);
}

void synchronizing(const Options& options) {
  using namespace c10::xpu;
  makesNone(); // leaves one used queue of a pool
  // The high and the low pool hold queues that nobody has asked for.
  getStreamFromPool(-1);
  getStreamFromPool(1);
  synchronize(options, "sync.one", 1);
  for (const int priority : {-1, 0, 1}) {
    for (int i = 0; i < 32; ++i) {
      use(getStreamFromPool(priority).queue());
    }
  }
  synchronize(options, "sync.all", 96);
}

void emptyCache(const Options& options) {
  sycl::queue one = makeRawQueue();
  use(one);
  // Arenas of some streams, without anything in them.
  for (int i = 0; i < 8; ++i) {
    Allocator::raw_delete(
        Allocator::raw_alloc_with_stream(512, c10::xpu::getStreamFromPool()));
  }
  Allocator::emptyCache();
  compare(
      options,
      {"empty_cache", "emptyCache, nothing cached", Bound::RatioAtMost, 0.5},
      {{"emptyCache",
        [](size_t n) {
          for (; n != 0; --n) {
            Allocator::emptyCache();
          }
        }},
       {"wait() of one idle queue",
        [&one](size_t n) {
          for (; n != 0; --n) {
            one.wait();
          }
        }}},
      {/*seconds=*/0.5});
}

// ---- copies ----

void copies(
    const Options& options,
    const std::string& id,
    const std::string& size,
    size_t bytes,
    const Plan& plan) {
  if (!wanted(options, id)) {
    return;
  }
  const XPUStream stream = c10::xpu::getStreamFromPool();
  sycl::queue raw = makeRawQueue();
  const auto allocate = [bytes] {
    return std::shared_ptr<void>(
        sycl::malloc_device(bytes, rawDevice(), rawContext()),
        [](void* p) { sycl::free(p, rawContext()); });
  };
  const auto from = allocate();
  const auto to = allocate();
  raw.memset(from.get(), 1, bytes).wait();
  raw.memset(to.get(), 2, bytes).wait();
  std::vector<char> host_from(bytes, 1);
  std::vector<char> host_to(bytes, 2);
  compare(
      options,
      {id, "copy of " + size + " through a stream", Bound::RatioAtMost, 1.03},
      {{"stream.queue().memcpy().wait()",
        [&](size_t n) {
          for (; n != 0; --n) {
            stream.queue().memcpy(to.get(), from.get(), bytes).wait();
          }
        }},
       {"raw queue",
        [&](size_t n) {
          for (; n != 0; --n) {
            raw.memcpy(to.get(), from.get(), bytes).wait();
          }
        }},
       {"libc memcpy",
        [&](size_t n) {
          for (; n != 0; --n) {
            std::memcpy(host_to.data(), host_from.data(), bytes);
            sink(host_to.data());
          }
        }}},
      plan);
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  Allocator::init(c10::xpu::device_count_ensure_non_zero());
  synchronize(options, "sync.none", 0);
  synchronizing(options);
  emptyCache(options);
  copies(options, "copy.4k", "4 KiB", 4096, {/*seconds=*/2, /*batch_us=*/300});
  copies(
      options,
      "copy.256m",
      "256 MiB",
      size_t{256} << 20,
      {/*seconds=*/9, /*batch_us=*/0, /*batch=*/1});
  return 0;
}
