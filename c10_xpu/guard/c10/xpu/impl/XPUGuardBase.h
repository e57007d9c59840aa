#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace c10::xpu::impl {

/// What XPUGuardImpl derives from. It implements all of this interface.
using XPUGuardBase = c10::impl::DeviceGuardImplInterface;

} // namespace c10::xpu::impl
