#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/event.hpp>
#include <sycl/handler.hpp>
#include <sycl/properties/queue_properties.hpp>
#include <sycl/queue.hpp>

#include <cstdint>
#include <functional>
#include <ostream>
#include <tuple>

// Note [XPU streams]
// ~~~~~~~~~~~~~~~~~~
// A stream is a small value that names an in-order sycl::queue of a device.
// Work of one stream runs in the order of submission, even if several threads
// submit it. There is no order between streams unless an event makes one.
//
//   default   one per device. It is the current stream of every thread that has
//             not set another. Unlike CUDA's it does not synchronize with the
//             other streams.
//   pool      32 per device and priority, handed out in turn by
//             getStreamFromPool. The 33rd request gets the first stream again.
//   external  a queue that its owner made, see getStreamFromExternal.
//
// A queue is made when it is first used. It is never destroyed, not even when
// the process exits, since the SYCL runtime may be gone by then.
//
// Priorities: a lower number is a higher priority. 0 is the default, -1 is
// high, 1 is low. They become SYCL's queue priorities, which are hints.
//
// For errors of work that is already running see Note [Asynchronous errors].

namespace c10::xpu {

/// A stream in three plain integers, see XPUStream::pack3.
struct StreamData3 {
  StreamId stream_id;
  DeviceIndex device_index;
  DeviceType device_type;
};

/// A c10::Stream that is known to be an XPU stream.
class C10_XPU_API XPUStream {
 public:
  enum Unchecked { UNCHECKED };

  /// Raises for a stream of another device type; with UNCHECKED does not ask.
  explicit XPUStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(
        stream_.device_type() == kXPU,
        "An XPUStream was given ",
        stream_,
        ": the device of the stream must be an xpu device");
  }

  explicit XPUStream(Unchecked, Stream stream) : stream_(stream) {}

  bool operator==(const XPUStream& other) const noexcept {
    return stream_ == other.stream_;
  }
  bool operator!=(const XPUStream& other) const noexcept {
    return stream_ != other.stream_;
  }

  operator Stream() const {
    return stream_;
  }
  operator sycl::queue&() const {
    return queue();
  }

  DeviceType device_type() const {
    return kXPU;
  }
  DeviceIndex device_index() const {
    return stream_.device_index();
  }
  Device device() const {
    return Device(kXPU, device_index());
  }

  /// See Note [Stream id assignment]
  StreamId id() const {
    return stream_.id();
  }

  /// Whether all work submitted so far is complete. Then it raises the
  /// asynchronous errors of that work. Does not wait.
  bool query() const;

  /// Waits for all work submitted so far. Raises its asynchronous errors.
  void synchronize() const;

  /// -1 (high), 0 or 1 (low); of an external queue, what its properties say.
  int priority() const;

  /// The queue, to submit work to; it is made now if this is the stream's first
  /// use. query and synchronize take longer from then on, see
  /// Note [Work of a stream]. The reference stays valid until the process ends
  /// (an external queue's: as long as its owner keeps it). Raises if no stream
  /// has the id or the device.
  sycl::queue& queue() const;

  /// The queue's native stream, to launch on with the backend's own libraries:
  /// a CUstream on an NVIDIA device. What is launched there is work of this
  /// stream from now on, and query and synchronize take longer. Valid as the
  /// queue is. See Note [Native streams], and impl::nativeStream for other
  /// backends and what raises.
  void* native_stream() const;

  Stream unwrap() const {
    return stream_;
  }

  StreamData3 pack3() const noexcept {
    return {id(), device_index(), device_type()};
  }

  /// The stream that pack3 was called on. Raises for integers that name no
  /// stream, and for an external queue that no longer exists.
  static XPUStream unpack3(
      StreamId stream_id,
      DeviceIndex device_index,
      DeviceType device_type);

  /// The lowest and the highest priority: (1, -1).
  static std::tuple<int, int> priority_range() {
    return std::make_tuple(1, -1);
  }

 private:
  Stream stream_;
};

// In all functions below the device -1 stands for the current device.

/// The next stream of a pool. Thread-safe.
C10_XPU_API XPUStream
getStreamFromPool(const bool isHighPriority = false, DeviceIndex device = -1);

/// As above for any priority. A number below the highest priority (-1) means
/// the highest; one above the lowest (1) raises.
C10_XPU_API XPUStream
getStreamFromPool(const int priority, DeviceIndex device = -1);

/// A stream over a queue that another library made. The queue must be in order,
/// on the context of c10::xpu::get_device_context() (as sycl::queue(device) is)
/// and on the device of the given ordinal; anything else raises. The object
/// that `queue` points to must stay where it is as long as the stream is used;
/// the runtime does not keep it alive. Errors of its work go to the handler it
/// was made with, see Note [Asynchronous errors].
C10_XPU_API XPUStream
getStreamFromExternal(sycl::queue* queue, DeviceIndex device);

/// The default stream of a device.
C10_XPU_API XPUStream getDefaultXPUStream(DeviceIndex device = -1);

/// The calling thread's stream of a device: the default stream until it sets
/// another.
C10_XPU_API XPUStream getCurrentXPUStream(DeviceIndex device = -1);

/// Makes a stream the calling thread's stream of the stream's device. The
/// current device stays as it is.
C10_XPU_API void setCurrentXPUStream(XPUStream stream);

/// Waits for all work on all streams of a device, external ones included, and
/// raises their asynchronous errors. Makes no queue.
C10_XPU_API void syncStreamsOnDevice(DeviceIndex device = -1);

/// Prints as a c10::Stream does: "stream <id> on device xpu:<index>".
C10_XPU_API std::ostream& operator<<(std::ostream& stream, const XPUStream& s);

} // namespace c10::xpu

namespace std {
template <>
struct hash<c10::xpu::XPUStream> {
  size_t operator()(c10::xpu::XPUStream s) const noexcept {
    return std::hash<c10::Stream>{}(s.unwrap());
  }
};
} // namespace std
