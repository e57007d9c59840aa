#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/InlineDeviceGuard.h>
#include <c10/core/impl/InlineStreamGuard.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Optional.h>
#include <c10/util/SmallVector.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUGuardImpl.h>

namespace c10 {
namespace xpu {

// RAII guards for the current XPU device and the current XPU streams of a
// thread. They do what DeviceGuard, StreamGuard and their optional and multi
// variants do, for code that links against XPU: without virtual calls, with
// device indices accepted as they are, and with XPUStream results.
//
// Common to all of them:
//  - Not default constructible (except the optional ones), not copyable, not
//    movable; see Note [Omitted default constructor from RAII] and
//    Note [Move construction for RAII guards is tricky].
//  - A device of another type, an index out of range or a stream of another
//    device type raises c10::Error and leaves the thread's state as it was.
//  - The index -1 stands for the device that is current already.
//  - They must be destroyed by the thread that made them, in reverse order.

/// Sets the current device and restores the former one at the end.
struct XPUGuard {
  explicit XPUGuard() = delete;
  explicit XPUGuard(DeviceIndex device_index) : guard_(device_index) {}
  explicit XPUGuard(Device device) : guard_(device) {}

  XPUGuard(const XPUGuard&) = delete;
  XPUGuard& operator=(const XPUGuard&) = delete;
  XPUGuard(XPUGuard&&) = delete;
  XPUGuard& operator=(XPUGuard&&) = delete;

  /// Changes the current device again. The device that will be restored stays
  /// that of the construction.
  void set_device(Device device) {
    guard_.set_device(device);
  }

  /// The same as set_device, under the name that DeviceGuard has for it.
  void reset_device(Device device) {
    guard_.reset_device(device);
  }

  /// The same as set_device, for an index.
  void set_index(DeviceIndex device_index) {
    guard_.set_index(device_index);
  }

  /// The device that the destructor restores.
  Device original_device() const {
    return guard_.original_device();
  }

  /// The device that this guard set last.
  Device current_device() const {
    return guard_.current_device();
  }

 private:
  c10::impl::InlineDeviceGuard<impl::XPUGuardImpl> guard_;
};

/// An XPUGuard that may be empty; while empty it does nothing.
struct OptionalXPUGuard {
  explicit OptionalXPUGuard() = default;
  explicit OptionalXPUGuard(optional<Device> device) : guard_(device) {}
  explicit OptionalXPUGuard(optional<DeviceIndex> device_index)
      : guard_(device_index) {}

  OptionalXPUGuard(const OptionalXPUGuard&) = delete;
  OptionalXPUGuard& operator=(const OptionalXPUGuard&) = delete;
  OptionalXPUGuard(OptionalXPUGuard&&) = delete;
  OptionalXPUGuard& operator=(OptionalXPUGuard&&) = delete;

  /// Changes the current device; an empty guard first remembers the present
  /// one as the device to restore.
  void set_device(Device device) {
    guard_.set_device(device);
  }

  /// The same as set_device.
  void reset_device(Device device) {
    guard_.reset_device(device);
  }

  /// The same as set_device, for an index.
  void set_index(DeviceIndex device_index) {
    guard_.set_index(device_index);
  }

  /// The device that will be restored; nullopt while the guard is empty.
  optional<Device> original_device() const {
    return guard_.original_device();
  }

  /// The device that this guard set last; nullopt while the guard is empty.
  optional<Device> current_device() const {
    return guard_.current_device();
  }

  /// Restores the original device now and leaves the guard empty.
  void reset() {
    guard_.reset();
  }

 private:
  c10::impl::InlineOptionalDeviceGuard<impl::XPUGuardImpl> guard_;
};

/// Makes the stream's device the current device and the stream the current
/// stream of that device, and restores both at the end.
//
// InlineStreamGuard would do, but it asks for the current stream three times in
// the life of a guard where one answer is enough on the usual path, on which
// the stream is one of the current device. That is half of the guard's cost.
struct XPUStreamGuard {
  explicit XPUStreamGuard() = delete;
  explicit XPUStreamGuard(Stream stream)
      : device_guard_(stream.device()),
        original_stream_(getCurrentXPUStream(original_device().index())),
        replaced_stream_(
            stream.device() == original_device()
                ? original_stream_
                : getCurrentXPUStream(stream.device_index())),
        current_stream_(XPUStream::UNCHECKED, stream) {
    setCurrentXPUStream(current_stream_);
  }

  XPUStreamGuard(const XPUStreamGuard&) = delete;
  XPUStreamGuard& operator=(const XPUStreamGuard&) = delete;
  XPUStreamGuard(XPUStreamGuard&&) = delete;
  XPUStreamGuard& operator=(XPUStreamGuard&&) = delete;

