#include <ATen/xpu/detail/XPUHooks.h>

#include <ATen/xpu/XPUContext.h>
#include <ATen/xpu/XPUDevice.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>

#include <sycl/usm.hpp>

#include <sstream>

// The hooks that all releases of PyTorch have.

namespace at::xpu::detail {

void XPUHooks::initXPU() const {
  if (c10::xpu::device_count_across_fork() > 0 &&
      !c10::xpu::is_device_pool_initialized()) {
    // A forked child, which has nothing to initialize: what needs no driver,
    // such as seeding, works there, and what needs it raises by itself.
    return;
  }
  c10::xpu::device_count_ensure_non_zero();
}

std::string XPUHooks::showConfig() const {
  std::ostringstream out;
  const auto count = c10::xpu::device_count();
  out << "XPU mapping " << c10::xpu::mapping() << ", "
      << static_cast<int>(count) << (count == 1 ? " device" : " devices")
      << "\n";
  for (const auto i : c10::irange(count)) {
    const auto& prop = c10::xpu::get_device_properties(i);
    out << "  - xpu:" << static_cast<int>(i) << " " << prop.name << ", driver "
        << prop.driver_version << ", " << prop.platform_name << "\n";
  }
  return out.str();
}

DeviceIndex XPUHooks::current_device() const {
  if (c10::xpu::device_count() == 0) {
    return -1;
  }
  return c10::xpu::current_device();
}

int32_t XPUHooks::getGlobalIdxFromDevice(const Device& device) const {
  TORCH_CHECK(
      device.is_xpu() && device.has_index(),
      "Expected an XPU device with an index, such as xpu:0, got ",
      device,
      ".");
  return at::xpu::getGlobalIdxFromDevice(device.index());
}

Device XPUHooks::getDeviceFromPtr(void* data) const {
  return at::xpu::getDeviceFromPtr(data);
}

bool XPUHooks::isPinnedPtr(const void* data) const {
  // Before the first use of a device there can be no USM memory, and asking
  // about ordinary memory must not start the runtime.
  if (data == nullptr || !c10::xpu::is_device_pool_initialized() ||
      c10::xpu::device_count() == 0) {
    return false;
  }
  return C10_XPU_CHECK(
             sycl::get_pointer_type(data, c10::xpu::get_device_context())) ==
      sycl::usm::alloc::host;
}

} // namespace at::xpu::detail
