#pragma once

#include <c10/xpu/XPUFunctions.h>

#include <atomic>
#include <string>

// For the sources of libc10_xpu alone; nothing of it is exported.

namespace c10::xpu::impl {

// What the operating system is needed for, in XPUPosix.cpp: to have `handler`
// called in each child that is forked from now on (0 or an error number), and
// the folder of the library that has `function`, with a slash, or "".
int callInForkedChild(void (*handler)());
std::string libraryFolderOf(void* function);

/// What device_count returns; -1 until the devices have been enumerated, and in
/// a forked child that must not use them.
extern C10_HIDDEN std::atomic<int> known_count;

// initial-exec: reached by one instruction; a byte fits in the block that all
// libraries share.
extern C10_HIDDEN __thread DeviceIndex thread_device
    __attribute__((tls_model("initial-exec")));

/// As check_device_index.
inline void checkIndex(DeviceIndex device) {
  const int count = known_count.load(std::memory_order_acquire);
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    check_device_index(device);
  }
}

/// `device` after a check; for -1 the current device.
inline DeviceIndex deviceOrCurrent(DeviceIndex device) {
  if (device == -1) {
    return known_count.load(std::memory_order_acquire) > 0 ? thread_device
                                                           : current_device();
  }
  checkIndex(device);
  return device;
}

} // namespace c10::xpu::impl
