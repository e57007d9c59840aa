#pragma once

#include <c10/core/Allocator.h>

namespace at {
namespace xpu {

/// The allocator behind Tensor.pin_memory() for XPU. See
/// getCachingHostAllocator for its errors.
C10_EXPORT c10::Allocator* getPinnedMemoryAllocator();

} // namespace xpu
} // namespace at
