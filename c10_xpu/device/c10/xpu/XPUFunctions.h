#pragma once

#include <c10/core/Device.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUDeviceProp.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>
#include <sycl/usm.hpp>

#include <string>

// Note [Device pool and mapping]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The mapping says which SYCL devices are XPU devices:
//
//   GPU       the GPUs of the first SYCL backend that has any: Level Zero, then
//             CUDA, then HIP; in the platform's order (the default)
//   CPU       the SYCL CPU device
//   AUTO      as GPU where there is a GPU, else as CPU
//   EXPLICIT  every device that can allocate device USM, GPUs first
//
// It comes from set_mapping() or TORCH_XPU_MAPPING. The first use enumerates
// the devices and may be tried again if it fails; loading the library does not
// start the SYCL runtime. In a forked child of a process that had started it,
// everything below raises.
//
// TORCH_XPU_VIRTUAL_DEVICES=N gives N ordinals over each root device (root 0:
// 0..N-1, root 1: N..2N-1), each with its own streams, allocator, generator and
// statistics, so that code for several devices runs on a machine with one.
//
// Note [One context for all devices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// SYCL cannot use an event or an allocation of one context in another. Ours is
// the platform's default context, which sycl::queue(device) of other libraries
// uses too, unless that lacks one of our devices. It cannot span platforms, so
// only the devices of the first device's platform are taken.

namespace c10::xpu {

/// The number of XPU devices. Where there are none, device_count warns once and
/// says what was looked for, device_count_ensure_non_zero raises it, and
/// is_available does neither. They raise if the devices cannot be enumerated.
C10_XPU_API DeviceIndex device_count();
C10_XPU_API DeviceIndex device_count_ensure_non_zero();
C10_XPU_API bool is_available();

/// The count without a warning; in a forked child, where the above raise, what
/// the parent had counted.
C10_XPU_API DeviceIndex device_count_across_fork();

/// Raises unless 0 <= device < device_count().
C10_XPU_API void check_device_index(DeviceIndex device);

/// The calling thread's device; 0 until it is set. No device is an error.
C10_XPU_API DeviceIndex current_device();

/// Sets the calling thread's device. The other two return the one before;
/// maybe_exchange_device leaves it as it is where the index is negative.
C10_XPU_API void set_device(DeviceIndex device);
C10_XPU_API DeviceIndex exchange_device(DeviceIndex device);
C10_XPU_API DeviceIndex maybe_exchange_device(DeviceIndex device);

/// The SYCL device of an ordinal; the same for all ordinals over one root.
C10_XPU_API sycl::device& get_raw_device(DeviceIndex device);

/// The lowest ordinal over the same card.
C10_XPU_API DeviceIndex get_root_device(DeviceIndex device);

/// See Note [One context for all devices]
C10_XPU_API sycl::context& get_device_context();

/// The properties of a device, as a copy or as a reference that is valid for
/// the process's life. The driver is asked once.
C10_XPU_API void get_device_properties(DeviceProp* prop, DeviceIndex device);
C10_XPU_API const DeviceProp& get_device_properties(DeviceIndex device);

/// Bytes free on the card; nullopt where SYCL does not know them.
C10_XPU_API optional<size_t> get_free_memory(DeviceIndex device);

/// Whether kernels of `device` can use memory of `peer`.
C10_XPU_API bool can_device_access_peer(DeviceIndex device, DeviceIndex peer);

/// Lets kernels and copies of `device` use memory of `peer` directly. False
/// where the cards cannot: a copy must then go through the host.
C10_XPU_API bool enable_peer_access(DeviceIndex device, DeviceIndex peer);

/// The device that owns a USM device or shared pointer. Raises for any other
/// memory.
C10_XPU_API DeviceIndex get_device_idx_from_pointer(void* ptr);

/// Returns the owner of `ptr`, or -1 if it does not know. Set by the
/// allocator: SYCL cannot tell ordinals over one root device apart.
using PointerOwnerLookup = DeviceIndex (*)(void* ptr);
C10_XPU_API void set_pointer_owner_lookup(PointerOwnerLookup lookup);

/// The mapping in force, or that the first use will take. set_mapping raises
/// for an unknown name, and after the first use of a device.
C10_XPU_API void set_mapping(const std::string& name);
C10_XPU_API std::string mapping();

/// Whether this process is the forked child of one that had started XPU, and
/// whether it has enumerated the devices itself.
C10_XPU_API bool is_in_bad_fork();
C10_XPU_API bool is_device_pool_initialized();

/// What a call that is about to wait for a stream, an event or a device does.
enum class SyncDebugMode { L_DISABLED = 0, L_WARN, L_ERROR };
C10_XPU_API SyncDebugMode get_sync_debug_mode();
C10_XPU_API void set_sync_debug_mode(SyncDebugMode mode);
C10_XPU_API void warn_or_error_on_sync();

namespace impl {

/// Whether TORCH_XPU_LAUNCH_BLOCKING=1 is set: what the runtime submits to a
/// stream is then waited for at once, so that an error is raised at its cause.
C10_XPU_API bool launchBlocking();

/// The calling thread's device, without any check. For what must work in a
/// forked child or must not raise, such as a guard's destructor.
C10_XPU_API DeviceIndex threadDevice() noexcept;
C10_XPU_API void setThreadDevice(DeviceIndex device) noexcept;

/// Raises the error for an index that is not in [0, count).
[[noreturn]] C10_XPU_API void raise_device_index(DeviceIndex index, int count);

} // namespace impl
} // namespace c10::xpu
