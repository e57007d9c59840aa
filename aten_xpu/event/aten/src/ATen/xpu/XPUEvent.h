#pragma once

#include <c10/xpu/XPUEvent.h>

namespace at::xpu {

/// As at::cuda::CUDAEvent is found in ATen. See c10/xpu/XPUEvent.h.
using c10::xpu::XPUEvent;

} // namespace at::xpu
