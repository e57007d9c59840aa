#include <ATen/xpu/XPUContext.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace at {
namespace xpu {

namespace {

// The positions of all our devices. SYCL's list is made anew at each request,
// and does not change while the process runs.
std::vector<int32_t> findGlobalIndices() {
  const auto all = C10_XPU_CHECK(sycl::device::get_devices());
  std::vector<int32_t> indices;
  for (const auto i : c10::irange(c10::xpu::device_count())) {
    const auto& device = c10::xpu::get_raw_device(i);
    const auto found = std::find(all.begin(), all.end(), device);
    TORCH_CHECK(
        found != all.end(),
        "Device xpu:",
        static_cast<int>(i),
        " (",
        c10::xpu::get_device_properties(i).name,
        ") is not among the ",
        all.size(),
        " devices that SYCL lists, so it has no index there.");
    indices.push_back(static_cast<int32_t>(std::distance(all.begin(), found)));
  }
  return indices;
}

} // namespace

const c10::xpu::DeviceProp* getCurrentDeviceProperties() {
  return getDeviceProperties(c10::xpu::current_device());
}

const c10::xpu::DeviceProp* getDeviceProperties(DeviceIndex device) {
  return &c10::xpu::get_device_properties(device);
}

int32_t getGlobalIdxFromDevice(DeviceIndex device) {
  c10::xpu::check_device_index(device);
  // Never destroyed: other threads may ask while the process exits.
  static const auto& indices = *new std::vector<int32_t>(findGlobalIndices());
  return indices[device];
}

bool canDeviceAccessPeer(DeviceIndex device, DeviceIndex peer) {
  return c10::xpu::can_device_access_peer(device, peer);
}

} // namespace xpu
} // namespace at
