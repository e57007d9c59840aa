#include <ATen/xpu/detail/OpenClKernel.h>

#include <ATen/xpu/detail/KernelCache.h>
#include <c10/util/StringUtil.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUNative.h>

#include <sycl/backend.hpp>
#include <sycl/backend/opencl.hpp>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

constexpr auto kOpenCl = sycl::backend::opencl;

/// The functions of the OpenCL that SYCL has loaded.
struct OpenCl {
#define XPU_OPENCL(name)                                        \
  decltype(::name)* name = reinterpret_cast<decltype(::name)*>( \
      c10::xpu::impl::openClFunction(#name))
  XPU_OPENCL(clBuildProgram);
  XPU_OPENCL(clCreateKernel);
  XPU_OPENCL(clCreateProgramWithBinary);
  XPU_OPENCL(clGetProgramInfo);
  XPU_OPENCL(clReleaseContext);
  XPU_OPENCL(clReleaseDevice);
  XPU_OPENCL(clReleaseKernel);
  XPU_OPENCL(clReleaseProgram);
#undef XPU_OPENCL

  explicit operator bool() const {
    return clBuildProgram && clCreateKernel && clCreateProgramWithBinary &&
        clGetProgramInfo && clReleaseContext && clReleaseDevice &&
        clReleaseKernel && clReleaseProgram;
  }
};

const OpenCl& openCl() {
  static const OpenCl all;
  return all;
}

std::string builtFolder() {
  const auto folder = kernelCacheFolder();
  return folder.empty() ? "" : folder + "/built";
}

/// What the processor can do, and what the environment tells the driver.
const std::string& circumstances() {
  static const std::string all = [] {
    std::string found;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; found.empty() && std::getline(file, line);) {
      if (line.rfind("flags", 0) == 0) {
        found = line;
      }
    }
    std::vector<std::string> told;
    for (char** one = environ; one && *one; ++one) {
      const std::string variable(*one);
      if (variable.rfind("CL_CONFIG_", 0) == 0) {
        told.push_back(variable);
      }
    }
    std::sort(told.begin(), told.end());
    for (const auto& variable : told) {
      found += "\n" + variable;
    }
    return found;
  }();
  return all;
}

} // namespace

std::optional<std::string> builtKey(
    const sycl::device& device,
    const std::string& code) {
  if (device.get_backend() != kOpenCl || !device.is_cpu() || !openCl() ||
      builtFolder().empty()) {
    return std::nullopt;
  }
  namespace info = sycl::info::device;
  return c10::str(
      "built ",
      C10_XPU_CHECK(device.get_info<info::name>()),
      " ",
      C10_XPU_CHECK(device.get_info<info::driver_version>()),
      "\n",
      circumstances(),
      "\n",
      code);
}

std::optional<sycl::kernel> loadBuilt(
    const sycl::device& device,
    const std::string& key,
    const std::string& name) {
  const auto kept = loadKernels(builtFolder(), key);
  if (!kept || kept->size() != 1) {
    return std::nullopt;
  }
  // Its objects are ours to release: SYCL counts its own.
  const auto& cl = openCl();
  const auto& context = c10::xpu::get_device_context();
  const auto native = C10_XPU_CHECK(sycl::get_native<kOpenCl>(context));
  const auto target = C10_XPU_CHECK(sycl::get_native<kOpenCl>(device));
  const auto& code = kept->front().code;
  const auto size = code.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(code.data());
  cl_int error = CL_SUCCESS;
  std::optional<sycl::kernel> found;
  if (const auto program = cl.clCreateProgramWithBinary(
          native, 1, &target, &size, &bytes, nullptr, &error)) {
    error = cl.clBuildProgram(program, 1, &target, nullptr, nullptr, nullptr);
    const auto kernel = error == CL_SUCCESS
        ? cl.clCreateKernel(program, name.c_str(), &error)
        : nullptr;
    if (kernel) {
      found = C10_XPU_CHECK(sycl::make_kernel<kOpenCl>(kernel, context));
      cl.clReleaseKernel(kernel);
    }
    cl.clReleaseProgram(program);
  }
  cl.clReleaseDevice(target);
  cl.clReleaseContext(native);
  return found;
}

void keepBuilt(
    const sycl::kernel_bundle<sycl::bundle_state::executable>& bundle,
    const std::string& key,
    const std::string& name) {
  const auto& cl = openCl();
  const auto programs = C10_XPU_CHECK(sycl::get_native<kOpenCl>(bundle));
  if (programs.size() == 1) {
    size_t size = 0;
    cl.clGetProgramInfo(
        programs[0], CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr);
    std::string code(size, '\0');
    auto* bytes = code.data();
    const auto error = cl.clGetProgramInfo(
        programs[0],
        CL_PROGRAM_BINARIES,
        sizeof(bytes),
        static_cast<void*>(&bytes),
        nullptr);
    if (size > 0 && error == CL_SUCCESS) {
      storeKernels(builtFolder(), key, {{name, std::move(code)}});
    }
  }
  for (const auto& program : programs) {
    cl.clReleaseProgram(program);
  }
}

} // namespace at::xpu::detail
