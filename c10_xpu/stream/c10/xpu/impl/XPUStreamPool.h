#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/Optional.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace c10 {
namespace xpu {
namespace impl {

// Note [Stream id assignment]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A stream id names the queue: what kind of stream, and which one.
//
//    63                               9 8       4 3       1   0
//   +----------------------------------+---------+---------+---+
//   | 0                                | 0       | 0       | 0 |  default
//   +----------------------------------+---------+---------+---+
//   | 0                                | index   |priority | 1 |  pool
//   +----------------------------------+---------+---------+---+
//   | address of the sycl::queue, of which bits 0..2 are 0     |  external
//   +----------------------------------------------------------+
//
//   index     0..31, the place in the pool
//   priority  0: normal (0), 1: high (-1), 2: low (1); 3..7 are not used
//
// Id 0 must be the default stream, which c10::Stream promises. A sycl::queue
// holds a pointer and is aligned accordingly, hence bit 0 tells the pool from
// an address. Ids are not negative: user space ends below bit 63. Every other
// number is no stream's, and decodeStreamId says so.
//
// The device is not part of the id: c10::Stream has it.

constexpr int kStreamsPerPoolBits = 5;
constexpr int kStreamsPerPool = 1 << kStreamsPerPoolBits;
constexpr int kNumPriorities = 3;
constexpr int kLowestPriority = 1;
constexpr int kHighestPriority = -1;

enum class StreamKind : uint8_t { Default, Pool, External };

struct StreamIdParts {
  StreamKind kind;
  int priority; // of a pool stream
  int index; // of a pool stream
};

/// Nothing for a number that is no stream's id. An address is not looked at.
optional<StreamIdParts> decodeStreamId(StreamId id);
StreamId poolStreamId(int priority, int index);

// Note [Asking whether a stream is idle]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_empty() answers this in 50 ns, and on OpenCL it must not be
// used: the adapter reads the queue's last event without a lock, and another
// thread that submits to the queue at that time releases it. With the runtime
// 2026.2 two submitting threads beside one that asks end in INVALID_EVENT or a
// segmentation fault within a second. Threads do share streams.
//
// On OpenCL a stream is asked by a marker instead: a barrier, whose event tells
// when everything before it is done. On an idle queue it is complete when the
// call returns. On a busy one it is kept, and while it is pending the answer is
// known to be no: who polls a stream adds one barrier to it and not thousands.
//
//                 ext_oneapi_empty()   marker    wait()
//   idle stream   0.05 us (unsafe)     0.9 us    1.1 us
//   busy stream   0.05 us (unsafe)     0.07 us   -
//
// syncStreamsOnDevice asks first as well, since a marker is cheaper than a
// wait() where there is nothing to wait for; and only those queues that
// somebody has asked for: the others cannot have work.

/// One stream's pending marker. See Note [Asking whether a stream is idle]
struct Marker {
  std::mutex mutex;
  optional<sycl::event> pending;
};

/// Whether ext_oneapi_empty() may be called beside threads that submit.
bool canAskEmpty(const sycl::queue& queue);

/// A stream's queue and what belongs to it.
struct StreamQueue {
  explicit StreamQueue(sycl::queue q) : queue(std::move(q)) {}

  sycl::queue queue;
  Marker marker;
};

/// The queue of a stream, made if it is not there yet. From now on the stream
/// counts as used: somebody may submit to the queue at any time.
sycl::queue& useQueue(DeviceIndex device, StreamId id);

/// The queue of a stream, or null where nobody has had it yet, so that it
/// cannot have work.
sycl::queue* findUsedQueue(DeviceIndex device, StreamId id);

/// Whether a stream has no work. Thread-safe.
bool isIdle(DeviceIndex device, StreamId id);

/// The next index of a pool, round-robin. Makes the pool's queues at first.
int nextPoolIndex(DeviceIndex device, int priority);

/// Calls `visit` for the queue of each default or pool stream that is used.
void forEachUsedQueue(
    DeviceIndex device,
    function_ref<void(sycl::queue&)> visit);

/// Remembers an external queue, without keeping it alive.
void addExternalQueue(DeviceIndex device, const sycl::queue& queue);
bool isExternalQueue(DeviceIndex device, StreamId id);
/// The external queues of a device that still exist.
std::vector<sycl::queue> externalQueues(DeviceIndex device);

} // namespace impl
} // namespace xpu
} // namespace c10
