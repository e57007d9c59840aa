#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/xpu/EmptyTensor.h>

// What PyTorch's ATen/xpu/EmptyTensor.h declares.

namespace at::detail {

namespace {

/// Those that name no device mean the current one.
TensorOptions onXPU(const TensorOptions& options) {
  return options.has_device() ? options : options.device(kXPU);
}

TensorOptions optionsFrom(
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory) {
  return TensorOptions()
      .dtype(dtype)
      .layout(layout)
      .device(device)
      .pinned_memory(pin_memory);
}

} // namespace

TensorBase empty_xpu(IntArrayRef size, const TensorOptions& options) {
  return at::empty(size, onXPU(options));
}

TensorBase empty_xpu(
    IntArrayRef size,
    ScalarType dtype,
    std::optional<Device> device,
    std::optional<c10::MemoryFormat> format) {
  return at::empty(
      size, onXPU(TensorOptions().dtype(dtype).device(device)), format);
}

TensorBase empty_xpu(
    IntArrayRef size,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> format) {
  return at::empty(
      size, onXPU(optionsFrom(dtype, layout, device, pin_memory)), format);
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    const TensorOptions& options) {
  return at::empty_strided(size, stride, onXPU(options));
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    ScalarType dtype,
    std::optional<Device> device) {
  return empty_strided_xpu(
      size, stride, TensorOptions().dtype(dtype).device(device));
}

TensorBase empty_strided_xpu(
    IntArrayRef size,
    IntArrayRef stride,
    std::optional<ScalarType> dtype,
    std::optional<Layout> layout,
    std::optional<Device> device,
    std::optional<bool> pin_memory) {
  return empty_strided_xpu(
      size, stride, optionsFrom(dtype, layout, device, pin_memory));
}

} // namespace at::detail
