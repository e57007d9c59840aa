#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>

#include <type_traits>

namespace c10::xpu::impl {

using TraceHooks = c10::impl::PyInterpreterVTable;

/// Calls a trace hook with its arguments, if Python has asked for a trace.
template <typename Hook, typename... Args>
C10_ALWAYS_INLINE void trace(Hook hook, Args... args) {
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    const TraceHooks& hooks = *(*interp).operator->();
    if constexpr (std::is_invocable_v<Hook, const TraceHooks&, Args...>) {
      (hooks.*hook)(args...);
    } else { // later releases of PyTorch are told the type of device first
      (hooks.*hook)(kXPU, args...);
    }
  }
}

} // namespace c10::xpu::impl
