#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/exception.hpp>
#include <sycl/exception_list.hpp>

namespace c10::xpu {

// Note [Asynchronous errors]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// SYCL keeps the errors of work that is already running (mostly of host tasks)
// until a thread calls throw_asynchronous() or wait_and_throw(), and may then
// deliver those of all queues of the device. So our handlers do not throw: they
// keep each error until its stream, an event recorded there or the whole device
// is synchronized, or is asked and is complete: that raises it. So the host
// cannot read the results of failed work by accident.
//
// A queue without a handler has SYCL's default one, which ends the process even
// if one of our calls delivers the error. Libraries should pass asyncHandler.

/// A sycl::async_handler for queues of other libraries, whose errors the next
/// synchronization of a device or of an external stream raises.
C10_XPU_API void asyncHandler(sycl::exception_list errors);

namespace impl {
constexpr DeviceIndex kUnknownDevice = -1; // of what asyncHandler keeps
void keepAsyncErrors(const sycl::exception_list& errors, Stream stream);

/// Raises what is kept for a stream, or for a device and for asyncHandler.
/// Costs a load where nothing is kept.
C10_XPU_API void raiseAsyncErrors(DeviceIndex, optional<StreamId> = nullopt);

/// Throws a c10::Error with SYCL's text. The call is the location's function.
[[noreturn]] C10_XPU_API void raise(SourceLocation, const sycl::exception&);

} // namespace impl
} // namespace c10::xpu

/// The value of a SYCL expression, whose errors become c10::Error. Every call
/// that can fail is made through this: no sycl::exception leaves the library.
#define C10_XPU_CHECK(...)                                                \
  ([&]() -> decltype(auto) {                                              \
    try {                                                                 \
      return __VA_ARGS__;                                                 \
    } catch (const sycl::exception& error) {                              \
      ::c10::xpu::impl::raise({#__VA_ARGS__, __FILE__, __LINE__}, error); \
    }                                                                     \
  }())
