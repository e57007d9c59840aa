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

const char* reduceSource() {
  return
#include <ATen/xpu/kernels/Reduce.sycl>
      ;
}

const char* rowsSource() {
  return
#include <ATen/xpu/kernels/Rows.sycl>
      ;
}

const char* scanSource() {
  return
#include <ATen/xpu/kernels/Scan.sycl>
      ;
}

} // namespace at::xpu::detail
