#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/Kernel.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace at::xpu::detail {

/// The types of tensors that kernels take, by their names in kernels/*.sycl.
enum KernelType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, b8 };

struct KernelTypeInfo {
  const char* name;
  ScalarType type;
};
constexpr std::array<KernelTypeInfo, 10> kKernelTypes{{
    {"f64", kDouble},
    {"f32", kFloat},
    {"f16", kHalf},
    {"bf16", kBFloat16},
    {"i64", kLong},
    {"i32", kInt},
    {"i16", kShort},
    {"i8", kChar},
    {"u8", kByte},
    {"b8", kBool},
}};

// Sets of types.
constexpr uint32_t FLOATING = 1 << f64 | 1 << f32 | 1 << f16 | 1 << bf16;
constexpr uint32_t INTEGRAL =
    1 << i64 | 1 << i32 | 1 << i16 | 1 << i8 | 1 << u8;
constexpr uint32_t BOOL = 1 << b8;
constexpr uint32_t ALL = FLOATING | INTEGRAL | BOOL;
// Those that stand for all of their size, where elements are moved.
constexpr uint32_t MOVED = 1 << i64 | 1 << i32 | 1 << bf16 | 1 << u8;

/// The type for kernels of the device; nothing if they do not take it there.
std::optional<KernelType> kernelType(ScalarType type, DeviceIndex device);

/// The same; of complex numbers, but not of complex32, the type of their real
/// and imaginary parts.
std::optional<KernelType> kernelTypeOfParts(
    ScalarType type,
    DeviceIndex device);

/// The one of MOVED of this size; nothing if there is none.
std::optional<KernelType> typeOfSize(size_t size);

/// The type that is computed with of tensors of a floating type.
inline ScalarType computedType(KernelType type) {
  return type == f64 ? kDouble : kFloat;
}

/// Kernels of one kind: a unit for each of `types`. It is a static variable, so
/// that all are known to who compiles ahead.
class KernelFamily {
 public:
  /// source: of the unit for a type
  KernelFamily(
      const char* name,
      std::string (*source)(int type),
      uint32_t types = ALL);

  const KernelUnit& operator[](KernelType type) const {
    return units_[type];
  }
  uint32_t types() const {
    return types_;
  }

 private:
  uint32_t types_;
  std::array<KernelUnit, kKernelTypes.size()> units_;
};

/// A kernel of a family. It is a static variable, too.
class NamedKernel {
 public:
  NamedKernel(const KernelFamily& family, std::string name)
      : family_(family), name_(std::move(name)) {}

  /// Null if the device cannot have it, see loadKernel.
  const Kernel* find(KernelType type, DeviceIndex device) const {
    return loadKernel(slots_[type], device, family_[type], name_.c_str());
  }

  /// The type of the kernel for the tensor; nothing if there is none.
  std::optional<KernelType> typeFor(const Tensor& tensor) const;

  /// Launches it, if there are items, on the device's current stream, for an
  /// operator of which a kernel was found: see requireKernel and launchKernel.
  void launch(
      const std::string& op,
      KernelType type,
      DeviceIndex device,
      int64_t items,
      c10::ArrayRef<KernelArgument> arguments,
      uint32_t group_size = 0) const;

 private:
  const KernelFamily& family_;
  std::string name_;
  mutable std::array<KernelSlot, kKernelTypes.size()> slots_{};
};

/// The units of all families.
std::vector<const KernelUnit*> kernelUnits();

/// The number as a kernel for the type gets it. Raises if the type has not got
/// it; or, not checked, it becomes infinite or wraps, as where PyTorch makes a
/// tensor of it.
KernelArgument kernelNumber(
    const Scalar& number,
    KernelType type,
    bool checked = true);

/// Whether a kernel runs on the first XPU tensor among the arguments; then its
/// device.
struct KernelDevice {
  DeviceIndex index = -1;

  void look(const Tensor& tensor) {
    if (index < 0 && tensor.is_xpu() && tensor.layout() == kStrided) {
      index = tensor.device().index();
    }
  }
  template <typename T>
  void look(const T& /*no tensor*/) {}
};

template <typename... Args>
std::optional<DeviceIndex> kernelDevice(const Args&... args) {
  KernelDevice device;
  (device.look(args), ...);
  return device.index >= 0 && usesKernels(device.index)
      ? std::make_optional(device.index)
      : std::nullopt;
}

/// The type of kernels for the tensor, one of `types`; nothing if its device
/// does not use kernels, or they do not take it.
std::optional<KernelType> kernelTypeOf(const Tensor& tensor, uint32_t types);

} // namespace at::xpu::detail
