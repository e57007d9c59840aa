#include <ATen/xpu/detail/KernelSources.h>

#include <ATen/xpu/detail/KernelTypes.h>

namespace at::xpu::detail {

std::string typedSource(int type) {
  constexpr const char* kCommon =
#include <ATen/xpu/kernels/Common.sycl>
      ;
  return std::string(kCommon) + "#define XPU_T " + kKernelTypes[type].name +
      "\n";
}

const char* pointwiseSource() {
  return
#include <ATen/xpu/kernels/Pointwise.sycl>
      ;
}

} // namespace at::xpu::detail
