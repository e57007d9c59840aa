#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <torch/library.h>

// Tensor.is_pinned and Tensor.pin_memory, when they are given an XPU device.

namespace at::xpu {

namespace {

bool is_pinned(const Tensor& self, c10::optional<Device> /*device*/) {
  return at::detail::getXPUHooks().isPinnedPtr(self.storage().data());
}

Tensor _pin_memory(const Tensor& self, c10::optional<Device> /*device*/) {
  const auto nbytes = static_cast<int64_t>(at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.dtype().itemsize()));
  auto storage = Storage(
      Storage::use_byte_size_t(),
      nbytes,
      getCachingHostAllocator(),
      /*resizable=*/false);
  auto tensor = at::empty({0}, self.options().device(kCPU))
                    .set_(storage, 0, self.sizes(), self.strides());
  return tensor.copy_(self);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("is_pinned", TORCH_FN(is_pinned));
  m.impl("_pin_memory", TORCH_FN(_pin_memory));
}

} // namespace at::xpu
