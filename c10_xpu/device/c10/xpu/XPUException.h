#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/exception.hpp>
#include <sycl/exception_list.hpp>

#include <utility>

namespace c10::xpu {

// Note [Asynchronous errors]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// SYCL keeps the errors of work that already runs (of host tasks above all)
// until a thread calls throw_asynchronous() or wait_and_throw(), and may then
// deliver those of all queues of the device. So our handlers do not throw: they
// keep each error, and the next synchronization of its stream, of an event
// recorded there, or of the whole device raises it.
//
// A queue that was made without a handler has SYCL's default one, which ends
// the process, also when a call of ours delivers the error. Libraries that make
// their own queues should pass asyncHandler.

/// A sycl::async_handler for queues that are made outside of PyTorch. The next
/// synchronization of a device or of an external stream raises the errors.
C10_XPU_API void asyncHandler(sycl::exception_list errors);

namespace impl {

constexpr DeviceIndex kUnknownDevice = -1; // of what asyncHandler keeps

/// Keeps the errors of a stream.
void keepAsyncErrors(
    const sycl::exception_list& errors,
    DeviceIndex device,
    StreamId stream);

/// Raises and forgets what is kept for a stream, or for all streams of a device
/// and for asyncHandler. One relaxed load if nothing is kept.
C10_XPU_API void raiseAsyncErrors(
    DeviceIndex device,
    optional<StreamId> stream = nullopt);

/// Throws a c10::Error that names the call, its place, and SYCL's text.
[[noreturn]] C10_XPU_API void raise(
    const char* call,
    const SourceLocation& where,
    const sycl::exception& error);

template <typename Call>
decltype(auto) guarded(
    const char* text,
    const SourceLocation& where,
    Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const sycl::exception& error) {
    raise(text, where, error);
  }
}

} // namespace impl
} // namespace c10::xpu

/// The value of a SYCL expression; its errors leave as c10::Error. Every call
/// into SYCL that can fail is made through this, so that no sycl::exception
/// leaves the library.
#define C10_XPU_CHECK(...)                                   \
  (::c10::xpu::impl::guarded(                                \
      #__VA_ARGS__,                                          \
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, \
      [&]() -> decltype(auto) { return __VA_ARGS__; }))
