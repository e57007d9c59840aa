#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/Registry.h>

#include <string>

namespace at {

// Note [XPU hooks]
// ~~~~~~~~~~~~~~~~
// The code for XPU is in libtorch_xpu, on which libtorch_cpu must not depend.
// So libtorch_cpu (at::Context for one) calls it through the virtual functions
// below. libtorch_xpu registers a class that overrides them when it is loaded.
// Before that, or without the library, this base class is used: its queries
// return false, 0 or -1, and all other functions raise an error that says what
// was asked for and what to do.
//
// Loading the library does nothing but register the class. The SYCL runtime
// starts with the first call that needs a device.
//
// libtorch_xpu may be loaded after the first call: what the base class returns
// is never cached, so that later calls reach the library. See getXPUHooks.

/// What the rest of PyTorch needs of XPU. See Note [XPU hooks]
struct TORCH_API XPUHooksInterface {
  virtual ~XPUHooksInterface();

  /// Initializes XPU, or raises an error if there is no device. Thread-safe.
  /// at::Context::lazyInitXPU() calls it at the first use.
  virtual void initXPU() const;

  /// Whether libtorch_xpu is loaded; starts no SYCL runtime. There may be no
  /// device: see getNumDevices.
  virtual bool hasXPU() const;

  /// Describes the mapping and its devices. Starts the SYCL runtime.
  virtual std::string showConfig() const;

  /// How many devices there are; 0 without the library.
  virtual DeviceIndex getNumDevices() const;

  /// The calling thread's device; -1 without the library or a device.
  virtual DeviceIndex current_device() const;

  /// Where the device stands in SYCL's own list of all devices. Error for a
  /// device that is not an XPU device or has no or an invalid index.
  virtual int32_t getGlobalIdxFromDevice(const Device& device) const;

  /// The device that owns the memory. Error if none does.
  virtual Device getDeviceFromPtr(void* data) const;

  /// Whether the pointer points into USM host memory. Starts no SYCL runtime:
  /// false until one runs, and without the library.
  virtual bool isPinnedPtr(const void* data) const;

  /// The allocator of USM host memory.
  virtual Allocator* getPinnedMemoryAllocator() const;

  /// Whether the two functions below can be used, that is, whether there is
  /// anything to seed.
  virtual bool hasGenerator() const;

  /// The default generator of a device; -1 is the current device.
  virtual const Generator& getDefaultXPUGenerator(
      DeviceIndex device_index = -1) const;

  /// A new generator for a device; -1 is the current device.
  virtual Generator getXPUGenerator(DeviceIndex device_index = -1) const;
};

// NB: dummy argument to suppress "ISO C++11 requires at least one argument
// for the "..." in a variadic macro"
struct TORCH_API XPUHooksArgs {};

C10_DECLARE_REGISTRY(XPUHooksRegistry, XPUHooksInterface, XPUHooksArgs);

namespace detail {

/// The hooks of libtorch_xpu once that is loaded, else the base class's. The
/// reference stays valid for the process's life. Call this again rather than
/// keep it, or a library that is loaded later is missed: it costs an atomic
/// load.
TORCH_API const XPUHooksInterface& getXPUHooks();

/// Calls getXPUHooks().initXPU() unless it succeeded before. Several threads
/// may call it at the same time; after an error the next caller tries again.
TORCH_API void lazyInitXPU();

/// Makes the registry's entry of this name the one that getXPUHooks returns.
/// Part of REGISTER_XPU_HOOKS: the registry itself may not be read while
/// another thread loads a library that registers.
struct TORCH_API XPUHooksRegistration {
  explicit XPUHooksRegistration(const char* name);
};

} // namespace detail
} // namespace at

/// Registers the class that implements the hooks. For namespace at, or one in
/// it. One library does it, once.
#define REGISTER_XPU_HOOKS(clsname)                                       \
  C10_REGISTER_CLASS(XPUHooksRegistry, clsname, clsname)                  \
  static const ::at::detail::XPUHooksRegistration C10_ANONYMOUS_VARIABLE( \
      use_##clsname)(#clsname)
