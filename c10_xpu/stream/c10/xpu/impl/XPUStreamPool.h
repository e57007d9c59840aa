#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/queue.hpp>

namespace c10::xpu::impl {

// Note [Stream id assignment]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
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
// c10::Stream requires that id 0 is the default stream. Any other number is not
// a stream. The device is not part of the id: c10::Stream has it.

C10_XPU_API bool isExternalStream(StreamId id);

/// The queue of a stream, made if it is not there yet.
C10_XPU_API sycl::queue& useQueue(DeviceIndex device, StreamId id);

/// The queue of a stream, or null where it has not been made, so that it cannot
/// have work.
C10_XPU_API sycl::queue* findUsedQueue(DeviceIndex device, StreamId id);

/// Whether a stream has no work. Thread-safe. Does not wait.
C10_XPU_API bool isIdle(DeviceIndex device, StreamId id);

/// Makes a stream the calling thread's stream of its device and returns the id
/// of the former. Checks nothing, so that a guard's destructor can call it in a
/// forked child too.
C10_XPU_API StreamId
exchangeThreadStream(DeviceIndex device, StreamId id) noexcept;

} // namespace c10::xpu::impl
