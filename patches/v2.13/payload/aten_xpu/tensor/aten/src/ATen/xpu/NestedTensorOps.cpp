#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/empty_like_native.h>
#include <torch/library.h>

namespace at::xpu {

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("_nested_view_from_buffer", &at::native::_nested_view_from_buffer);
}

// What does not return tensors of the device: what describes a nested tensor is
// on the CPU, and copies may be asked for on another device.
TORCH_LIBRARY_IMPL(aten, NestedTensorXPU, m) {
  m.impl("_nested_tensor_size", &at::native::_nested_tensor_size);
  m.impl("_nested_tensor_strides", &at::native::_nested_tensor_strides);
  m.impl(
      "_nested_tensor_storage_offsets",
      &at::native::_nested_tensor_storage_offsets);
  m.impl("_to_copy", &at::native::_to_copy_nested);
  m.impl("empty_like", &at::native::empty_like_nested);
}

} // namespace at::xpu
