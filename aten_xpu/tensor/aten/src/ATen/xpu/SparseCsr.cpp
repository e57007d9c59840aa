#include <ATen/xpu/detail/SparseCsr.h>

#include <c10/util/Exception.h>

// PyTorch 1.13 has no dispatch key for these tensors on XPU.

namespace at::xpu::detail {

Tensor newSparseCsr(
    const Tensor& like,
    Device device,
    const Convert& /*convert*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "There are no tensors of layout ",
      like.layout(),
      " on ",
      device,
      " in this release of PyTorch. Use to_sparse() or to_dense().");
}

void setSparseCsr(
    const Tensor& to,
    const Tensor& from,
    const Convert& /*convert*/) {
  newSparseCsr(from, to.device(), {});
}

void registerSparseCsrFallback() {}

} // namespace at::xpu::detail
