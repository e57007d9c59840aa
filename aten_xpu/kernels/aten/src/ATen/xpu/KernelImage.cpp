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
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

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

using Bytes = std::string_view;

/// What a library that is loaded has in memory; nothing if it is not.
std::vector<Bytes> segmentsOf(const char* library) {
  std::pair<const char*, std::vector<Bytes>> wanted{library, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t /*size*/, void* data) {
        auto& [name, found] = *static_cast<decltype(wanted)*>(data);
        if (std::strstr(info->dlpi_name, name)) {
          for (const auto i : c10::irange(info->dlpi_phnum)) {
            const auto& part = info->dlpi_phdr[i];
            if (part.p_type == PT_LOAD && part.p_flags & PF_R) {
              found.emplace_back(
                  reinterpret_cast<char*>(info->dlpi_addr + part.p_vaddr),
                  part.p_memsz);
            }
          }
        }
        return 0;
      },
      &wanted);
  return wanted.second;
}

/// Where the bytes are; null if nowhere.
const char* findIn(const std::vector<Bytes>& segments, Bytes bytes) {
  for (const auto segment : segments) {
    const auto at = segment.find(bytes);
    if (at != Bytes::npos) {
      return segment.data() + at;
    }
  }
  return nullptr;
}

/// Has the compiler find its library for NVIDIA, which it carries as one of its
/// own files. SYCL 2026.2 keeps it below a prefix, and looks for it without.
/// The table of files has pointers to paths, and their lengths: this one's is
/// made to begin after the prefix. Returns that, or nothing where it is not
/// found, and the compiler says what it lacks.
std::string showLibspirv() {
  constexpr Bytes kPrefix = "/sycl-jit-toolchain";
  constexpr Bytes kPath =
      "/sycl-jit-toolchain/lib/clang/23/lib/nvptx64-nvidia-cuda/"
      "libspirv.l64.signed_char.bc";
  struct Entry {
    const char* path;
    size_t size;
  };
  const auto segments = segmentsOf("/libsycl-jit.so");
  const Entry made{
      findIn(segments, {kPath.data(), kPath.size() + 1}), kPath.size()};
  const auto* const found = made.path
      ? findIn(segments, {reinterpret_cast<const char*>(&made), sizeof(made)})
      : nullptr;
  if (!found) {
    return "";
  }
  // It is read only since the library was loaded.
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(found);
  const auto first = at / page * page;
  if (mprotect(
          reinterpret_cast<void*>(first),
          at + sizeof(Entry) - first,
          PROT_READ | PROT_WRITE) != 0) {
    return "";
  }
  *reinterpret_cast<Entry*>(at) = {
      made.path + kPrefix.size(), kPath.size() - kPrefix.size()};
  mprotect(
      reinterpret_cast<void*>(first), at + sizeof(Entry) - first, PROT_READ);
  return std::string(kPath.substr(kPrefix.size()));
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

ImageForm imageForm(const sycl::device& device) {
  if (!takesPtx(device)) {
    return ImageForm::SpirV;
  }
  // The compute capability.
  const auto version = device.get_info<sycl::info::device::version>();
  return std::atoi(version.c_str()) < 8 ? ImageForm::PtxForOldCards
                                        : ImageForm::Ptx;
}

bool takesPtx(const sycl::device& device) {
  return device.get_backend() == sycl::backend::ext_oneapi_cuda;
}

std::string ptxToLoad(ImageForm form, std::string ptx) {
  constexpr std::string_view kMade = ".version 6.3\n.target sm_75\n";
  const auto at = ptx.find(kMade);
  return form == ImageForm::Ptx && at != std::string::npos
      ? ptx.replace(at, kMade.size(), ".version 7.0\n.target sm_80\n")
      : ptx;
}

std::string imagesKey(ImageForm form, const std::string& source) {
  // Neither device nor driver: it compiles the image when it is loaded.
  return c10::str(
      form == ImageForm::SpirV     ? "spirv"
          : form == ImageForm::Ptx ? "ptx"
                                   : "ptx for sm_75",
      " ",
      __SYCL_COMPILER_VERSION,
      " ",
      kOptions,
      " ",
      digestOf(source));
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
    // SYCL has the driver load what it compiles, before ptxToLoad. So a kernel
    // rounds otherwise than the same one of a package, to the same numbers.
    options.emplace_back("-DXPU_FOR_OLD_CARDS");
    const auto folder = cudaFolder();
    TORCH_CHECK(
        !folder.empty(),
        "There is no libdevice.10.bc, which SYCL's run-time compiler needs for "
        "an NVIDIA device. Install the package triton or nvidia-nvvm, or set "
        "CUDA_PATH to a CUDA toolkit");
    options.push_back("--cuda-path=" + folder);
    static const std::string libspirv = showLibspirv();
    if (!libspirv.empty()) {
      options.push_back("-fsycl-libspirv-path=" + libspirv);
    }
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
