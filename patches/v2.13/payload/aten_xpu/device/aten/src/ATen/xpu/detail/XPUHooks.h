#pragma once

#include <ATen/detail/XPUHooksInterface.h>

namespace at::xpu::detail {

/// What libtorch_xpu registers.
struct XPUHooks : public at::XPUHooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool hasXPU() const override {
    return true;
  }

  /// These two do not raise, also in a forked child, where seeds can be set.
  bool isAvailable() const override;
  DeviceIndex deviceCount() const override;
  DeviceIndex getNumGPUs() const override {
    return deviceCount();
  }

  /// Initializes XPU, or raises an error if there is no device. Call
  /// at::Context::lazyInitDevice() instead: it does so only once.
  void init() const override {
    initXPU();
  }
  void initXPU() const;
  bool hasPrimaryContext(DeviceIndex device_index) const override;

  /// Describes the mapping and its devices. Starts the SYCL runtime.
  std::string showConfig() const override;

  DeviceIndex getCurrentDevice() const override;
  /// -1 without a device.
  DeviceIndex current_device() const override;
  void setCurrentDevice(DeviceIndex device) const override;
  DeviceIndex exchangeDevice(DeviceIndex device) const override;
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override;

  int32_t getGlobalIdxFromDevice(const Device& device) const override;
  Device getDeviceFromPtr(void* data) const override;
  bool isPinnedPtr(const void* data) const override;
};

} // namespace at::xpu::detail
