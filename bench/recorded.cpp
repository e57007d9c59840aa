// Device memory of the cache that another stream uses, beside the barrier which
// tells when that is over.

#include "Harness.h"
#include "Raw.h"
#include "Trace.h"

#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <string>
#include <vector>

namespace {

using namespace bench;
using c10::xpu::XPUStream;
namespace Allocator = c10::xpu::XPUCachingAllocator;

/// Gives a queue work that outlasts a batch.
class Load {
 public:
  explicit Load(sycl::queue& queue) : queue_(queue) {
    for (auto& end : ends_) {
      end = sycl::malloc_device(kBytes, rawDevice(), rawContext());
    }
  }
  ~Load() {
    for (auto* end : ends_) {
      sycl::free(end, rawContext());
    }
  }

  void begin() {
    for (size_t i = 0; i < copies_; ++i) {
      last_ = queue_.memcpy(ends_[0], ends_[1], kBytes);
    }
  }
  void finish() {
    if (isComplete(last_)) {
      copies_ *= 2; // it did not outlast this batch, but will the next ones
    }
    queue_.wait();
  }

 private:
  // Few enough for the device to copy them with one of its threads.
  static constexpr size_t kBytes = 16384;

  sycl::queue& queue_;
  void* ends_[2];
  size_t copies_ = 128;
  sycl::event last_;
};

/// A block is allocated, recorded on another stream, and freed; beside the
/// barrier on that stream which tells when it is no longer in use. Small blocks
/// share barriers; one of 64 MiB has one of its own, since it should not be
/// held back for longer than it must.
class OtherStream {
 public:
  explicit OtherStream(size_t bytes) : bytes_(bytes) {}

  Side ours() {
    return {"allocate, recordStream, free", [this](size_t n) {
              for (; n != 0; --n) {
                const c10::DataPtr block = Allocator::get()->allocate(bytes_);
                Allocator::recordStream(block, other);
              }
            }};
  }
  Side barrier() {
    return {"raw barrier", [this](size_t n) {
              for (; n != 0; --n) {
                sink(raw.ext_oneapi_submit_barrier());
              }
            }};
  }
  /// The least that tells that the block is free again.
  Side asked() {
    return {
        "a hit, and a raw barrier that is asked whether it is complete",
        [this](size_t n) {
          for (; n != 0; --n) {
            sink(Allocator::get()->allocate(bytes_).get());
            sink(isComplete(raw.ext_oneapi_submit_barrier()));
          }
        }};
  }
  /// The least where it is not free yet: the event is kept, and asked for once
  /// when it is complete, after this batch.
  Side kept() {
    return {"raw barrier, its event kept and asked once", [this](size_t n) {
              for (const auto& event : events_) {
                sink(isComplete(event));
              }
              events_.clear();
              for (; n != 0; --n) {
                events_.push_back(raw_kept.ext_oneapi_submit_barrier());
              }
            }};
  }

  const XPUStream other = c10::xpu::getStreamFromPool();
  sycl::queue raw = makeRawQueue();
  sycl::queue raw_kept = makeRawQueue();

 private:
  const size_t bytes_;
  std::vector<sycl::event> events_;
};

void recorded(const Options& options, size_t bytes) {
  OtherStream sides(bytes);
  sides.ours().run(64); // as many blocks as are held back at once
  const std::string name = "allocator.recorded.";
  const std::string title =
      "allocate and free " + sizeName(bytes) + " with use on another stream";
  const std::string size = "." + std::to_string(bytes);
  compare(
      options,
      {name + "idle" + size,
       title + ", which is idle",
       Bound::RatioAtMost,
       1.1},
      {sides.ours(), sides.barrier(), sides.asked()},
      {/*seconds=*/2},
      /*need=*/2);

  const auto busy = [](Side side, Load& load) {
    side.before = [&load](size_t) { load.begin(); };
    side.after = [&load](size_t) { load.finish(); };
    return side;
  };
  Load load(sides.other.queue());
  Load raw_load(sides.raw);
  Load kept_load(sides.raw_kept);
  // A large block that is held back is memory that is gone for a while.
  if (bytes <= (size_t{1} << 20)) {
    compare(
        options,
        {name + "busy" + size,
         title + ", which is busy",
         Bound::RatioAtMost,
         1.1},
        {busy(sides.ours(), load),
         busy(sides.barrier(), raw_load),
         busy(sides.kept(), kept_load)},
        {/*seconds=*/3, /*batch_us=*/0, /*batch=*/64},
        /*need=*/2);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv, nullptr);
  Allocator::init(c10::xpu::device_count_ensure_non_zero());
  recorded(options, 4096);
  recorded(options, size_t{1} << 20);
  recorded(options, size_t{64} << 20);
  return 0;
}
