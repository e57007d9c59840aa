#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <tuple>

// What the operators of XPU share. Functions of PyTorch are registered by
// address: TORCH_FN wants to know when it is compiled that they exist, which a
// sanitizer's build does not.

namespace at::xpu::detail {

/// Registers the fallbacks, once. The first tensor calls it: loading the
/// library would take several times as long with it.
C10_EXPORT void registerFallbacks();

/// Adds the unboxed operators that have no kernel of XPU.
void registerUnboxed(torch::Library& library);

// PyTorch leaves the convolutions of a device that it does not know to two
// operators, which the CPU does not have. These call what it has.
Tensor hostConvolution(
    const Tensor& input,
    const Tensor& weight,
    const c10::optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups);
std::tuple<Tensor, Tensor, Tensor> hostConvolutionBackward(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> mask);

/// What is added when the first tensor is made, and what a later stage computes
/// on the device itself.
struct KernelHooks {
  /// Adds operators. The first tensor calls it, before the fallbacks are added.
  void (*add)(torch::Library& library) = nullptr;
  /// Adds functions around the fallback, for operators that have no kernel by
  /// then.
  void (*add_host)(torch::Library& library) = nullptr;
  /// Copies elements between tensors of one device, of any strides and types.
  /// False if it cannot; nothing is done then.
  bool (*copy)(const Tensor& self, const Tensor& src) = nullptr;
  /// Chooses an SDPBackend for scaled_dot_product_attention with dropout, of
  /// tensors that fused operators take, with a mask as it was given.
  int64_t (*attention_with_dropout)(
      const Tensor& query,
      const Tensor& key,
      const Tensor& value,
      const Tensor& mask,
      bool causal) = nullptr;
};
C10_EXPORT KernelHooks& kernelHooks();

/// The function of those for tensors that are not dense.
torch::CppFunction dispatchingFunction();

} // namespace at::xpu::detail
