#pragma once

#include <ATen/xpu/detail/Kernel.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>

#include <sycl/device.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

namespace at::xpu::detail {

/// What a library made, with its function that destroys it.
using VendorObject = std::unique_ptr<void, int (*)(void*)>;

/// Opens the first of the files that is in one of the folders, which end in /,
/// or are empty for where the loader looks; gives what dlopen does, or null.
void* openLibrary(
    c10::ArrayRef<std::string> folders,
    c10::ArrayRef<const char*> files);

/// The same in the folders of CUDA, or else where the loader looks.
void* openOfCuda(c10::ArrayRef<const char*> files);

/// That a library of CUDA is not there, and the package to install.
std::string missingOfCuda(const std::string& name, const std::string& package);

/// A library of a vendor that is not linked but opened when it is first needed.
/// What is derived from it has the functions, the version's first.
struct VendorLibrary {
  /// A function, or null, for what knows its type.
  struct Found {
    template <typename Function>
    // NOLINTNEXTLINE(google-explicit-constructor): it is told once
    operator Function*() const {
      return reinterpret_cast<Function*>(at);
    }
    void* at;
  };

  /// Of what a function above gave. If that is null, the problem is what is
  /// `missing`. Names of functions begin with `prefix`.
  VendorLibrary(void* opened, const char* prefix, const std::string& missing);

  /// Finds a function in what was opened. A problem that there was stays.
  Found find(const std::string& function_name);

  /// Says what version it has. If it cannot be used, that is the problem,
  /// before functions that it lacks.
  void setVersion(const std::string& version, bool can_be_used);

  /// For torch/xpu/_libraries.py.
  std::tuple<std::string, std::string, std::string> words() const {
    return {version_name, path, problem};
  }

  void* opened; // as dlopen gives it
  const char* prefix;
  std::string path;
  std::string version_name; // such as 13.1.0
  std::string problem; // why it cannot be used; else empty
};

/// A library's handle for each device of a vendor. Such ones are never
/// destroyed: when a program ends, the vendor's runtime may have ended before.
struct VendorHandles {
  const char* what; // is slower without
  bool (*takes)(const sycl::device& device);
  /// Makes one, or says why it cannot.
  std::string (*make)(DeviceIndex device, void** made);

  /// Null on other devices, and where it cannot be had. A GPU for which it
  /// cannot is warned of, once.
  void* of(DeviceIndex device);

  struct Place {
    std::once_flag once;
    void* handle = nullptr;
  };
  std::array<Place, kMostDevices> places{};
};

} // namespace at::xpu::detail
