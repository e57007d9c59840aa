#pragma once

#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Optional.h>

namespace torch {
namespace utils {

// Note [Lazy initialisation of devices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// `import torch` starts no device's runtime. The first use of a device type
// from Python does. Bindings that are about to make or move a tensor to a
// device hence call one of the functions below beforehand. They are compiled
// into every build, also one without that device, so that its users meet the
// message of the Python module ("Torch not compiled with ...") and not one of
// the dispatcher.
//
// What initialising means is up to the Python module of the device type,
// torch.cuda or torch.xpu, of which two functions are used:
//
//   _lazy_init()      initialises or raises. To be called from any thread, any
//                     number of times, also from within itself: calls that the
//                     user made before the first use are made up for there, and
//                     may use the device. Of several threads one does the work
//                     while the others wait.
//   is_initialized()  whether that is complete. False in a forked child of a
//                     process where it was.
//
// The lock that makes threads wait is the Python module's, and there is none
// here. It must be so: Python code gets there by torch.xpu.init() too, without
// passing through here, and two locks would be taken in both orders. Nothing
// here holds the GIL against a waiting thread either, since Python's locks
// release it.
//
// A flag for each type remembers that the module had said that it is
// initialized, and saves the calls afterwards. An error sets no flag, and so
// the next use tries again. The return from a nested _lazy_init() sets none,
// because is_initialized() is still false then. A forked child clears the flag
// (set_requires_device_init, from the module's pthread_atfork handler), and
// _lazy_init() then tells it to use spawn instead.

/// Initialises a device type unless that was done. Only for those that have a
/// Python module that does it: CUDA and XPU. Needs no GIL, and may be called
/// with it. Throws python_error with what the module raised.
void device_lazy_init(c10::DeviceType device_type);

/// Forgets (true) that a device type is initialised, so that the next use asks
/// its Python module, or takes for granted (false) that it is.
void set_requires_device_init(c10::DeviceType device_type, bool value);

/// Whether a device type is one for device_lazy_init.
inline bool is_lazily_initialized(c10::DeviceType device_type) {
  return device_type == c10::DeviceType::CUDA ||
      device_type == c10::DeviceType::XPU;
}

inline void maybe_initialize_device(const c10::Device& device) {
  if (is_lazily_initialized(device.type())) {
    device_lazy_init(device.type());
  }
}

inline void maybe_initialize_device(const c10::optional<c10::Device>& device) {
  if (device.has_value()) {
    maybe_initialize_device(*device);
  }
}

inline void maybe_initialize_device(const c10::TensorOptions& options) {
  maybe_initialize_device(options.device());
}

} // namespace utils
} // namespace torch
