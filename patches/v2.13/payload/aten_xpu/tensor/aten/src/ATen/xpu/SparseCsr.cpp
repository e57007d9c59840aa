#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/xpu/detail/SparseCsr.h>

namespace at::xpu::detail {

c10::DispatchKey sparseCsrKey() {
  return c10::DispatchKey::SparseCsrXPU;
}

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

Tensor newSparseCsr(
    const Tensor& like,
    Device device,
    caffe2::TypeMeta dtype,
    const Convert& convert) {
  auto tensor = at::detail::make_tensor<SparseCsrTensorImpl>(
      c10::DispatchKeySet(
          device.is_cpu() ? c10::DispatchKey::SparseCsrCPU : sparseCsrKey()),
      device,
      like.layout(),
      dtype);
  setSparseCsr(tensor, like, convert);
  return tensor;
}

} // namespace at::xpu::detail
