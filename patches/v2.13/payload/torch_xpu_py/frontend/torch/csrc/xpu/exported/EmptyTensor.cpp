#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/xpu/EmptyTensor.h>
#include <c10/core/SymIntArrayRef.h>

// What PyTorch's ATen/xpu/EmptyTensor.h declares. A kernel gets memory whatever
// modes are on: these call the operators of the stage `tensor` by key.

namespace at::detail {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::XPU);

} // namespace

TensorBase empty_xpu(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> format) {
  return at::_ops::empty_memory_format::redispatch(
      kKeys,
      c10::fromIntArrayRefSlow(size),
      dtype,
      layout,
      device,
      pin_memory,
      format);
}

TensorBase empty_xpu(
    IntArrayRef size,
    ScalarType dtype,
    std::optional<Device> device,
    std::optional<c10::MemoryFormat> format) {
  return empty_xpu(size, dtype, {}, device, {}, format);
}

TensorBase empty_xpu(IntArrayRef size, const TensorOptions& options) {
  return empty_xpu(
      size,
      optTypeMetaToScalarType(options.dtype_opt()),
      options.layout_opt(),
      options.device_opt(),
      options.pinned_memory_opt(),
      options.memory_format_opt());
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory) {
  return at::_ops::empty_strided::redispatch(
      kKeys,
      c10::fromIntArrayRefSlow(size),
      c10::fromIntArrayRefSlow(stride),
      dtype,
      layout,
      device,
      pin_memory);
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    ScalarType dtype,
    std::optional<Device> device) {
  return empty_strided_xpu(size, stride, dtype, {}, device, {});
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    const TensorOptions& options) {
  return empty_strided_xpu(
      size,
      stride,
      optTypeMetaToScalarType(options.dtype_opt()),
      options.layout_opt(),
      options.device_opt(),
      options.pinned_memory_opt());
}

} // namespace at::detail
