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
// The mapping, from set_mapping() or TORCH_XPU_MAPPING, says which SYCL devices
// are XPU devices:
//
//   GPU       the GPUs of the first SYCL backend that has any: Level Zero, then
//             CUDA, then HIP; in the platform's order (the default)
//   CPU       the SYCL CPU device
//   AUTO      as GPU where there is a GPU, else as CPU
//   EXPLICIT  every device that can allocate device USM, GPUs first
//
// The first use enumerates the devices and may be tried again if it fails;
// loading the library does not start the SYCL runtime. In a forked child of a
// process that had started it, everything below raises.
//
// TORCH_XPU_VIRTUAL_DEVICES=N gives N ordinals over each root device, the first
// of them 0..N-1, each with its own streams, allocator, generator and
// statistics: several devices on a machine that has one.
//
// Note [One context for all devices]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// SYCL cannot use an event or an allocation of one context in another. Ours is
// the platform's default one, as that of any sycl::queue(device). It cannot
// span platforms, so the devices of the first one's platform are taken.

namespace c10::xpu {

/// The number of XPU devices; raises if they cannot be enumerated. Where there
/// are none, device_count warns once and says why, device_count_ensure_non_zero
/// raises, and is_available does neither.
C10_XPU_API DeviceIndex device_count();
C10_XPU_API DeviceIndex device_count_ensure_non_zero();
C10_XPU_API bool is_available();

/// The count without a warning; in a forked child, where the above raise, the
/// parent's count.
C10_XPU_API DeviceIndex device_count_across_fork();

/// Raises unless 0 <= device < device_count().
C10_XPU_API void check_device_index(DeviceIndex device);

/// The calling thread's device; 0 until it is set. The exchanges return the
/// previous one; maybe_exchange_device ignores a negative index.
C10_XPU_API DeviceIndex current_device();
C10_XPU_API void set_device(DeviceIndex device);
C10_XPU_API DeviceIndex exchange_device(DeviceIndex device);
C10_XPU_API DeviceIndex maybe_exchange_device(DeviceIndex device);

/// The SYCL device of an ordinal, the lowest ordinal over the same device, and
/// the context of all, see Note [One context for all devices].
C10_XPU_API sycl::device& get_raw_device(DeviceIndex device);
C10_XPU_API DeviceIndex get_root_device(DeviceIndex device);
C10_XPU_API sycl::context& get_device_context();

/// The driver is asked at the first request. The reference stays valid.
C10_XPU_API void get_device_properties(DeviceProp* prop, DeviceIndex device);
C10_XPU_API const DeviceProp& get_device_properties(DeviceIndex device);

/// Bytes free on the card, for a CPU on the host; nullopt where not known.
C10_XPU_API optional<size_t> get_free_memory(DeviceIndex device);

/// Whether kernels and copies of `device` can use memory of `peer` directly;
/// enable_peer_access lets them if SYCL agrees. Else copy through the host.
C10_XPU_API bool can_device_access_peer(DeviceIndex device, DeviceIndex peer);
C10_XPU_API bool enable_peer_access(DeviceIndex device, DeviceIndex peer);

/// The owner of USM device or shared memory. Raises for any other pointer.
C10_XPU_API DeviceIndex get_device_idx_from_pointer(void* ptr);

/// Returns the owner of `ptr`, or -1. The allocator sets one, since SYCL cannot
/// tell ordinals over one root device apart.
using PointerOwnerLookup = DeviceIndex (*)(void* ptr);
C10_XPU_API void set_pointer_owner_lookup(PointerOwnerLookup lookup);

/// The mapping that is in use, or that the first use will choose. set_mapping
/// raises after the first use, and for an unknown name.
C10_XPU_API void set_mapping(const std::string& name);
C10_XPU_API std::string mapping();

/// Whether this process is the forked child of one that had started XPU, and
/// whether it has enumerated the devices itself.
C10_XPU_API bool is_in_bad_fork();
C10_XPU_API bool is_device_pool_initialized();

/// What happens when a call is about to wait for a stream, event or device.
enum class SyncDebugMode { L_DISABLED = 0, L_WARN, L_ERROR };
C10_XPU_API SyncDebugMode get_sync_debug_mode();
C10_XPU_API void set_sync_debug_mode(SyncDebugMode mode);
C10_XPU_API void warn_or_error_on_sync();

namespace impl {
/// The calling thread's device, without any check. For what must work in a
/// forked child or must not raise, such as a guard's destructor.
C10_XPU_API DeviceIndex& threadDevice() noexcept;
} // namespace impl
} // namespace c10::xpu
