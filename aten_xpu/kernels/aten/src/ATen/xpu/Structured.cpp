#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/xpu/detail/Structured.h>

namespace at::xpu::detail {

void Outputs::prepare(
    int64_t index,
    IntArrayRef sizes,
    IntArrayRef strides,
    const TensorOptions& options) {
  auto& output = tensors_[index];
  if (kind_ == Kind::New) {
    output = strides.empty() ? at::empty(sizes, options)
                             : at::empty_strided(sizes, strides, options);
    return;
  }
  if (kind_ == Kind::None) {
    output = at::empty({}, options).expand(sizes);
    return;
  }
  const auto type = output.dtype();
  if (kind_ == Kind::InPlace) {
    TORCH_CHECK(
        options.dtype() == type,
        "Bad in-place call: input tensor dtype ",
        type,
        " and output tensor dtype ",
        options.dtype(),
        " should match");
    TORCH_CHECK(
        sizes == output.sizes(),
        "Bad in-place call: input tensor size ",
        output.sizes(),
        " and output tensor size ",
        sizes,
        " should match");
  }
  TORCH_CHECK(
      options.dtype() == type,
      "Expected out tensor to have dtype ",
      options.dtype(),
      ", but got ",
      type,
      " instead");
  TORCH_CHECK(
      options.device() == output.device(),
      "Expected out tensor to have device ",
      options.device(),
      ", but got ",
      output.device(),
      " instead");
  if (kind_ == Kind::Out && at::native::resize_output(output, sizes)) {
    if (!strides.empty()) {
      output.as_strided_(sizes, strides);
    } else if (const auto format = options.memory_format_opt()) {
      output.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
  }
}

bool Outputs::give(const Tensor& result) {
  if (!result.defined() || kind_ == Kind::InPlace ||
      (kind_ == Kind::Out &&
       tensors_[0].scalar_type() != result.scalar_type())) {
    return false;
  }
  if (kind_ == Kind::New) {
    tensors_[0] = result;
    return true;
  }
  prepare(0, result.sizes(), {}, result.options());
  tensors_[0].copy_(result);
  return true;
}

} // namespace at::xpu::detail
