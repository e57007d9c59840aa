#pragma once

#include <c10/core/Device.h>
#include <c10/xpu/XPUMacros.h>

// As PyTorch's own header of this name declares them.

namespace c10::xpu {

namespace detail {
/// Does nothing: the driver is asked at each question.
C10_XPU_API void init_p2p_access_cache(DeviceIndex num_devices);
} // namespace detail

/// See can_device_access_peer.
C10_XPU_API bool get_p2p_access(DeviceIndex device, DeviceIndex peer);

} // namespace c10::xpu
