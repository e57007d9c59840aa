#pragma once

#include <c10/xpu/XPUFunctions.h>

#include <atomic>

namespace c10::xpu::impl { // for the sources of libc10_xpu; not exported

/// What device_count returns, or why it is not known: the SYCL runtime has not
/// been called, it may have been, or this is a forked child of such a process.
extern C10_HIDDEN std::atomic<int> known_count;
enum : int { kNotEnumerated = -1, kStarted = -2, kForked = -3 };

// initial-exec: one instruction; a byte fits in the block of all libraries.
extern C10_HIDDEN __thread DeviceIndex thread_device
    __attribute__((tls_model("initial-exec")));

/// Enumerates the devices at the first use, and raises for an invalid index.
void raiseUnlessDevice(DeviceIndex index);
inline void checkIndex(DeviceIndex device) {
  const int count = known_count.load(std::memory_order_acquire);
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    raiseUnlessDevice(device);
  }
}

} // namespace c10::xpu::impl
