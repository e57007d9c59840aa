#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

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

/// The queue of a stream, or null where it has not been made, so that it cannot
/// have work. For the sources of libc10_xpu; not exported.
sycl::queue* findUsedQueue(DeviceIndex device, StreamId id);

/// Whether the native stream of a stream was handed out. Not exported, either.
bool hasNativeWork(DeviceIndex device, StreamId id);

/// Whether a SYCL graph records what is submitted to the stream now.
C10_XPU_API bool isRecording(const XPUStream& stream);

/// Makes a stream the calling thread's stream of its device and returns the id
/// of the former. Checks nothing, so that it works in a forked child too.
C10_XPU_API StreamId
exchangeThreadStream(DeviceIndex device, StreamId id) noexcept;

} // namespace c10::xpu::impl
