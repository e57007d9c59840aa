#include <ATen/xpu/detail/CublasLt.h>

#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/KernelImage.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

namespace at::xpu::detail {

namespace {

constexpr size_t kOldestCublasLt = 110400; // 11.4

} // namespace

CublasLt::CublasLt()
    : VendorLibrary(
          openOfCuda({"libcublasLt.so.13", "libcublasLt.so.12"}),
          "cublasLt",
          missingOfCuda("libcublasLt.so", "nvidia-cublas")) {
  if (version) {
    const auto number = version();
    setVersion(
        c10::str(number / 10000, ".", number / 100 % 100, ".", number % 100),
        number >= kOldestCublasLt);
  }
}

const CublasLt& cublasLt() {
  static const auto& opened = *new CublasLt();
  return opened;
}

void* cublasLtHandle(DeviceIndex device) {
  static auto& handles = *new VendorHandles{
      "Products of matrices",
      &takesPtx,
      [](DeviceIndex index, void** made) -> std::string {
        enterCuda(index);
        const auto& library = cublasLt();
        const int status = library.problem.empty() ? library.create(made) : 0;
        return status == 0 ? library.problem
                           : c10::str("cublasLtCreate returned ", status);
      }};
  return handles.of(device);
}

// For torch/xpu/_libraries.py.
TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_cublas_lt() -> (str, str, str)", [] { return cublasLt().words(); });
}

} // namespace at::xpu::detail
