#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/KernelCache.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/util/irange.h>
#include <torch/library.h>

#include <string>
#include <vector>

// For torch/xpu/kernels.py, and for who makes a package, and compiles for
// devices that are not there.

namespace at::xpu::detail {

namespace {

/// Of each unit the name and the source.
std::vector<std::string> namesAndSources() {
  std::vector<std::string> result;
  for (const auto* unit : kernelUnits()) {
    result.push_back(unit->name);
    result.push_back(unit->source(unit->which));
  }
  return result;
}

bool loadByName(const std::string& name, int64_t device) {
  for (const auto* unit : kernelUnits()) {
    if (unit->name == name) {
      return loadKernels(*unit, static_cast<DeviceIndex>(device));
    }
  }
  TORCH_CHECK_VALUE(false, "No unit of kernels is named '", name, "'");
}

/// Keeps the images of a source in a folder, as the cache does.
bool keep(
    const std::string& folder,
    bool ptx,
    const std::string& source,
    const std::vector<std::string>& kernels,
    TensorList codes) {
  std::vector<KernelImage> images;
  for (const auto i : c10::irange(codes.size())) {
    const auto& code = codes[i];
    images.push_back(
        {kernels.at(i),
         {static_cast<const char*>(code.data_ptr()), size_t(code.nbytes())}});
  }
  return storeKernels(
      folder,
      imagesKey(ptx ? ImageForm::Ptx : ImageForm::SpirV, source),
      images);
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_kernel_units() -> str[]", &namesAndSources);
  m.def("_kernel_cache_folder() -> str", &kernelCacheFolder);
  m.def("_load_kernels(str unit, int device) -> bool", &loadByName);
  m.def(
      "_keep_kernels(str folder, bool ptx, str source, str[] kernels, Tensor[] codes) -> bool",
      &keep);
}

} // namespace at::xpu::detail
