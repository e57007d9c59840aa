#pragma once

#include <ATen/NestedTensorImpl.h>

#include <utility>
#include <vector>

namespace at::xpu::detail {

/// PyTorch's class takes only memory of the CPU and of CUDA when it is made.
struct XPUNestedTensorImpl final : native::NestedTensorImpl {
  XPUNestedTensorImpl(
      Storage storage,
      c10::DispatchKeySet keys,
      caffe2::TypeMeta dtype,
      const Tensor& sizes,
      const Tensor& strides,
      std::vector<int64_t> offsets)
      : NestedTensorImpl(
            sizes.storage(), // any of the CPU
            keys,
            dtype,
            sizes,
            strides,
            std::move(offsets)) {
    set_storage_keep_dtype(std::move(storage));
  }

 private:
  template <typename Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool may_change)
      const {
    auto impl = c10::make_intrusive<XPUNestedTensorImpl>(
        storage_,
        key_set_,
        data_type_,
        get_nested_size_tensor(),
        get_nested_stride_tensor(),
        get_offsets());
    copy_tensor_metadata(
        this, impl.get(), std::forward<Version>(version), may_change);
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

} // namespace at::xpu::detail
