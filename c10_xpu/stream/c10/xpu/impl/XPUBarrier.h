#pragma once

#include <c10/xpu/XPUMacros.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace c10 {
namespace xpu {
namespace impl {

// Note [Waiting for an event without blocking the host]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// queue::ext_oneapi_submit_barrier({event}) needs the backend's handle of the
// event. An event that depends on a host task has none before the host task is
// done, and then the call waits for the host task: the thread that submits
// stands still, and for ever if it is the one that lets the host task go on.
//
// A barrier in a command group that depends on the event does not wait: such a
// barrier stays in SYCL's own graph until the event has its handle. But it
// takes 2.2 us instead of 1.1 us. Which one is needed shows in the event's wait
// list: it is empty unless something keeps the event in SYCL's graph.
//
// To ask for the list takes 20 ns, and a vector for the call 15 ns; both
// together are more than a twentieth of the barrier. So an event that is waited
// for is kept in the vector that the call wants, and asked until the list has
// been empty once: a handle stays.

/// An event that queues are told to wait for. Any number of threads may do so
/// at once; none may while the event is replaced.
class C10_XPU_API AwaitedEvent {
 public:
  explicit AwaitedEvent(sycl::event event) {
    events_.push_back(std::move(event));
  }

  sycl::event& get() {
    return events_.front();
  }

  void replace(sycl::event event) {
    get() = std::move(event);
    has_handle_.store(false, std::memory_order_relaxed);
  }

  /// Lets what is submitted to an in-order queue from now on wait for the
  /// event, and returns the event of the barrier that does so. Never waits
  /// itself. Errors of SYCL raise.
  sycl::event submitBarrierTo(sycl::queue& queue);

 private:
  std::vector<sycl::event> events_; // one
  std::atomic<bool> has_handle_{false};
};

// Note [What the host has seen complete]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Whoever holds something back until work is complete (the allocators do) would
// like to ask seldom, since to ask costs more than what they do otherwise. But
// a program that has waited for its work expects to have its memory back. So
// each call of this library that waits for work, or finds it complete, counts
// here; as long as the count is the same, nobody knows of anything new. (Who
// waits for a sycl::queue or sycl::event itself does not count: his memory is
// found to be free a little later.)

extern C10_XPU_API std::atomic<uint64_t> seen_complete;

inline void countComplete() {
  seen_complete.fetch_add(1, std::memory_order_relaxed);
}

/// Whether the command of an event is complete. Errors of SYCL raise.
C10_XPU_API bool isComplete(const sycl::event& event);

} // namespace impl
} // namespace xpu
} // namespace c10
