#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Macros.h>
#include <c10/util/ArrayRef.h>
#include <c10/xpu/XPUStream.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

// What stands between an operator and a kernel of the device: find and launch.

namespace at::xpu::detail {

// Note [Kernels]
// ~~~~~~~~~~~~~~
// Operators that have a kernel run it on a device that uses kernels: a GPU
// does, and SYCL's CPU device only with TORCH_XPU_KERNELS=1, since PyTorch's
// own kernels are faster there. TORCH_XPU_KERNELS=0 turns kernels off.
//
// Kernels are SYCL, kernels/*.sycl. Those for one type of tensor are compiled
// together, by SYCL's run-time compiler when the first of them is used; see
// Note [Kernels on disk]. Each is an image of its own, which the driver makes
// code of when the kernel is first used. On NVIDIA the driver itself gets the
// image and launches it, which takes half of the time that SYCL does.
//
// Where a kernel cannot be compiled there is one warning, and the operators
// that need it run on the host.

/// Whether operators with kernels use them on the device.
bool usesKernels(DeviceIndex device);

/// A kernel that a device can run.
struct Kernel;

/// In the place of a kernel that cannot be had.
extern const Kernel kNoKernel;

/// Kernels that are compiled together.
struct KernelUnit {
  std::string name; // for messages
  std::string (*source)(int which) = nullptr; // made only to be compiled
  int which = 0;
};

constexpr size_t kMostDevices = 16; // that use kernels

/// The place of one kernel, for all devices.
struct KernelSlot {
  std::array<std::atomic<const Kernel*>, kMostDevices> kernels{};
};

/// The kernel of this name in the unit for the device; null where it cannot be
/// had, which was said then. Takes no lock once it is there.
const Kernel* loadKernel(
    KernelSlot& slot,
    DeviceIndex device,
    const KernelUnit& unit,
    const char* name);

/// The same with a name that is only made if the kernel is not there yet.
template <typename MakeName>
const Kernel* findKernel(
    KernelSlot& slot,
    DeviceIndex device,
    const KernelUnit& unit,
    const MakeName& name) {
  const Kernel* const found =
      slot.kernels[device].load(std::memory_order_acquire);
  if (C10_UNLIKELY(!found)) {
    return loadKernel(slot, device, unit, name().c_str());
  }
  return found == &kNoKernel ? nullptr : found;
}

/// The kernel of an operator of which another one was found; raises if this one
/// was not.
const Kernel& requireKernel(const Kernel* kernel, const std::string& op);

/// The only kernel of a source, which is compiled when it is first asked for.
/// Where that fails it raises: the error has the name, and says where the
/// compiler's words are.
const Kernel& compileKernel(
    KernelSlot& slot,
    DeviceIndex device,
    const std::string& name,
    const std::string& source);

/// Whether all kernels of the unit can be had for the device; compiles them
/// if they were not.
bool loadKernels(const KernelUnit& unit, DeviceIndex device);

/// An argument, as it is: a pointer or a number of 4 or 8 bytes.
struct KernelArgument {
  template <typename T>
  // NOLINTNEXTLINE(google-explicit-constructor): a list of any of them
  KernelArgument(T value)
      : size(std::is_pointer_v<T> ? kPointer : int(sizeof(T))) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    std::memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
  }
  static constexpr int kPointer = 0;
  uint64_t bits = 0;
  int size;
};

/// How many work-items are in a work-group when it is launched without a size.
uint32_t groupSize(const Kernel& kernel);

/// Launches at least `items` work-items on the stream, in whole work-groups: a
/// kernel leaves those alone that are too many. With a size of groups there are
/// items / group_size of them, which are smaller where the device cannot have
/// such ones. The operator's name is for the profiler.
void launchKernel(
    const Kernel& kernel,
    c10::xpu::XPUStream stream,
    const std::string& op,
    uint64_t items,
    c10::ArrayRef<KernelArgument> arguments,
    uint32_t group_size = 0);

} // namespace at::xpu::detail
