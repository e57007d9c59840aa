#pragma once

#include <c10/core/Device.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>

#include <functional>
#include <memory>

namespace at {
namespace xpu {

namespace detail {
struct EventState;
} // namespace detail

/// A point in the work of a stream, which the host or other streams can wait
/// for and of which the time can be taken.
///
/// It is created by its first record and belongs to the device of that stream
/// from then on. A further record moves it; what was told to wait for the
/// former point still waits for that. Before the first record it counts as
/// complete: query is true, block and synchronize do nothing.
///
/// Movable, not copyable. A moved-from event is as new. It may be destroyed
/// while work still waits for it. Different threads may use different events
/// and streams; one event must not be recorded while another thread uses it.
///
/// An event exists in one process only: there is no handle by which another
/// process could open it.
class C10_EXPORT XPUEvent {
 public:
  /// `enable_timing` allows elapsed_time and makes record slower, see
  /// Note [Timing of events].
  explicit XPUEvent(bool enable_timing = false) noexcept;
  ~XPUEvent();

  XPUEvent(XPUEvent&& other) noexcept;
  XPUEvent& operator=(XPUEvent&& other) noexcept;
  XPUEvent(const XPUEvent&) = delete;
  XPUEvent& operator=(const XPUEvent&) = delete;

  operator sycl::event&() const {
    return event();
  }

  /// Any order, for use in sets.
  friend bool operator<(const XPUEvent& left, const XPUEvent& right) {
    return std::less<>()(left.state_.get(), right.state_.get());
  }

  /// Whether it was recorded.
  bool isCreated() const noexcept {
    return state_ != nullptr;
  }

  /// The device of the first record; nothing before that.
  c10::optional<c10::Device> device() const;

  /// As device; -1 before the first record.
  c10::DeviceIndex device_index() const noexcept;

  /// The event of the last record. Raises before the first.
  sycl::event& event() const;

  /// Whether all work before the last record is complete; true before any
  /// record. Does not wait.
  bool query() const;

  /// Records on the current stream of the current device.
  void record();

  /// Records after all work that was submitted to the stream so far. Raises
  /// for a stream of another device than that of the first record. If it
  /// raises, the event is as before.
  void record(const c10::xpu::XPUStream& stream);

  /// As record, if it was not recorded yet.
  void recordOnce(const c10::xpu::XPUStream& stream);

  /// Lets work that is submitted to the stream from now on wait for this
  /// event. The stream may be of another device. Does not wait itself.
  void block(const c10::xpu::XPUStream& stream) const;

  /// Waits until the event is complete. Raises asynchronous errors, see
  /// Note [XPU streams].
  void synchronize() const;

  /// The milliseconds from this event to the other, negative if the other was
  /// first. Both must be recorded, on the same device, complete, and made with
  /// enable_timing; each violation raises.
  double elapsed_time(const XPUEvent& other) const;

 private:
  bool enable_timing_;
  // Null before the first record. On the heap, so that its address is the name
  // of the event for the trace hooks, also after a move.
  std::unique_ptr<detail::EventState> state_;
};

} // namespace xpu
} // namespace at
