#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

namespace at::xpu::detail {

// Note [Memory that CPU kernels allocate]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A CPU kernel allocates its results itself. To have them in the device's
// memory, counted by its allocator, PyTorch's CPU allocator is replaced by one
// that asks the former one, except on a thread that is in a DeviceMemoryScope.
//
// A kernel that is a Python function can allocate anything, and keep it for
// ever. So while it runs, memory of the CPU is the CPU's, and its results are
// copied. That it runs can be seen by how often the thread has entered Python:
// the dispatcher does not tell.

/// While it lives, what CPU kernels allocate on this thread is memory of the
/// current device, if it is asked for.
class C10_EXPORT DeviceMemoryScope {
 public:
  explicit DeviceMemoryScope(bool wanted);
  ~DeviceMemoryScope();
  DeviceMemoryScope(const DeviceMemoryScope&) = delete;
  DeviceMemoryScope& operator=(const DeviceMemoryScope&) = delete;

 private:
  const int outer_depth_;
};

/// Memory of the current device that the host may write to at once.
DataPtr allocateForHost(size_t nbytes);

/// Whether XPU's allocator gave the memory.
bool isDeviceMemory(const DataPtr& data);

/// Sets what counts how often the calling thread has entered Python.
C10_EXPORT void setPythonDepth(int (*depth)());

} // namespace at::xpu::detail
