#pragma once

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>
#include <sycl/event.hpp>
#include <sycl/properties/queue_properties.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

/// SYCL without the runtime above it, on the runtime's device and context: the
/// floor must work on the same objects.

namespace bench {

inline sycl::device& rawDevice() {
  return c10::xpu::get_raw_device(0);
}

inline sycl::context& rawContext() {
  return c10::xpu::get_device_context();
}

/// A queue with the properties that a stream's queue has.
inline sycl::queue makeRawQueue() {
  namespace ext = sycl::ext::oneapi::property::queue;
  return sycl::queue(
      rawContext(),
      rawDevice(),
      {sycl::property::queue::in_order(), ext::priority_normal()});
}

inline bool isComplete(const sycl::event& event) {
  return event.get_info<sycl::info::event::command_execution_status>() ==
      sycl::info::event_command_status::complete;
}

/// Whether the backend lets a thread ask beside others whether a queue is
/// empty. Its adapter for OpenCL reads the queue's last event without a lock.
inline bool canAskEmpty() {
  return rawDevice().get_backend() != sycl::backend::opencl;
}

} // namespace bench
