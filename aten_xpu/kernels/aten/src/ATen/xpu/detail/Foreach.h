#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>

// Launches over lists of tensors, kernels/Foreach.sycl.

namespace at::xpu::detail {

enum class Foreach : int {
#define XPU_MANY(name) name,
#define XPU_UNARY XPU_MANY
#define XPU_BINARY XPU_MANY
#define XPU_TERNARY XPU_MANY
#include <ATen/xpu/kernels/Foreach.def>
  zero,
  norm,
  norms,
  adam,
  sgd,
  adagrad,
  unscale,
  update_scale,
};

/// Null if there is none for the type.
const Kernel* findForeach(Foreach kernel, KernelType type, DeviceIndex device);

/// What a launch over lists of tensors is given; see Note [Many tensors].
class TensorTable {
 public:
  /// The lists have tensors of the same sizes and layouts, or are empty; of the
  /// last ones of six, the tensors may have one element. There are as many
  /// numbers as tensors, or one, or with six lists none. Uploads the table on
  /// the current stream of the device, and does not wait; a graph that the
  /// stream records keeps it.
  TensorTable(
      DeviceIndex device,
      ArrayRef<TensorList> lists,
      ArrayRef<KernelArgument> numbers = {});

  /// Launches a kernel over the tensors, if any has elements. `more` are its
  /// arguments behind the table.
  void launch(
      const std::string& op,
      const Kernel* kernel,
      c10::ArrayRef<KernelArgument> more) const;

  /// The same with work-groups for tensors and not for their chunks.
  void launchEach(
      const std::string& op,
      const Kernel* kernel,
      c10::ArrayRef<KernelArgument> more) const;

  uint32_t chunks() const {
    return chunks_;
  }

 private:
  void launchGroups(
      uint32_t groups,
      const std::string& op,
      const Kernel* kernel,
      c10::ArrayRef<KernelArgument> more) const;

  DeviceIndex device_;
  Tensor words_;
  uint32_t tensors_ = 0;
  uint32_t chunk_ = 0;
  uint32_t chunks_ = 0;
};

/// The type of the kernels for lists of as many tensors on one device, where
/// those with the same number are alike: in sizes, layout, and type.
/// Empty if no kernel takes them, or if what records a graph keeps no table.
/// `other` is the type of the last list, if it is another.
std::optional<KernelType> foreachType(
    ArrayRef<TensorList> lists,
    std::optional<ScalarType> other = std::nullopt);

} // namespace at::xpu::detail
