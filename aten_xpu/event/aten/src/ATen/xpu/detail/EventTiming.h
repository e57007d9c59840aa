#pragma once

#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>

namespace at {
namespace xpu {
namespace detail {

// Note [Timing of events]
// ~~~~~~~~~~~~~~~~~~~~~~~
// In SYCL a command has a time if its queue was made with enable_profiling.
// That makes every command of the queue slower (a barrier on the CPU device
// takes 1.5 us instead of 0.8 us), and the queue must be made before anybody
// knows whether its events will be timed. So streams are made without it, and
// a timed record takes its time in one of three ways:
//
//   own queue   An external queue that has profiling: its barrier has a time.
//   tag         A device with ext_oneapi_queue_profiling_tag: the tag is one
//               command on the stream, needs no profiling and has a time.
//   companion   Elsewhere, on the CPU device for one: the stream gets a second
//               in-order queue that has profiling. A record submits a barrier
//               to the stream, as if untimed, and then one to the companion
//               that waits for the first. The end of that one is the time.
//
// An event is complete when the stream's own barrier is. What waits for it, a
// stream in block() or a thread in synchronize(), waits for its time as well:
// the time comes some 20 us after the barrier, by more when the machine is
// busy, and an event that follows another, on whichever stream, would else be
// taken for the earlier one. A timed record costs 2.6 us on the CPU device (0.8
// us for one barrier, 1.8 us for one with profiling that waits for an event of
// another queue); an untimed one costs what the bare barrier costs. The delay
// of the time is alike for all events, so that it cancels from the difference
// up to its jitter.
//
// Each timed stream has a companion of its own. With one per device the events
// of all streams would be complete in the order of their records: an event on
// an idle stream would wait for the busy ones, and hang where what they do
// depends on it. An out-of-order queue is no way out, since a barrier there
// also holds up the barriers after it.
//
// The stream's barrier being complete, the companion's is about to be: all that
// it can still wait for are earlier barriers of the same stream. Therefore
// elapsed_time waits for it, and nobody else needs to know of companions: after
// a synchronization of the stream or the device a time can be taken.

/// What a timed record leaves in a stream.
struct TimedEvent {
  /// Complete when the work before the record is.
  sycl::event event;
  /// Has the time at which that was the case, once it is complete itself.
  sycl::event time;
};

TimedEvent submitTimedEvent(const c10::xpu::XPUStream& stream);

} // namespace detail
} // namespace xpu
} // namespace at
