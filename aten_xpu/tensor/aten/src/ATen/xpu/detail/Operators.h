#pragma once

#include <torch/library.h>

// What the operators of XPU share. Functions of PyTorch are registered by
// address: TORCH_FN wants to know when it is compiled that they exist, which a
// sanitizer's build does not.

namespace at::xpu::detail {

/// Registers the fallbacks, once. The first tensor calls it: loading the
/// library would take several times as long with it.
C10_EXPORT void registerFallbacks();

/// The function of those for tensors that are not dense.
torch::CppFunction dispatchingFunction();

} // namespace at::xpu::detail
