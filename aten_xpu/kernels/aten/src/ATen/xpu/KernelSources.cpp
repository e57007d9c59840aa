#include <ATen/xpu/detail/KernelSources.h>

#include <ATen/xpu/detail/KernelTypes.h>

namespace at::xpu::detail {

std::string typedSource(int type) {
  constexpr const char* kCommon =
#include <ATen/xpu/kernels/Common.sycl>
      ;
  return std::string("#define XPU_T ") + kKernelTypes[type].name + "\n" +
      kCommon;
}

const char* pointwiseSource() {
  return
#include <ATen/xpu/kernels/Pointwise.sycl>
      ;
}

std::string specialSource() {
#define XPU_CODE(...) #__VA_ARGS__
  static constexpr const char* kGamma =
#include <ATen/xpu/kernels/Gamma.def>
      ;
#undef XPU_CODE
  static constexpr const char* kSource =
#include <ATen/xpu/kernels/Special.sycl>
      ;
  return replaced(kSource, "XPU_GAMMA", kGamma);
}

std::string replaced(
    std::string source,
    const std::string& name,
    const char* by) {
  return source.replace(source.find(name), name.size(), by);
}

} // namespace at::xpu::detail
