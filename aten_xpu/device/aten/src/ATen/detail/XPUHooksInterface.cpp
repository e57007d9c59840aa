#include <ATen/detail/XPUHooksInterface.h>

#include <c10/util/Exception.h>

#include <atomic>

namespace at {

namespace {

template <typename... Args>
[[noreturn]] void failWithoutLibrary(const Args&... what) {
  TORCH_CHECK(
      false,
      "Cannot ",
      what...,
      ": libtorch_xpu is not loaded in this process. Use a PyTorch that was "
      "built with USE_XPU=1; a C++ program also has to link the library in a "
      "way that the linker keeps it (-Wl,--no-as-needed).");
}

} // namespace

XPUHooksInterface::~XPUHooksInterface() = default;

void XPUHooksInterface::initXPU() const {
  failWithoutLibrary("initialize XPU");
}

bool XPUHooksInterface::hasXPU() const {
  return false;
}

std::string XPUHooksInterface::showConfig() const {
  failWithoutLibrary("show the configuration of XPU");
}

DeviceIndex XPUHooksInterface::getNumDevices() const {
  return 0;
}

DeviceIndex XPUHooksInterface::current_device() const {
  return -1;
}

int32_t XPUHooksInterface::getGlobalIdxFromDevice(const Device& device) const {
  failWithoutLibrary("get SYCL's index of device ", device);
}

Device XPUHooksInterface::getDeviceFromPtr(void* data) const {
  failWithoutLibrary("get the XPU device that owns pointer ", data);
}

bool XPUHooksInterface::isPinnedPtr(const void* /*data*/) const {
  return false;
}

Allocator* XPUHooksInterface::getPinnedMemoryAllocator() const {
  failWithoutLibrary("get the allocator of pinned memory for XPU");
}

bool XPUHooksInterface::hasGenerator() const {
  return false;
}

const Generator& XPUHooksInterface::getDefaultXPUGenerator(
    DeviceIndex device_index) const {
  failWithoutLibrary(
      "get the default generator of ", Device(kXPU, device_index));
}

Generator XPUHooksInterface::getXPUGenerator(DeviceIndex device_index) const {
  failWithoutLibrary("create a generator for ", Device(kXPU, device_index));
}

namespace detail {

namespace {

// Constant-initialized, so that it is there before any library's registration
// runs. The object is never destroyed: destructors of other static objects may
// use it.
std::atomic<const XPUHooksInterface*> registered_hooks{nullptr};

} // namespace

const XPUHooksInterface& getXPUHooks() {
  const auto* hooks = registered_hooks.load(std::memory_order_acquire);
  if (C10_LIKELY(hooks != nullptr)) {
    return *hooks;
  }
  static const auto* without_library = new XPUHooksInterface();
  return *without_library;
}

void lazyInitXPU() {
  // Not a member of at::Context, as its counterparts are: that class's layout
  // is part of the ABI of every extension that was compiled against it. Not a
  // once_flag: a child that is forked meanwhile would wait for it forever.
  static std::atomic<bool> initialized{false};
  if (C10_UNLIKELY(!initialized)) {
    getXPUHooks().initXPU();
    initialized = true;
  }
}

XPUHooksRegistration::XPUHooksRegistration(const char* name) {
  registered_hooks.store(
      XPUHooksRegistry()->Create(name, XPUHooksArgs{}).release(),
      std::memory_order_release);
}

} // namespace detail

C10_DEFINE_REGISTRY(XPUHooksRegistry, XPUHooksInterface, XPUHooksArgs)

} // namespace at
