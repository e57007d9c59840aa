#pragma once

#include <c10/util/Exception.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/exception.hpp>

#include <atomic>
#include <utility>

namespace c10 {
namespace xpu {
namespace impl {

/// Called with the text of every guarded call before it is made. What it
/// throws is what the call is taken to have thrown: this is how tests produce
/// errors of the SYCL runtime that no machine produces on demand.
using FaultHook = void (*)(const char* call);

extern C10_XPU_API std::atomic<FaultHook> fault_hook;

/// Throws a c10::Error that says what `call` was, where it stands, and what
/// SYCL said of it.
[[noreturn]] C10_XPU_API void raise(
    const char* call,
    const SourceLocation& where,
    const sycl::exception& error);

/// Makes a SYCL call whose errors leave as c10::Error.
template <typename Call>
decltype(auto) guarded(
    const char* text,
    const SourceLocation& where,
    Call&& call) {
  try {
    if (FaultHook hook = fault_hook.load(std::memory_order_relaxed)) {
      hook(text);
    }
    return std::forward<Call>(call)();
  } catch (const sycl::exception& error) {
    raise(text, where, error);
  }
}

} // namespace impl
} // namespace xpu
} // namespace c10

/// The value of a SYCL expression; its errors leave as c10::Error. Every call
/// into SYCL that can fail is made through this, so that no sycl::exception
/// leaves the library.
#define C10_XPU_CHECK(...)                                   \
  (::c10::xpu::impl::guarded(                                \
      #__VA_ARGS__,                                          \
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, \
      [&]() -> decltype(auto) { return __VA_ARGS__; }))