  // Cannot raise: the device of this stream was valid in the constructor.
  ~XPUStreamGuard() {
    setCurrentXPUStream(replaced_stream_);
  }

  /// Takes back what this guard set and sets `stream` and its device instead.
  /// A guard holds one stream at a time: to have the streams of several
  /// devices set at once use XPUMultiStreamGuard.
  void reset_stream(Stream stream) {
    if (stream.device() != current_device()) {
      // First what may raise.
      device_guard_.reset_device(stream.device());
      setCurrentXPUStream(replaced_stream_);
      replaced_stream_ = getCurrentXPUStream(stream.device_index());
    }
    current_stream_ = XPUStream(XPUStream::UNCHECKED, stream);
    setCurrentXPUStream(current_stream_);
  }

  /// The stream that was current, on the device that was current, when the
  /// guard was made.
  XPUStream original_stream() const {
    return original_stream_;
  }

  /// The stream that this guard set last.
  XPUStream current_stream() const {
    return current_stream_;
  }

  /// The device of current_stream().
  Device current_device() const {
    return device_guard_.current_device();
  }

  /// The device that the destructor restores.
  Device original_device() const {
    return device_guard_.original_device();
  }

 private:
  c10::impl::InlineDeviceGuard<impl::XPUGuardImpl> device_guard_;
  XPUStream original_stream_;
  // The former stream of the device of current_stream_.
  XPUStream replaced_stream_;
  XPUStream current_stream_;
};

/// An XPUStreamGuard that may be empty; while empty it does nothing.
struct OptionalXPUStreamGuard {
  explicit OptionalXPUStreamGuard() = default;
  explicit OptionalXPUStreamGuard(Stream stream) {
    guard_.emplace(stream);
  }
  explicit OptionalXPUStreamGuard(optional<Stream> stream) {
    if (stream.has_value()) {
      guard_.emplace(*stream);
    }
  }

  OptionalXPUStreamGuard(const OptionalXPUStreamGuard&) = delete;
  OptionalXPUStreamGuard& operator=(const OptionalXPUStreamGuard&) = delete;
  OptionalXPUStreamGuard(OptionalXPUStreamGuard&&) = delete;
  OptionalXPUStreamGuard& operator=(OptionalXPUStreamGuard&&) = delete;

  /// As XPUStreamGuard::reset_stream; an empty guard becomes a full one.
  void reset_stream(Stream stream) {
    if (guard_.has_value()) {
      guard_->reset_stream(stream);
    } else {
      guard_.emplace(stream);
    }
  }

  /// See XPUStreamGuard::original_stream; nullopt while the guard is empty.
  optional<XPUStream> original_stream() const {
    if (!guard_.has_value()) {
      return nullopt;
    }
    return guard_->original_stream();
  }

  /// The stream that this guard set last; nullopt while the guard is empty.
  optional<XPUStream> current_stream() const {
    if (!guard_.has_value()) {
      return nullopt;
    }
    return guard_->current_stream();
  }

  /// Restores the original device and stream now and leaves the guard empty.
  void reset() {
    guard_.reset();
  }

 private:
  optional<XPUStreamGuard> guard_;
};

/// Makes each stream the current stream of its device and restores the former
/// streams at the end. The current device is not changed. Of several streams
/// of one device the last one is current while the guard lives.
struct XPUMultiStreamGuard {
  explicit XPUMultiStreamGuard(ArrayRef<XPUStream> streams) {
    original_streams_.reserve(streams.size());
    for (const XPUStream& stream : streams) {
      original_streams_.push_back(impl_.exchangeStream(stream.unwrap()));
    }
  }

  XPUMultiStreamGuard(const XPUMultiStreamGuard&) = delete;
  XPUMultiStreamGuard& operator=(const XPUMultiStreamGuard&) = delete;
  XPUMultiStreamGuard(XPUMultiStreamGuard&&) = delete;
  XPUMultiStreamGuard& operator=(XPUMultiStreamGuard&&) = delete;

  // In reverse, which InlineMultiStreamGuard does not do: only so is the
  // original stream of a device that occurs twice the one that stays.
  ~XPUMultiStreamGuard() {
    while (!original_streams_.empty()) {
      impl_.exchangeStream(original_streams_.pop_back_val());
    }
  }

 private:
  impl::XPUGuardImpl impl_;
  // Most machines have few devices: no allocation for up to four of them.
  SmallVector<Stream, 4> original_streams_;
};

} // namespace xpu
} // namespace c10
