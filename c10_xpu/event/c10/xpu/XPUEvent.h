#pragma once

#include <c10/core/Device.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/event.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace c10::xpu {

/// A point in the work of a stream, which the host or other streams can wait
/// for and of which the time can be taken. The counterpart of CUDAEvent.
///
/// It belongs to the device of its first record. A further record moves it;
/// what already waits for the previous point still does. Before the
/// first record it counts as complete: query is true, block and synchronize do
/// nothing.
///
/// Movable, not copyable; a moved-from event is like new. It may be destroyed
/// while work still waits for it. Several threads may use one event, except
/// to move or destroy it; a record does not wait for another's synchronize.
///
/// Events are not shared between processes. A forked child can only destroy
/// those of its parent.
class C10_XPU_API XPUEvent {
 public:
  /// `enable_timing` allows elapsed_time and makes record slower, see
  /// Note [Timing of events].
  explicit XPUEvent(bool enable_timing = false) noexcept
      : enable_timing_(enable_timing) {}
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
    return left.name_ < right.name_;
  }

  /// Whether it was recorded.
  bool isCreated() const noexcept {
    return device_index() != -1;
  }

  /// The device of the first record; nothing before that.
  optional<Device> device() const {
    return isCreated() ? make_optional(Device(kXPU, device_index())) : nullopt;
  }

  /// As device; -1 before the first record.
  DeviceIndex device_index() const noexcept {
    return device_index_.load(std::memory_order_acquire);
  }

  /// The event of the last record, valid until the next. Raises before the
  /// first.
  sycl::event& event() const;

  /// Whether all work before the last record is complete; true before any
  /// record. Then it raises what synchronize would. Does not wait.
  bool query() const;

  /// Records on the current stream of the current device.
  void record() {
    record(getCurrentXPUStream());
  }

  /// Records after all work that was submitted to the stream so far. Raises
  /// for a stream of another device than that of the first record. If it
  /// raises, the event is as before.
  void record(XPUStream stream);

  /// As record, if it was not recorded yet.
  void recordOnce(XPUStream stream) {
    if (!isCreated()) {
      record(stream);
    }
  }

  /// Lets work that is submitted to the stream from now on wait for this
  /// event. The stream may be of another device. Does not wait itself.
  void block(XPUStream stream) const;

  /// Waits until the event is complete. Raises the asynchronous errors of the
  /// stream it was recorded on, see Note [XPU streams].
  void synchronize() const;

  /// The milliseconds from this event to the other, negative if the other was
  /// first. Both must be recorded, on the same device, complete, and made with
  /// enable_timing; each violation raises.
  double elapsed_time(const XPUEvent& other) const;

 private:
  struct Recorded {
    sycl::event work; // complete when the work before the record is
    optional<sycl::event> companion; // see Note [Timing of events]
    StreamId stream = 0;
    bool at_device = false; // not held by a host task, and so never again

    // What is complete last, and has the time of a timed record.
    sycl::event& last() {
      return companion ? *companion : work;
    }
  };

  static Recorded submitTimed(XPUStream stream);
  void checkDevice(XPUStream stream) const;
  Recorded copy() const;
  void setComplete(const sycl::event& work) const;
  void raiseErrors() const;

  bool enable_timing_;
  // Once all of recorded_ was seen to be complete, SYCL is not asked again.
  mutable std::atomic<bool> complete_{true};
  std::atomic<DeviceIndex> device_index_{-1};
  // Over what follows. Not held while anything is waited for.
  mutable std::mutex mutex_;
  mutable optional<Recorded> recorded_;
  // Names the event for the trace hooks, also after a move. 0: not recorded.
  uintptr_t name_ = 0;
};

} // namespace c10::xpu
