#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/properties/queue_properties.hpp>
#include <sycl/queue.hpp>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <tuple>

/// Streams: in-order SYCL queues that are shared by all threads.
///
/// Note [XPU streams]
/// ~~~~~~~~~~~~~~~~~~
/// A stream is a small value that names an in-order sycl::queue of a device.
/// Work that is submitted to one stream runs in the order of submission, also
/// when several threads submit; between streams there is no order, unless an
/// event (at::xpu::XPUEvent) makes one. There are three kinds:
///
///   default   one per device, priority 0. It is the current stream of every
///             thread that has not set another. Unlike CUDA's it is an ordinary
///             stream: it does not synchronize with the others.
///   pool      32 per device and priority, handed out in turn by
///             getStreamFromPool. The 33rd request gets the queue of the first,
///             so that to ask for a stream costs nothing and many short-lived
///             streams are the way to use them.
///   external  a queue that its owner made, see getStreamFromExternal.
///
/// The queue of the default stream is made when it is first used, the 32 of a
/// pool when one of them is first asked for; all stay until the process ends.
/// They are not destroyed then: global variables may be destroyed after the
/// SYCL runtime was.
///
/// Priorities: a lower number is a higher priority. 0 is the default, -1 is
/// high, 1 is low. They become SYCL's queue priorities, which are hints; a
/// device that has none treats all alike.
///
/// Errors of work that already runs (asynchronous errors) are raised by the
/// next synchronize() of the stream, of an event recorded on it, or by
/// syncStreamsOnDevice, as one c10::Error that holds the text of all of them.
/// This does not hold for external queues: there the owner's handler gets them.

namespace c10 {
namespace xpu {

/// What XPUStream::pack3 gives: a stream in three plain integers.
struct StreamData3 {
  StreamId stream_id;
  DeviceIndex device_index;
  DeviceType device_type;
};

/// A c10::Stream that is known to be an XPU stream.
class C10_XPU_API XPUStream {
 public:
  enum Unchecked { UNCHECKED };

  /// Raises for a stream of another device type.
  explicit XPUStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(
        stream_.device_type() == kXPU,
        "An XPUStream was given ",
        stream_,
        ": the device of the stream must be an xpu device");
  }

  /// For a stream that is known to be an XPU stream.
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

  /// Whether all work submitted so far is complete. Does not wait, and does
  /// not raise errors of that work: see synchronize.
  bool query() const;

  /// Waits for all work submitted so far. Raises its asynchronous errors.
  void synchronize() const;

  /// -1 (high), 0 or 1 (low); of an external queue, what its properties say.
  int priority() const;

  /// The queue; it is made now if this is the stream's first use. The reference
  /// stays valid until the process ends (an external queue's: as long as its
  /// owner keeps it). Raises if the id or the device is no stream's.
  sycl::queue& queue() const;

  Stream unwrap() const {
    return stream_;
  }

  StreamData3 pack3() const noexcept {
    return {id(), device_index(), device_type()};
  }

  /// The stream that pack3 was called on. Raises for what pack3 never gave: a
  /// device type other than kXPU, a device index out of range, an id that is
  /// of no kind, or that of an external queue which is not registered.
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

/// A stream of the pool of a priority, in turn. -1 stands for the current
/// device. Thread-safe.
C10_XPU_API XPUStream
getStreamFromPool(const bool isHighPriority = false, DeviceIndex device = -1);

/// As above for any priority. A number below the highest priority (-1) means
/// the highest; one above the lowest (1) raises.
C10_XPU_API XPUStream
getStreamFromPool(const int priority, DeviceIndex device = -1);

/// A stream over a queue that somebody else made. The queue must be in order,
/// on the context of c10::xpu::get_device_context() and on the device of the
/// given ordinal; anything else raises. The queue and the object that `queue`
/// points to must stay where they are as long as the stream is used; the
/// runtime holds no reference of its own, so that a queue destroyed by its
/// owner is destroyed. -1 stands for the current device.
C10_XPU_API XPUStream
getStreamFromExternal(sycl::queue* queue, DeviceIndex device);

namespace impl {

// What the inline functions below read. It is in the header since a call into
// the library would cost more than they do.

/// The ids of the thread's current streams, one per device; null as long as all
/// are the default stream, whose id is 0. See thread_device for the attributes.
extern C10_XPU_API __thread StreamId* thread_streams
    __attribute__((tls_model("initial-exec")));

/// Makes thread_streams for this thread. No device is an error.
C10_XPU_API StreamId* make_thread_streams();

/// The device an argument means: -1 stands for the current one.
inline DeviceIndex device_or_current(DeviceIndex device) {
  if (device == -1) {
    return current_device();
  }
  check_device_index(device);
  return device;
}

inline XPUStream make_stream(DeviceIndex device, StreamId id) {
  return XPUStream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device), id));
}

} // namespace impl

/// The default stream of a device. -1 stands for the current device.
inline XPUStream getDefaultXPUStream(DeviceIndex device = -1) {
  return impl::make_stream(impl::device_or_current(device), 0);
}

/// The calling thread's stream of a device: the default stream until it sets
/// another. -1 stands for the current device.
inline XPUStream getCurrentXPUStream(DeviceIndex device = -1) {
  device = impl::device_or_current(device);
  const StreamId* ids = impl::thread_streams;
  return impl::make_stream(device, C10_UNLIKELY(!ids) ? 0 : ids[device]);
}

/// Makes a stream the calling thread's stream of the stream's device. The
/// current device stays as it is.
inline void setCurrentXPUStream(XPUStream stream) {
  const DeviceIndex device = stream.device_index();
  check_device_index(device);
  StreamId* ids = impl::thread_streams;
  if (C10_UNLIKELY(!ids)) {
    ids = impl::make_thread_streams();
  }
  ids[device] = stream.id();
}

/// Waits for all work on all streams of a device, external ones included, and
/// raises their asynchronous errors. Makes no queue. -1 stands for the current
/// device.
C10_XPU_API void syncStreamsOnDevice(DeviceIndex device = -1);

/// Prints as a c10::Stream does: "stream <id> on device xpu:<index>".
C10_XPU_API std::ostream& operator<<(std::ostream& stream, const XPUStream& s);

} // namespace xpu
} // namespace c10

namespace std {
template <>
struct hash<c10::xpu::XPUStream> {
  size_t operator()(c10::xpu::XPUStream s) const noexcept {
    return c10::hash_combine(
        std::hash<c10::StreamId>{}(s.id()), s.device_index());
  }
};
} // namespace std
