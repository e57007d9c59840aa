#include <c10/xpu/PeerToPeerAccess.h>

#include <c10/xpu/XPUFunctions.h>

namespace c10::xpu {

void detail::init_p2p_access_cache(DeviceIndex /*num_devices*/) {}

bool get_p2p_access(DeviceIndex device, DeviceIndex peer) {
  return can_device_access_peer(device, peer);
}

} // namespace c10::xpu
