#pragma once

#include <ATen/Context.h>
#include <ATen/native/ResizeCommon.h>

// With deterministic algorithms, memory that was not written has known values:
// torch.utils.deterministic.fill_uninitialized_memory.

namespace at::xpu::detail {

inline bool fillsUninitialized() {
  return globalContext().deterministicAlgorithms() &&
      globalContext().deterministicFillUninitializedMemory();
}

inline void fillEmpty(Tensor& tensor) {
  if (C10_UNLIKELY(fillsUninitialized())) {
    at::native::fill_empty_deterministic_(tensor);
  }
}

/// Fills what a resize has added to the storage.
inline void fillResized(const Tensor& tensor, size_t old_nbytes) {
  if (C10_UNLIKELY(fillsUninitialized())) {
    at::native::fill_resize_deterministic_(
        tensor, static_cast<int64_t>(old_nbytes));
  }
}

} // namespace at::xpu::detail
