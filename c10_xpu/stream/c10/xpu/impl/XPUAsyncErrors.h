#pragma once

#include <c10/core/Device.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/exception_list.hpp>

#include <string>

namespace c10 {
namespace xpu {
namespace impl {

// Note [Asynchronous errors]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// SYCL keeps the errors of work that already runs (of host tasks above all)
// until somebody calls throw_asynchronous() or wait_and_throw(). Then the
// handler of the failed queue is called, or that of its context; one that has
// neither gets SYCL's default handler, which ends the process. Two properties
// of the runtime decide the design:
//
//  - Which call delivers what differs between versions. Some deliver the errors
//    of the one queue, some those of every queue of the context, whichever
//    queue was asked. So who calls the handler need not be who owns the error.
//  - Where one call delivers for several queues, a handler that throws would
//    keep the others from being called.
//
// Therefore our handlers never throw: they put the text into the one list here,
// with the device it belongs to. Whoever synchronizes then takes what the list
// has for his device and raises all of it as one c10::Error. The context of all
// devices has such a handler too (see Note [One context for all devices]): with
// it, an external queue that was made without a handler cannot end the process
// either. Its errors name no device and go to whoever synchronizes first.

/// The handler of the context: keeps the errors for the next synchronization,
/// of whichever device.
C10_XPU_API void keepContextErrors(sycl::exception_list errors);

/// The handler of a stream's queue; `origin` says which stream it is.
void keepStreamErrors(
    sycl::exception_list errors,
    DeviceIndex device,
    const std::string& origin);

/// Raises what is kept for a device, if anything, and forgets it. One relaxed
/// load if nothing is kept. Delivery by SYCL must come before.
C10_XPU_API void raiseAsyncErrors(DeviceIndex device);

} // namespace impl
} // namespace xpu
} // namespace c10
