#pragma once

#include <ATen/detail/XPUHooksInterface.h>

namespace at {
namespace xpu {
namespace detail {

/// What libtorch_xpu registers. See Note [XPU hooks]
struct XPUHooks : public at::XPUHooksInterface {
  explicit XPUHooks(at::XPUHooksArgs) {}

  void initXPU() const override;
  bool hasXPU() const override;
  std::string showConfig() const override;
  DeviceIndex getNumDevices() const override;
  DeviceIndex current_device() const override;
  int32_t getGlobalIdxFromDevice(const Device& device) const override;
  Device getDeviceFromPtr(void* data) const override;
  bool isPinnedPtr(const void* data) const override;
  Allocator* getPinnedMemoryAllocator() const override;
  bool hasGenerator() const override;
  const Generator& getDefaultXPUGenerator(
      DeviceIndex device_index = -1) const override;
  Generator getXPUGenerator(DeviceIndex device_index = -1) const override;
};

} // namespace detail
} // namespace xpu
} // namespace at
