#include <c10/xpu/XPUStream.h>

namespace c10::xpu {

// Declared by PyTorch's c10/xpu/XPUFunctions.h since 2.14.
C10_XPU_API void device_synchronize(DeviceIndex device);

void device_synchronize(DeviceIndex device) {
  syncStreamsOnDevice(device);
}

} // namespace c10::xpu
