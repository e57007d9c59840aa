#include <ATen/xpu/detail/XPUHooks.h>

#include <c10/xpu/XPUFunctions.h>

#include <exception>

namespace at::xpu::detail {

bool XPUHooks::isAvailable() const {
  return deviceCount() > 0;
}

DeviceIndex XPUHooks::deviceCount() const {
  try {
    return c10::xpu::device_count_across_fork();
  } catch (const std::exception&) {
    return 0; // the first use of a device says why
  }
}

bool XPUHooks::hasPrimaryContext(DeviceIndex device_index) const {
  return c10::xpu::is_device_pool_initialized() && device_index >= 0 &&
      device_index < c10::xpu::device_count_across_fork();
}

DeviceIndex XPUHooks::getCurrentDevice() const {
  return c10::xpu::current_device();
}

void XPUHooks::setCurrentDevice(DeviceIndex device) const {
  c10::xpu::set_device(device);
}

DeviceIndex XPUHooks::exchangeDevice(DeviceIndex device) const {
  return c10::xpu::exchange_device(device);
}

DeviceIndex XPUHooks::maybeExchangeDevice(DeviceIndex device) const {
  return c10::xpu::maybe_exchange_device(device);
}

REGISTER_XPU_HOOKS(XPUHooks);

} // namespace at::xpu::detail
