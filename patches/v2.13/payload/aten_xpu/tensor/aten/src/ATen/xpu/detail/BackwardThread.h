#pragma once

#include <c10/core/AutogradState.h>

namespace at::xpu::detail {

/// Has the engine run a backward that this thread starts here, and not in the
/// thread that it has for the device. See Note [Backward on the host]
inline void keepBackwardInThisThread() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

} // namespace at::xpu::detail
