#pragma once

#include <torch/library.h>

// The XPU kernels of PyTorch's operators, by what they are; Fallback.cpp
// registers them. Functions of PyTorch are registered by address: TORCH_FN
// wants to know when it is compiled that they exist, which a sanitizer's build
// does not.

namespace at::xpu::detail {

/// Memory and its layout.
void implementTensorOps(torch::Library& library);

/// What the fallback cannot run as it is.
void implementSpecialOps(torch::Library& library);

/// Registers the fallbacks, once. The first tensor calls it: loading the
/// library would take several times as long with it.
void registerFallbacks();

/// One of them, for tensors that are not dense; and its function.
void registerDispatchingFallback(c10::DispatchKey cpu, c10::DispatchKey xpu);
torch::CppFunction dispatchingFunction();

} // namespace at::xpu::detail
