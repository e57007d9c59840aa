#pragma once

#include <c10/core/Allocator.h>

namespace at::xpu {

/// The allocator behind Tensor.pin_memory() for XPU: getCachingHostAllocator().
C10_EXPORT c10::Allocator* getPinnedMemoryAllocator();

} // namespace at::xpu
