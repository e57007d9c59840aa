#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Macros.h>
#include <c10/xpu/XPUDeviceProp.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>

#include <atomic>
#include <string>

/// Devices: how many there are, which one a thread works on, what each can do.
///
/// Note [Device pool and mapping]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// Which SYCL devices are XPU devices is the mapping's choice:
///
///   GPU       Level-Zero GPUs, in the platform's order (the default)
///   CPU       the SYCL CPU device
///   AUTO      as GPU where there is a GPU, else as CPU
///   EXPLICIT  every device that can allocate device USM, GPUs first
///
/// It comes from set_mapping() or, at first use, from TORCH_XPU_MAPPING. The
/// first use enumerates the devices once, whichever thread comes first; what
/// it found is never changed afterwards, so that everything below reads it
/// without a lock. A first use that fails (an unknown mapping, an error of the
/// runtime) leaves nothing behind and may be tried again. Nothing happens when
/// the library is loaded: a process that uses no XPU never starts the SYCL
/// runtime. After a fork, a child of a process that had started it gets an
/// error: the runtime's threads and locks do not survive, and calls would hang.
///
/// TORCH_XPU_VIRTUAL_DEVICES=N gives N ordinals over each of these devices,
/// one after the other (root 0: 0..N-1, root 1: N..2N-1). Each has streams, an
/// allocator, a generator and statistics of its own, so that code for several
/// devices runs on a machine that has one. SYCL knows of root devices only: who
/// owns a pointer is then known to the allocator alone, see
/// set_pointer_owner_lookup.
///
/// Note [One context for all devices]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// All devices share one sycl::context: an event or an allocation of one can
/// then be used with another, which SYCL forbids across contexts (a barrier on
/// a foreign event ends the process). A context cannot span platforms. Where
/// the mapping finds devices of several platforms, those of the first device's
/// platform are taken (Level Zero's, if it has one) and the others are left out
/// with a warning that names them; ONEAPI_DEVICE_SELECTOR decides which
/// platforms SYCL shows at all. The context is made when it is first asked for:
/// counting devices needs none, and to make it takes as long as to enumerate.

namespace c10 {
namespace xpu {

namespace impl {

// What the inline functions below read; see there for what it means. It is in
// the header since a call into the library would cost more than they do.

constexpr int kNotEnumerated = -1;

/// The number of devices, or kNotEnumerated before the first use.
extern C10_XPU_API std::atomic<int> known_device_count;

/// The calling thread's device. `__thread`, unlike thread_local, has no dynamic
/// initialisation to check for at each access from another library;
/// initial-exec makes the access one instruction instead of a call, for one
/// byte of the block that all libraries share.
extern C10_XPU_API __thread DeviceIndex thread_device
    __attribute__((tls_model("initial-exec")));

/// Enumerates the devices unless another thread did; returns their number.
C10_XPU_API int enumerate();

/// Warns, once, that there is no device.
C10_XPU_API void warn_no_device();

/// Raises the error for an index that is not in [0, count).
[[noreturn]] C10_XPU_API void raise_device_index(DeviceIndex index, int count);

inline int device_count() {
  const int known = known_device_count.load(std::memory_order_acquire);
  return C10_LIKELY(known != kNotEnumerated) ? known : enumerate();
}

} // namespace impl

/// How many XPU devices there are; 0 (with one warning that says what was
/// looked for) where there are none. Raises when the devices cannot be
/// enumerated.
inline DeviceIndex device_count() {
  const int count = impl::device_count();
  if (C10_UNLIKELY(count == 0)) {
    impl::warn_no_device();
  }
  return static_cast<DeviceIndex>(count);
}

/// Whether there is a device. As device_count, without the warning.
inline bool is_available() {
  return impl::device_count() > 0;
}

/// As device_count, without the warning; but in a forked child, where
/// device_count raises, it is what the parent had counted. For what is ours and
/// needs no driver, such as seeds.
C10_XPU_API DeviceIndex device_count_across_fork();

/// As device_count, but no device is an error.
inline DeviceIndex device_count_ensure_non_zero() {
  const int count = impl::device_count();
  if (C10_UNLIKELY(count == 0)) {
    impl::raise_device_index(0, 0);
  }
  return static_cast<DeviceIndex>(count);
}

/// Raises unless 0 <= device < device_count().
inline void check_device_index(DeviceIndex device) {
  const int count = impl::device_count();
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    impl::raise_device_index(device, count);
  }
}

/// The calling thread's device; 0 until it is set. No device is an error.
inline DeviceIndex current_device() {
  device_count_ensure_non_zero();
  return impl::thread_device;
}

/// Sets the calling thread's device.
inline void set_device(DeviceIndex device) {
  check_device_index(device);
  impl::thread_device = device;
}

/// Sets the calling thread's device and returns the one before.
inline DeviceIndex exchange_device(DeviceIndex device) {
  check_device_index(device);
  const DeviceIndex before = impl::thread_device;
  impl::thread_device = device;
  return before;
}

/// As exchange_device; a negative index changes nothing.
inline DeviceIndex maybe_exchange_device(DeviceIndex device) {
  return device < 0 ? current_device() : exchange_device(device);
}

/// The SYCL device of an ordinal; the same for all ordinals over one root.
C10_XPU_API sycl::device& get_raw_device(DeviceIndex device);

/// The one context of all devices. See Note [One context for all devices]
C10_XPU_API sycl::context& get_device_context();

/// Fills `prop` with the properties of a device. The driver is asked once.
C10_XPU_API void get_device_properties(DeviceProp* prop, DeviceIndex device);

/// The properties of a device, without a copy; valid for the process's life.
C10_XPU_API const DeviceProp& get_device_properties(DeviceIndex device);

/// The device that owns a USM device or shared pointer. Raises for memory
/// that is not a device's.
C10_XPU_API DeviceIndex get_device_idx_from_pointer(void* ptr);

/// Answers whose `ptr` is, or -1 for one it does not know. The allocator sets
/// it: its records are what tells ordinals over one root device apart.
using PointerOwnerLookup = DeviceIndex (*)(void* ptr);
C10_XPU_API void set_pointer_owner_lookup(PointerOwnerLookup lookup);

/// Sets the mapping: GPU, CPU, AUTO or EXPLICIT. Raises for another name, and
/// after the first use of a device.
C10_XPU_API void set_mapping(const std::string& name);

/// The mapping in force, or that the first use will take.
C10_XPU_API std::string mapping();

/// Whether this process is the forked child of one that had started XPU. Every
/// use of a device is an error then.
C10_XPU_API bool is_in_bad_fork();

/// Whether the devices have been enumerated in this process.
inline bool is_device_pool_initialized() {
  return impl::known_device_count.load(std::memory_order_acquire) !=
      impl::kNotEnumerated;
}

} // namespace xpu
} // namespace c10
