#include <ATen/xpu/detail/NestedTensor.h>

#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/_nested_tensor_from_tensor_list_native.h>
#include <ATen/ops/_nested_tensor_offsets_native.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/Operators.h>

#include <optional>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

/// PyTorch's class takes only memory of the CPU and of CUDA when it is made.
struct XPUNestedTensorImpl final : native::NestedTensorImpl {
  XPUNestedTensorImpl(
      Storage storage,
      c10::DispatchKeySet keys,
      caffe2::TypeMeta dtype,
      const Tensor& sizes,
      const Tensor& strides,
      std::vector<int64_t> offsets)
      : NestedTensorImpl(
            sizes.storage(), // any of the CPU
            keys,
            dtype,
            sizes,
            strides,
            std::move(offsets)) {
    set_storage_keep_dtype(std::move(storage));
  }

 private:
  template <typename Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool may_change)
      const {
    auto impl = c10::make_intrusive<XPUNestedTensorImpl>(
        storage_,
        key_set_,
        data_type_,
        get_nested_size_tensor(),
        get_nested_stride_tensor(),
        get_offsets());
    copy_tensor_metadata(
        this, impl.get(), std::forward<Version>(version), may_change);
    return impl;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version,
      bool may_change) const final {
    return copy(version, may_change);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version,
      bool may_change) const final {
    return copy(std::move(version), may_change);
  }
};

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
    call.emplace(from.index());
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

Tensor newNested(
    const Tensor& like,
    Storage storage,
    c10::DispatchKeySet keys,
    int64_t offset) {
  const auto* source = native::get_nested_tensor_impl(like);
  auto offsets = source->get_offsets();
  for (auto& begin : offsets) {
    begin += offset;
  }
  return at::detail::make_tensor<XPUNestedTensorImpl>(
      std::move(storage),
      keys | c10::DispatchKeySet(c10::DispatchKey::AutogradNestedTensor),
      like.dtype(),
      source->get_nested_size_tensor(),
      source->get_nested_stride_tensor(),
      std::move(offsets));
}

void registerNestedFallback() {
  registerDispatchingFallback(
      c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorXPU);
}

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
