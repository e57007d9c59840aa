#include <ATen/xpu/detail/NestedTensor.h>

#include <ATen/xpu/detail/XPUNestedTensorImpl.h>

#include <utility>

namespace at::xpu::detail {

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

} // namespace at::xpu::detail
