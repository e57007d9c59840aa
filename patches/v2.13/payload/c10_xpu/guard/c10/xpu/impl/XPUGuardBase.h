#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/xpu/XPUMacros.h>

namespace c10::xpu::impl {

/// What XPUGuardImpl derives from: what the device guard interface has beside
/// the functions that XPUGuardImpl implements. Without them it raises.
struct C10_XPU_API XPUGuardBase : c10::impl::DeviceGuardImplInterface {
  Stream getNewStream(Device d, int priority = 0) const final;
  void* getStreamNativeHandle(Stream stream) const final;
  /// All types that code for XPU has; half and double where the device does.
  DeviceCapability getDeviceCapability(Device d) const final;

  void synchronizeDevice(DeviceIndex device_index) const final;
  void synchronizeEvent(void* event) const final;
  double elapsedTime(void* event1, void* event2, DeviceIndex device_index)
      const final;
};

} // namespace c10::xpu::impl
