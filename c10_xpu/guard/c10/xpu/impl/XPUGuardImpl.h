#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/XPUStream.h>

namespace c10 {
namespace xpu {
namespace impl {

// The device guard interface for XPU. The device and stream part, which every
// guard runs twice, is inline: the class is final and the guards of XPUGuard.h
// name it as their template argument, so that a guard compiles to direct calls
// without an allocation. The rest is out of line.
//
// Errors: an invalid device or a stream of another device type raises
// c10::Error. The members that the interface declares noexcept warn instead and
// leave the state of the thread as it was; none of them terminates.
struct C10_XPU_API XPUGuardImpl final
    : public c10::impl::DeviceGuardImplInterface {
  static constexpr DeviceType static_type = kXPU;

  XPUGuardImpl() = default;

  // Raises unless `t` is kXPU: this is where a guard meets a foreign device.
  explicit XPUGuardImpl(DeviceType t) {
    if (C10_UNLIKELY(t != kXPU)) {
      throwWrongType(t);
    }
  }

  DeviceType type() const override {
    return kXPU;
  }

  // The device becomes the current one; the result is the former one.
  Device exchangeDevice(Device d) const override {
    checkType(d);
    return Device(kXPU, c10::xpu::exchange_device(d.index()));
  }

  Device getDevice() const override {
    return Device(kXPU, c10::xpu::current_device());
  }

  void setDevice(Device d) const override {
    checkType(d);
    c10::xpu::set_device(d.index());
  }

  void uncheckedSetDevice(Device d) const noexcept override {
    try {
      c10::xpu::set_device(d.index());
    } catch (const std::exception& e) {
      warnIgnored("set the current device", d, e);
    }
  }

  Stream getStream(Device d) const noexcept override {
    try {
      return c10::xpu::getCurrentXPUStream(d.index()).unwrap();
    } catch (const std::exception& e) {
      warnIgnored("get the current stream", d, e);
      return Stream(Stream::DEFAULT, d);
    }
  }

  // Makes `s` the current stream of its device and returns the former one. The
  // current device stays as it is.
  Stream exchangeStream(Stream s) const noexcept override {
    try {
      const Stream previous =
          c10::xpu::getCurrentXPUStream(s.device_index()).unwrap();
      c10::xpu::setCurrentXPUStream(XPUStream(s));
      return previous;
    } catch (const std::exception& e) {
      warnIgnored("set the current stream", s.device(), e);
      return s;
    }
  }

  Stream getDefaultStream(Device d) const override;

  Stream getStreamFromGlobalPool(Device d, bool isHighPriority = false)
      const override;

  // 0 also where the devices cannot be enumerated; the error itself is raised
  // by the first call that needs a device.
  DeviceIndex deviceCount() const noexcept override;

  // Events are sycl::event objects on the heap, see
  // Note [Events of the XPU guard].
  void destroyEvent(void* event, const DeviceIndex device_index)
      const noexcept override;

  void record(
      void** event,
      const Stream& stream,
      const DeviceIndex device_index,
      const EventFlag flag) const override;

  void block(void* event, const Stream& stream) const override;

  bool queryEvent(void* event) const override;

  bool queryStream(const Stream& stream) const override;

  void synchronizeStream(const Stream& stream) const override;

  void recordDataPtrOnStream(const c10::DataPtr& data_ptr, const Stream& stream)
      const override;

 private:
  static void checkType(Device d) {
    if (C10_UNLIKELY(!d.is_xpu())) {
      throwWrongType(d.type());
    }
  }

  [[noreturn]] static void throwWrongType(DeviceType t);

  static void warnIgnored(
      const char* action,
      Device d,
      const std::exception& e) noexcept;
};

} // namespace impl
} // namespace xpu
} // namespace c10
