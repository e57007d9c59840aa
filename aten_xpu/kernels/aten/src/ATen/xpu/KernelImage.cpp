#include <ATen/xpu/detail/KernelImage.h>

#include <ATen/xpu/detail/KernelCache.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>

#include <sycl/kernel_bundle.hpp>
#include <sycl/version.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace at::xpu::detail {

namespace {

namespace ex = sycl::ext::oneapi::experimental;
namespace fs = std::filesystem;

// An image has one kernel, since a driver compiles all that is in an image when
// it is loaded.
constexpr const char* kOptions = "-fsycl-device-code-split=per_kernel";

template <typename T>
T read(const std::string& bytes, uint64_t at) {
  T value{};
  TORCH_CHECK(
      at <= bytes.size() && sizeof(T) <= bytes.size() - at,
      "A SYCLBIN ends at byte ",
      bytes.size(),
      ", before byte ",
      at);
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// The first kernel in SPIR-V or PTX. In PTX each kernel is there twice, the
/// second time for a range that does not begin at 0.
std::string kernelOf(const std::string& code) {
  if (code.rfind("\x03\x02\x23\x07", 0) == 0) {
    constexpr uint32_t kEntryPoint = 15;
    for (uint64_t at = 20; at < code.size();) {
      const auto word = read<uint32_t>(code, at);
      if ((word & 0xFFFF) == kEntryPoint) {
        return code.c_str() + at + 12;
      }
      at += std::max<uint64_t>(word >> 16, 1) * 4;
    }
  } else {
    constexpr const char* kEntry = ".entry ";
    const auto at = code.find(kEntry);
    if (at != std::string::npos) {
      const auto begin = at + std::strlen(kEntry);
      return code.substr(begin, code.find('(', begin) - begin);
    }
  }
  TORCH_CHECK(false, "An image of ", code.size(), " bytes has no kernel");
}

/// Where pip has installed this library,
/// torch_xpu_runtime/lib/libtorch_xpu.so; empty if that is not known.
fs::path sitePackages() {
  Dl_info self{};
  return dladdr(reinterpret_cast<void*>(&compileKernels), &self) &&
          self.dli_fname
      ? fs::path(self.dli_fname).parent_path().parent_path().parent_path()
      : fs::path();
}

/// The folder with nvvm/libdevice of a CUDA toolkit; empty if there is none.
std::string cudaFolder() {
  const std::string kDevice = "nvvm/libdevice/libdevice.10.bc";
  std::error_code error;
  for (const auto& folder : cudaFolders()) {
    if (fs::exists(fs::path(folder) / kDevice, error)) {
      return folder;
    }
  }
  // Triton has the file in a folder of its own.
  const auto triton =
      sitePackages() / "triton/backends/nvidia/lib/libdevice.10.bc";
  const auto cache = kernelCacheFolder();
  if (!cache.empty() && fs::exists(triton, error)) {
    const auto folder = fs::path(cache) / "cuda";
    for (const auto* part : {"bin", "include", "nvvm/libdevice"}) {
      fs::create_directories(folder / part, error);
    }
    fs::copy_file(
        triton, folder / kDevice, fs::copy_options::skip_existing, error);
    if (fs::exists(folder / kDevice, error)) {
      return folder.string();
    }
  }
  return "";
}

} // namespace

std::vector<std::string> cudaFolders() {
  std::vector<std::string> folders;
  for (const auto* name : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* const value = std::getenv(name)) {
      folders.emplace_back(value);
    }
  }
  if (const auto site = sitePackages(); !site.empty()) {
    for (const auto* package : {"cu13", "cuda_nvcc", "cublas", "cudnn"}) {
      folders.push_back((site / "nvidia" / package).string());
    }
  }
  folders.emplace_back("/usr/local/cuda");
  return folders;
}

bool takesPtx(const sycl::device& device) {
  return device.get_backend() == sycl::backend::ext_oneapi_cuda;
}

std::string imagesKey(bool ptx, const std::string& source) {
  // Neither device nor driver: it compiles the image when it is loaded.
  return c10::str(
      ptx ? "ptx" : "spirv",
      " ",
      __SYCL_COMPILER_VERSION,
      " ",
      kOptions,
      "\n",
      source);
}

std::vector<KernelImage> imagesOf(const std::string& syclbin) {
  // LLVM's container: after its magic number and version, sizes and offsets of
  // 64 bits; the first entry says where the SYCLBIN is.
  TORCH_CHECK(
      syclbin.rfind("\x10\xFF\x10\xAD", 0) == 0,
      "SYCL's compiler gave something else than a SYCLBIN");
  const auto entry = read<uint64_t>(syclbin, 16);
  const auto begin = read<uint64_t>(syclbin, entry + 24);
  // Its header: magic number, version, three counts; the sizes of two tables.
  TORCH_CHECK(
      read<uint32_t>(syclbin, begin) == 0x53594249 &&
          read<uint32_t>(syclbin, begin + 4) == 1,
      "SYCL's compiler gave a SYCLBIN of another version than 1");
  constexpr uint64_t kHeader = 56;
  constexpr uint64_t kModule = 32;
  const auto abstract = read<uint32_t>(syclbin, begin + 8);
  const auto images = read<uint32_t>(syclbin, begin + 12) +
      uint64_t(read<uint32_t>(syclbin, begin + 16));
  const auto headers = begin + kHeader + abstract * kModule;
  const auto metadata = headers + images * kModule;
  const auto code =
      (metadata + read<uint64_t>(syclbin, begin + 24) + 7) / 8 * 8;
  std::vector<KernelImage> result;
  for (const auto i : c10::irange(images)) {
    const auto header = headers + i * kModule;
    const auto offset = read<uint64_t>(syclbin, header + 16);
    const auto size = read<uint64_t>(syclbin, header + 24);
    TORCH_CHECK(
        code + offset + size <= syclbin.size(), "A SYCLBIN lacks an image");
    auto bytes = syclbin.substr(code + offset, size);
    auto kernel = kernelOf(bytes);
    result.push_back({std::move(kernel), std::move(bytes)});
  }
  return result;
}

std::vector<KernelImage> compileKernels(
    const sycl::device& device,
    const std::string& source) {
  TORCH_CHECK(
      C10_XPU_CHECK(
          sycl::device(device).ext_oneapi_can_build(ex::source_language::sycl)),
      "SYCL's run-time compiler, libsycl-jit.so, is not installed. It is in the "
      "package intel-sycl-rt");
  std::vector<std::string> options{kOptions};
  if (takesPtx(device)) {
    const auto folder = cudaFolder();
    TORCH_CHECK(
        !folder.empty(),
        "There is no libdevice.10.bc, which SYCL's run-time compiler needs for "
        "an NVIDIA device. Install the package triton or nvidia-nvvm, or set "
        "CUDA_PATH to a CUDA toolkit");
    options.push_back("--cuda-path=" + folder);
  }
  auto bundle = C10_XPU_CHECK(
      ex::create_kernel_bundle_from_source(
          c10::xpu::get_device_context(), ex::source_language::sycl, source));
  const auto compiled = C10_XPU_CHECK(
      ex::compile(
          bundle, {device}, ex::properties{ex::build_options{options}}));
  const auto content = C10_XPU_CHECK(compiled.ext_oneapi_get_content());
  return imagesOf(std::string(content.begin(), content.end()));
}

} // namespace at::xpu::detail
