#include <ATen/xpu/detail/NestedTensor.h>

#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/xpu/detail/Operators.h>

#include <utility>

namespace at::xpu::detail {

Tensor newNested(
    const Tensor& like,
    Storage storage,
    c10::DispatchKeySet keys,
    int64_t offset) {
  const auto* source = native::get_nested_tensor_impl(like);
  auto offsets = source->get_storage_offsets();
  if (offset != 0) {
    offsets = at::add(offsets, offset);
  }
  return at::detail::make_tensor<native::NestedTensorImpl>(
      std::move(storage),
      keys | c10::DispatchKeySet(c10::DispatchKey::AutogradNestedTensor),
      like.dtype(),
      source->get_nested_sizes(),
      source->get_nested_strides(),
      std::move(offsets));
}

void registerNestedFallback() {
  registerDispatchingFallback(
      c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorXPU);
}

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

} // namespace at::xpu::detail
