#include <ATen/xpu/detail/KernelSources.h>

namespace at::xpu::detail {

const char* commonSource() {
  return
#include <ATen/xpu/kernels/Common.sycl>
      ;
}

const char* pointwiseSource() {
  return
#include <ATen/xpu/kernels/Pointwise.sycl>
      ;
}

} // namespace at::xpu::detail
