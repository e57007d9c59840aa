#include <ATen/xpu/detail/NestedTensor.h>

#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/add.h>

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

} // namespace at::xpu::detail
