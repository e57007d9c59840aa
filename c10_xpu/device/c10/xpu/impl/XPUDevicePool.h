#pragma once

#include <c10/core/Device.h>
#include <c10/util/CallOnce.h>
#include <c10/xpu/XPUDeviceProp.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>

#include <memory>
#include <string>
#include <vector>

namespace c10 {
namespace xpu {
namespace impl {

enum class Mapping { GPU, CPU, AUTO, EXPLICIT };

/// The mapping of a name; raises for a name that is none, naming those that
/// are. `origin` says where the name was given.
Mapping parseMapping(const std::string& name, const char* origin);
const char* mappingName(Mapping mapping);

/// The value of TORCH_XPU_VIRTUAL_DEVICES; 1 where it is not set. Raises for
/// what is no whole number from 1 to C10_COMPILE_TIME_MAX_XPUS.
int parseVirtualDevices(const char* text);

/// A root device and what is known of it.
struct RootDevice {
  explicit RootDevice(sycl::device device) : raw(std::move(device)) {}

  sycl::device raw;
  c10::once_flag properties_once;
  DeviceProp properties;
};

/// The devices of this process, as the first use found them.
struct DevicePool {
  std::vector<std::unique_ptr<RootDevice>> roots;
  int ordinals_per_root = 1;
  // What was looked for and what there is, where no device was found.
  std::string search;
  // Made when it is first asked for: to make it costs the driver as much as to
  // enumerate, and who only counts devices needs none.
  std::unique_ptr<sycl::context> context;
  c10::once_flag context_once;

  size_t size() const {
    return roots.size() * static_cast<size_t>(ordinals_per_root);
  }
  RootDevice& root(DeviceIndex device) const {
    return *roots
        [static_cast<size_t>(device) / static_cast<size_t>(ordinals_per_root)];
  }
};

/// Enumerates the devices of a mapping. Warns where some must be left out.
std::unique_ptr<DevicePool> enumerateDevices(Mapping mapping, int ordinals);

/// The context of all devices of a pool that has some.
sycl::context& contextOf(DevicePool& pool);

/// Asks the driver for everything that DeviceProp has.
DeviceProp queryProperties(const sycl::device& device);

} // namespace impl
} // namespace xpu
} // namespace c10
