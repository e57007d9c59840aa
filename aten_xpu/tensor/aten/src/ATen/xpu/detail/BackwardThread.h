#pragma once

namespace at::xpu::detail {

/// The engine of this PyTorch runs what is on a device in a thread of its own,
/// always. See Note [Backward on the host]
inline void keepBackwardInThisThread() {}

} // namespace at::xpu::detail
