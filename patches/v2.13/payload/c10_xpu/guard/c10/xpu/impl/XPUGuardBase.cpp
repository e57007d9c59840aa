#include <c10/xpu/impl/XPUGuardBase.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

namespace c10::xpu::impl {

Stream XPUGuardBase::getNewStream(Device d, int priority) const {
  TORCH_CHECK(d.is_xpu(), "A new XPU stream was asked for on ", d);
  return getStreamFromPool(priority, d.index()).unwrap();
}

void* XPUGuardBase::getStreamNativeHandle(Stream stream) const {
  return &XPUStream(stream).queue();
}

DeviceCapability XPUGuardBase::getDeviceCapability(Device d) const {
  const auto& properties = get_device_properties(
      d.has_index() ? d.index() : c10::xpu::current_device());
  DeviceCapability capability; // all types
  auto& types = capability.capability_data.capability_bits;
  if (!properties.has_fp16) {
    types &= ~(1ULL << kIndex_Half | 1ULL << kIndex_ComplexHalf);
  }
  if (!properties.has_fp64) {
    types &= ~(1ULL << kIndex_Double | 1ULL << kIndex_ComplexDouble);
  }
  return capability;
}

void XPUGuardBase::synchronizeDevice(DeviceIndex device_index) const {
  syncStreamsOnDevice(device_index);
}

void XPUGuardBase::synchronizeEvent(void* event) const {
  if (event) {
    static_cast<XPUEvent*>(event)->synchronize();
  }
}

double XPUGuardBase::elapsedTime(
    void* event1,
    void* event2,
    DeviceIndex /*device_index*/) const {
  TORCH_CHECK(
      event1 && event2,
      "elapsed_time: record both events before you take the time");
  return static_cast<XPUEvent*>(event1)->elapsed_time(
      *static_cast<XPUEvent*>(event2));
}

} // namespace c10::xpu::impl
