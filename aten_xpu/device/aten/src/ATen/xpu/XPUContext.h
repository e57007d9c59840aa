#pragma once

#include <ATen/Context.h>
#include <c10/xpu/XPUFunctions.h>

#include <cstdint>

namespace at {
namespace xpu {

/// Whether there is an XPU device. See c10::xpu::is_available
inline bool is_available() {
  return c10::xpu::is_available();
}

/// How many XPU devices there are. See c10::xpu::device_count
inline DeviceIndex device_count() {
  return c10::xpu::device_count();
}

/// The calling thread's device. No device is an error.
inline DeviceIndex current_device() {
  return c10::xpu::current_device();
}

/// The properties of the calling thread's device, valid for the process's
/// life. No device is an error.
C10_EXPORT const c10::xpu::DeviceProp* getCurrentDeviceProperties();

/// The properties of a device, valid for the process's life. An index outside
/// 0 .. device_count() - 1 is an error.
C10_EXPORT const c10::xpu::DeviceProp* getDeviceProperties(DeviceIndex device);

/// The position of the device in SYCL's own list, sycl::device::get_devices().
/// Libraries outside PyTorch that share devices (DLPack among them) count by
/// it. It is the same for all virtual devices over one root device. An index
/// outside 0 .. device_count() - 1 is an error.
C10_EXPORT int32_t getGlobalIdxFromDevice(DeviceIndex device);

/// Whether kernels and copies of a device can use memory of another directly.
/// See c10::xpu::can_device_access_peer
C10_EXPORT bool canDeviceAccessPeer(DeviceIndex device, DeviceIndex peer);

} // namespace xpu
} // namespace at
