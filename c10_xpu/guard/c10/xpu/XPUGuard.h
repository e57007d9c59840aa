#pragma once

#include <c10/core/impl/InlineDeviceGuard.h>
#include <c10/core/impl/InlineStreamGuard.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUGuardImpl.h>

#include <vector>

namespace c10::xpu {

// RAII guards for the current XPU device and the current XPU streams of a
// thread, for code that links against XPU: as DeviceGuard, StreamGuard and
// their variants, but without virtual calls, with device indices accepted as
// they are and with XPUStream results. The members are those of the templates
// that they derive from.
//
//  - A device of another type or an index out of range raises c10::Error. If
//    the constructor raises, the thread's state is as it was.
//  - The index -1 stands for the device that is current already.
//  - They cannot be copied or moved, and must be destroyed by the thread that
//    made them, in reverse order.

/// Sets the current device and restores the former one at the end.
struct XPUGuard final : c10::impl::InlineDeviceGuard<impl::XPUGuardImpl> {
  using InlineDeviceGuard::InlineDeviceGuard;
};

/// An XPUGuard that may be empty; while empty it does nothing.
struct OptionalXPUGuard final
    : c10::impl::InlineOptionalDeviceGuard<impl::XPUGuardImpl> {
  using InlineOptionalDeviceGuard::InlineOptionalDeviceGuard;
};

/// Makes the stream's device the current device and the stream the current
/// stream of that device, and restores both at the end.
struct XPUStreamGuard final : c10::impl::InlineStreamGuard<impl::XPUGuardImpl> {
  using InlineStreamGuard::InlineStreamGuard;

  /// The stream that was current, on the device that was current, when the
  /// guard was made.
  XPUStream original_stream() const {
    return XPUStream(
        XPUStream::UNCHECKED, InlineStreamGuard::original_stream());
  }

  /// The stream that this guard set last.
  XPUStream current_stream() const {
    return XPUStream(XPUStream::UNCHECKED, InlineStreamGuard::current_stream());
  }
};

/// An XPUStreamGuard that may be empty; while empty it does nothing.
struct OptionalXPUStreamGuard final
    : c10::impl::InlineOptionalStreamGuard<impl::XPUGuardImpl> {
  using InlineOptionalStreamGuard::InlineOptionalStreamGuard;

  /// As XPUStreamGuard::original_stream; nullopt while the guard is empty.
  optional<XPUStream> original_stream() const {
    return asXPU(InlineOptionalStreamGuard::original_stream());
  }

  /// The stream that this guard set last; nullopt while the guard is empty.
  optional<XPUStream> current_stream() const {
    return asXPU(InlineOptionalStreamGuard::current_stream());
  }

 private:
  static optional<XPUStream> asXPU(optional<Stream> stream) {
    return stream ? make_optional(XPUStream(*stream)) : nullopt;
  }
};

/// Makes each stream the current stream of its device and restores the former
/// streams at the end. The current device is not changed. Give at most one
/// stream of each device.
struct XPUMultiStreamGuard final
    : c10::impl::InlineMultiStreamGuard<impl::XPUGuardImpl> {
  explicit XPUMultiStreamGuard(ArrayRef<XPUStream> streams)
      : InlineMultiStreamGuard(
            std::vector<Stream>(streams.begin(), streams.end())) {}
};

} // namespace c10::xpu
