#pragma once

#include <ATen/xpu/XPUContext.h>
#include <c10/core/Device.h>

namespace at {
namespace xpu {

/// The device that owns a USM device or shared pointer. Error for other
/// memory. See c10::xpu::get_device_idx_from_pointer
inline Device getDeviceFromPtr(void* ptr) {
  return {kXPU, c10::xpu::get_device_idx_from_pointer(ptr)};
}

} // namespace xpu
} // namespace at
