#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUGuardBase.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <exception>
#include <utility>

namespace c10::xpu::impl {

/// The device guard interface for XPU. The members that constructors and
/// destructors of guards call are inline, so that those of XPUGuard.h make no
/// virtual call.
///
/// Errors: an invalid device or a stream of another device type raises
/// c10::Error. The members that the interface declares noexcept warn instead
/// and leave the state of the thread as it was. What a guard's destructor calls
/// is silent in a forked child, so that it can leave the guards of its parent.
struct C10_XPU_API XPUGuardImpl final : public XPUGuardBase {
  static constexpr DeviceType static_type = kXPU;

  // Releases of PyTorch differ in whether getStream and exchangeStream may
  // raise.
  static constexpr bool kStreamsRaise = !noexcept(
      std::declval<const XPUGuardBase&>().getStream(std::declval<Device>()));

  XPUGuardImpl() = default;

  // Raises unless `t` is kXPU. PyTorch's guards pass their device's type.
  explicit XPUGuardImpl(DeviceType t) {
    checkType(t);
  }

  DeviceType type() const override {
    return kXPU;
  }

  Device exchangeDevice(Device d) const override {
    checkType(d.type());
    return Device(kXPU, c10::xpu::exchange_device(d.index()));
  }

  Device getDevice() const override {
    return Device(kXPU, c10::xpu::current_device());
  }

  void setDevice(Device d) const override {
    checkType(d.type());
    c10::xpu::set_device(d.index());
  }

  void uncheckedSetDevice(Device d) const noexcept override {
    try {
      c10::xpu::set_device(d.index());
    } catch (const std::exception& e) {
      if (is_in_bad_fork()) {
        threadDevice() = d.index();
      }
      warnIgnored("set the current device", d, e);
    }
  }

  Stream getStream(Device d) const noexcept(!kStreamsRaise) override {
    try {
      return getCurrentXPUStream(d.index()).unwrap();
    } catch (const std::exception& e) {
      if constexpr (kStreamsRaise) {
        throw;
      }
      warnIgnored("get the current stream", d, e);
      return Stream(Stream::DEFAULT, d);
    }
  }

  // The current device stays as it is.
  Stream exchangeStream(Stream s) const noexcept(!kStreamsRaise) override {
    try {
      checkType(s.device_type());
      check_device_index(s.device_index());
    } catch (const std::exception& e) {
      if constexpr (kStreamsRaise) {
        if (!is_in_bad_fork()) {
          throw;
        }
      }
      warnIgnored("set the current stream", s.device(), e);
      return s;
    }
    const StreamId id = exchangeThreadStream(s.device_index(), s.id());
    return Stream(Stream::UNSAFE, s.device(), id);
  }

  Stream getDefaultStream(Device d) const override {
    checkType(d.type());
    return getDefaultXPUStream(d.index()).unwrap();
  }

  Stream getStreamFromGlobalPool(Device d, bool isHighPriority = false)
      const override {
    checkType(d.type());
    return getStreamFromPool(isHighPriority, d.index()).unwrap();
  }

  // 0 also where the devices cannot be enumerated; the first call that needs a
  // device raises the error.
  DeviceIndex deviceCount() const noexcept override;

  // An event is an XPUEvent on the heap, made by its first record. With the
  // flag BACKEND_DEFAULT it has timing, with PYTORCH_DEFAULT it has not.
  void destroyEvent(void* event, DeviceIndex) const noexcept override;
  void record(void** event, const Stream& stream, DeviceIndex, EventFlag flag)
      const override;
  void block(void* event, const Stream& stream) const override;
  bool queryEvent(void* event) const override;

  bool queryStream(const Stream& stream) const override {
    return checkedStream(stream).query();
  }

  void synchronizeStream(const Stream& stream) const override {
    checkedStream(stream).synchronize();
  }

  void recordDataPtrOnStream(const c10::DataPtr& data_ptr, const Stream& stream)
      const override;

 private:
  static void checkType(DeviceType t) {
    if (C10_UNLIKELY(t != kXPU)) {
      raiseWrongType(t);
    }
  }

  static XPUStream checkedStream(Stream stream) {
    checkType(stream.device_type());
    return XPUStream(XPUStream::UNCHECKED, stream);
  }

  [[noreturn]] static void raiseWrongType(DeviceType t);

  static void warnIgnored(
      const char* action,
      Device d,
      const std::exception& e) noexcept;
};

} // namespace c10::xpu::impl
