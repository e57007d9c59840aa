#include <c10/xpu/impl/XPUGuardImpl.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUEvent.h>

namespace c10::xpu::impl {
namespace {

// Not inline, so that a record of an event that is there is a jump.
C10_NOINLINE XPUEvent* makeEvent(EventFlag flag) {
  TORCH_CHECK(
      flag == EventFlag::PYTORCH_DEFAULT || flag == EventFlag::BACKEND_DEFAULT,
      "An XPU event was given the event flag ",
      static_cast<int>(flag),
      ". Allowed are EventFlag::PYTORCH_DEFAULT and "
      "EventFlag::BACKEND_DEFAULT; the flags of other backends have no meaning "
      "here.");
  return new XPUEvent(flag == EventFlag::BACKEND_DEFAULT);
}

} // namespace

// Stores a pointer while the library is loaded; SYCL is not started.
C10_REGISTER_GUARD_IMPL(XPU, XPUGuardImpl);

void XPUGuardImpl::raiseWrongType(DeviceType t) {
  TORCH_CHECK(
      false,
      "An XPU guard was given a device or stream of type ",
      DeviceTypeName(t, /*lower_case=*/true),
      ", expected xpu. Use c10::DeviceGuard or c10::StreamGuard for code that "
      "serves several device types.");
}

void XPUGuardImpl::warnIgnored(
    const char* action,
    Device d,
    const std::exception& e) noexcept {
  // A warning can be turned into an exception by its handler.
  try {
    if (!is_in_bad_fork()) {
      const auto* error = dynamic_cast<const c10::Error*>(&e);
      TORCH_WARN(
          "Could not ",
          action,
          " for ",
          d,
          ", it is unchanged: ",
          error ? error->what_without_backtrace() : e.what());
    }
  } catch (...) { // NOLINT(bugprone-empty-catch): the caller cannot raise
  }
}

DeviceIndex XPUGuardImpl::deviceCount() const noexcept {
  // Autograd asks every backend before it starts, also for work on the CPU
  // alone: do not warn of a missing device here.
  try {
    return is_available() ? c10::xpu::device_count() : 0;
  } catch (const std::exception& e) {
    warnIgnored("count the devices", Device(kXPU), e);
    return 0;
  }
}

void XPUGuardImpl::destroyEvent(void* event, DeviceIndex) const noexcept {
  delete static_cast<XPUEvent*>(event);
}

void XPUGuardImpl::record(
    void** event,
    const Stream& stream,
    DeviceIndex,
    EventFlag flag) const {
  const XPUStream xpu_stream = checkedStream(stream);
  if (C10_UNLIKELY(*event == nullptr)) {
    *event = makeEvent(flag);
  }
  static_cast<XPUEvent*>(*event)->record(xpu_stream);
}

void XPUGuardImpl::block(void* event, const Stream& stream) const {
  if (event) {
    static_cast<XPUEvent*>(event)->block(checkedStream(stream));
  }
}

bool XPUGuardImpl::queryEvent(void* event) const {
  return !event || static_cast<XPUEvent*>(event)->query();
}

void XPUGuardImpl::recordDataPtrOnStream(
    const c10::DataPtr& data_ptr,
    const Stream& stream) const {
  XPUCachingAllocator::recordStream(data_ptr, checkedStream(stream));
}

} // namespace c10::xpu::impl
