#include <ATen/ops/_nested_tensor_from_tensor_list_native.h>
#include <ATen/ops/_nested_tensor_offsets_native.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/XPUNestedTensorImpl.h>
#include <torch/library.h>

#include <optional>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

/// A tensor of the buffer's dtype and device, over its whole storage.
Tensor wrap(
    const Tensor& buffer,
    const Tensor& sizes,
    const Tensor& strides,
    std::vector<int64_t> offsets) {
  return at::detail::make_tensor<XPUNestedTensorImpl>(
      buffer.storage(),
      c10::DispatchKeySet(
          {buffer.is_xpu() ? c10::DispatchKey::NestedTensorXPU
                           : c10::DispatchKey::NestedTensorCPU,
           c10::DispatchKey::AutogradNestedTensor}),
      buffer.dtype(),
      sizes,
      strides,
      std::move(offsets));
}

Tensor view_from_buffer(
    const Tensor& buffer,
    const Tensor& sizes,
    const Tensor& strides,
    IntArrayRef offsets) {
  return wrap(buffer, sizes, strides, offsets.vec());
}

Tensor to_copy(
    const Tensor& self,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    bool non_blocking,
    c10::optional<MemoryFormat> format) {
  const auto* source = native::get_nested_tensor_impl(self);
  return wrap(
      at::_to_copy(
          source->get_buffer(),
          dtype,
          layout,
          device,
          pin_memory,
          non_blocking,
          format),
      source->get_nested_size_tensor(),
      source->get_nested_stride_tensor(),
      source->get_offsets());
}

/// PyTorch's own makes the result on its device at once.
Tensor from_tensor_list(
    TensorList list,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory) {
  const auto from = list.empty() ? Device(kCPU) : list[0].device();
  const auto to = device.value_or(from);
  if (!to.is_xpu()) {
    return native::_nested_tensor_from_tensor_list(
        list, dtype, layout, device, pin_memory);
  }
  std::optional<HostCall> call;
  std::vector<Tensor> parts = list.vec();
  if (from.is_xpu()) {
    call.emplace(from.index(), "aten::_nested_tensor_from_tensor_list");
    for (auto& part : parts) {
      part = call->toHost(part);
    }
  }
  auto nested = native::_nested_tensor_from_tensor_list(
      parts, dtype, layout, Device(kCPU), pin_memory);
  if (call) {
    nested = call->toDevice(nested);
    call->finish();
  }
  return nested.to(to);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, BackendSelect, m) { // the list may be empty
  m.impl("_nested_tensor_from_tensor_list", TORCH_FN(from_tensor_list));
}
TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("_nested_view_from_buffer", TORCH_FN(view_from_buffer));
}

// PyTorch 1.13 copies nested tensors to no device.
TORCH_LIBRARY_IMPL(aten, NestedTensorCPU, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
}
// What describes a nested tensor is on the CPU.
TORCH_LIBRARY_IMPL(aten, NestedTensorXPU, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("_nested_tensor_size", &at::native::_nested_tensor_size);
  m.impl("_nested_tensor_strides", &at::native::_nested_tensor_strides);
  m.impl("_nested_tensor_offsets", &at::native::_nested_tensor_offsets);
}

} // namespace at::xpu::detail
