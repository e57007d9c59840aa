#include <ATen/xpu/detail/SparseCsr.h>

#include <ATen/SparseCsrTensorImpl.h>

#include <utility>

namespace at::xpu::detail {

namespace {

// Note [The key of compressed tensors]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// PyTorch 1.13 has a dispatch key for tensors with a compressed layout on the
// CPU, one for those on CUDA, and none for others. A key of our own would
// change the ABI. Those of XPU have the key of CUDA, which nothing else uses in
// a build without CUDA.
constexpr auto kKey = c10::DispatchKey::SparseCsrCUDA;

/// PyTorch's class takes only the devices that the keys are of.
struct XPUSparseCsrTensorImpl final : SparseCsrTensorImpl {
  /// Has no parts yet.
  XPUSparseCsrTensorImpl(Device device, Layout layout, caffe2::TypeMeta dtype)
      : SparseCsrTensorImpl(
            c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU),
            kCPU,
            layout,
            dtype) {
    key_set_ = key_set_.remove(c10::DispatchKey::SparseCsrCPU).add(kKey);
    device_opt_ = device;
  }

 private:
  template <typename Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool may_change)
      const {
    auto impl = c10::make_intrusive<XPUSparseCsrTensorImpl>(
        device(), layout_impl(), dtype());
    TensorImpl::copy_tensor_metadata(
        this, impl.get(), std::forward<Version>(version), may_change);
    impl->set_member_tensors(
        compressed_indices(), plain_indices(), values(), sizes());
    return impl;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version,
      bool may_change) const final {
    return copy(version, may_change);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version,
      bool may_change) const final {
    return copy(std::move(version), may_change);
  }
};

SparseCsrTensorImpl* implOf(const Tensor& tensor) {
  return static_cast<SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

} // namespace

c10::DispatchKey sparseCsrKey() {
  return kKey;
}

void setSparseCsr(
    const Tensor& to,
    const Tensor& from,
    const Convert& convert) {
  const auto* source = implOf(from);
  implOf(to)->set_member_tensors(
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
  auto tensor = device.is_xpu()
      ? at::detail::make_tensor<XPUSparseCsrTensorImpl>(
            device, like.layout(), dtype)
      : at::detail::make_tensor<SparseCsrTensorImpl>(
            c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU),
            device,
            like.layout(),
            dtype);
  setSparseCsr(tensor, like, convert);
  return tensor;
}

} // namespace at::xpu::detail
