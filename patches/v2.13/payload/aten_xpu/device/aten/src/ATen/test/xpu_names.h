#pragma once

#include <ATen/Context.h>
#include <ATen/detail/XPUHooksInterface.h>

/// What other releases of PyTorch have other names for.

namespace c10::xpu::test {

inline void initContext() {
  at::globalContext().lazyInitDevice(at::kXPU);
}

inline int countOf(const at::XPUHooksInterface& hooks) {
  return hooks.deviceCount();
}

} // namespace c10::xpu::test
