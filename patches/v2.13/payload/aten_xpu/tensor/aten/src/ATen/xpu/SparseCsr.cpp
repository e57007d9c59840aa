#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/SparseCsr.h>

namespace at::xpu::detail {

void setSparseCsr(
    const Tensor& to,
    const Tensor& from,
    const Convert& convert) {
  const auto* source = sparse_csr::get_sparse_csr_impl(from);
  sparse_csr::get_sparse_csr_impl(to)->set_member_tensors(
      convert(source->compressed_indices()),
      convert(source->plain_indices()),
      convert(source->values()),
      from.sizes());
}

Tensor newSparseCsr(const Tensor& like, Device device, const Convert& convert) {
  auto tensor = at::detail::make_tensor<SparseCsrTensorImpl>(
      c10::DispatchKeySet(
          device.is_cpu() ? c10::DispatchKey::SparseCsrCPU
                          : c10::DispatchKey::SparseCsrXPU),
      device,
      like.layout(),
      like.dtype());
  setSparseCsr(tensor, like, convert);
  return tensor;
}

void registerSparseCsrFallback() {
  registerDispatchingFallback(
      c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SparseCsrXPU);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrXPU, m) {
  m.impl("empty.memory_format", dispatchingFunction());
}

} // namespace at::xpu::detail
