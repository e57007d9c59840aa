#include <ATen/xpu/detail/XPUHooks.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUFunctions.h>

namespace at {
namespace xpu {
namespace detail {

bool XPUHooks::hasXPU() const {
  return true;
}

DeviceIndex XPUHooks::getNumDevices() const {
  // at::manual_seed asks, also in a forked child.
  return c10::xpu::device_count_across_fork();
}

Allocator* XPUHooks::getPinnedMemoryAllocator() const {
  TORCH_CHECK(
      false,
      "Cannot get the allocator of pinned memory for XPU: this libtorch_xpu "
      "has none. Use a later version.");
}

bool XPUHooks::hasGenerator() const {
  return false;
}

const Generator& XPUHooks::getDefaultXPUGenerator(
    DeviceIndex device_index) const {
  TORCH_CHECK(
      false,
      "Cannot get the default generator of ",
      Device(kXPU, device_index),
      ": this libtorch_xpu has no generators. Use a later version.");
}

Generator XPUHooks::getXPUGenerator(DeviceIndex device_index) const {
  TORCH_CHECK(
      false,
      "Cannot create a generator for ",
      Device(kXPU, device_index),
      ": this libtorch_xpu has no generators. Use a later version.");
}

REGISTER_XPU_HOOKS(XPUHooks);

} // namespace detail
} // namespace xpu
} // namespace at
