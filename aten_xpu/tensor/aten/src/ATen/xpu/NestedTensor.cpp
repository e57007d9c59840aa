#include <ATen/xpu/detail/NestedTensor.h>

#include <c10/util/Exception.h>

// PyTorch 1.13 has few operators for them, and none that copies to a device.

namespace at::xpu::detail {

Tensor newNested(
    const Tensor& /*like*/,
    Storage /*storage*/,
    c10::DispatchKeySet /*keys*/,
    int64_t /*offset*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "There are no nested tensors on XPU in this release of PyTorch");
}

void registerNestedFallback() {}

} // namespace at::xpu::detail
