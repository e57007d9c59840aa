#pragma once

#include <c10/util/CallOnce.h>
#include <c10/xpu/XPUDeviceProp.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>

#include <deque>
#include <memory>
#include <string>

namespace c10::xpu::impl {

struct RootDevice {
  explicit RootDevice(sycl::device device) : raw(std::move(device)) {}

  sycl::device raw;
  c10::once_flag properties_once;
  DeviceProp properties;
};

/// The devices of this process, as the first use found them.
struct DevicePool {
  std::deque<RootDevice> roots;
  int ordinals_per_root = 1;
  // Without a device: what was looked for, what there is, what is missing.
  std::string search;
  // Made when it is first asked for: it costs as much as to enumerate.
  std::unique_ptr<sycl::context> context;
  c10::once_flag context_once;

  int size() const {
    return static_cast<int>(roots.size()) * ordinals_per_root;
  }
};

/// Raises if `name` is not a mapping. `origin` says where it was given.
void checkMapping(const std::string& name, const char* origin);

/// Enumerates the devices of a mapping. `ordinals` is the value of
/// TORCH_XPU_VIRTUAL_DEVICES or null. Warns where devices must be left out.
std::unique_ptr<DevicePool> enumerateDevices(
    const std::string& mapping,
    const char* ordinals);

sycl::context& contextOf(DevicePool& pool);

DeviceProp queryProperties(const sycl::device& device);

// What the operating system provides, in XPUPosix.cpp.

/// Has `handler` called in each child that is forked from now on. Returns 0 or
/// an error number.
int callInForkedChild(void (*handler)());

/// The folder of the library that has `function`, with a slash at its end;
/// empty if it is not known.
std::string libraryFolderOf(void* function);

} // namespace c10::xpu::impl
