#include <ATen/xpu/detail/CublasLt.h>

#include <ATen/xpu/detail/Kernel.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <mutex>

namespace at::xpu::detail {

namespace {

constexpr size_t kOldestCublasLt = 110400; // 11.4

CublasLt loadCublasLt() {
  CublasLt library{};
  library.take(
      openOfCuda({"libcublasLt.so.13", "libcublasLt.so.12"}),
      missingOfCuda("libcublasLt.so", "nvidia-cublas"));
  library.look("cublasLtGetVersion", library.version);
  if (library.problem.empty()) {
    const auto version = library.version();
    library.setVersion(
        c10::str(version / 10000, ".", version / 100 % 100, ".", version % 100),
        version >= kOldestCublasLt);
  }
  const auto look = [&](const std::string& name, auto& function) {
    library.look("cublasLt" + name, function);
  };
  look("Create", library.create);
  look("MatmulDescCreate", library.create_desc);
  look("MatmulDescSetAttribute", library.set_desc);
  look("MatmulDescDestroy", library.destroy_desc);
  look("MatrixLayoutCreate", library.create_layout);
  look("MatrixLayoutSetAttribute", library.set_layout);
  look("MatrixLayoutDestroy", library.destroy_layout);
  look("MatmulPreferenceCreate", library.create_preference);
  look("MatmulPreferenceSetAttribute", library.set_preference);
  look("MatmulPreferenceDestroy", library.destroy_preference);
  look("MatmulAlgoGetHeuristic", library.heuristic);
  look("Matmul", library.matmul);
  return library;
}

} // namespace

const CublasLt& cublasLt() {
  static const auto& opened = *new CublasLt(loadCublasLt());
  return opened;
}

void* cublasLtHandle(DeviceIndex index) {
  struct Handle {
    std::once_flag once;
    void* handle = nullptr;
  };
  static auto& handles = *new std::array<Handle, kMostDevices>();
  auto& place = handles.at(index);
  std::call_once(place.once, [&] {
    makeFirstHandle(index, "Products of matrices", [&]() -> std::string {
      const auto& library = cublasLt();
      if (!library.problem.empty()) {
        return library.problem;
      }
      void* handle = nullptr;
      const int status = library.create(&handle);
      if (status != 0) {
        return c10::str("cublasLtCreate returned ", status);
      }
      place.handle = handle;
      return "";
    });
  });
  return place.handle;
}

// For torch/xpu/_libraries.py.
TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_cublas_lt() -> (str, str, str)", [] { return cublasLt().words(); });
}

} // namespace at::xpu::detail
