#pragma once

#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <memory>
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
/// What is derived from it has the functions.
struct VendorLibrary {
  std::string path;
  std::string version_name; // such as 13.1.0
  std::string problem; // why it cannot be used; else empty

  /// Takes what a function above gave. If that is null, the problem is what is
  /// `missing`.
  void take(void* handle, const std::string& missing);

  /// Finds a function in what was opened. A problem that there was stays.
  template <typename Function>
  void look(const std::string& function_name, Function& function) {
    function = reinterpret_cast<Function>(find(function_name));
  }

  /// Says what version it has, which can be used or not.
  void setVersion(const std::string& version, bool can_be_used);

  /// For torch/xpu/_libraries.py.
  std::tuple<std::string, std::string, std::string> words() const {
    return {version_name, path, problem};
  }

  void* find(const std::string& function_name);

  void* opened = nullptr; // as dlopen gives it
};

/// Calls `make` for an NVIDIA device, in its context: it makes a handle of a
/// library, or says why it cannot. Returns whether there is one; if not, it
/// warns that `what` is slower. False on other devices.
bool makeFirstHandle(
    DeviceIndex device,
    const char* what,
    c10::function_ref<std::string()> make);

/// Warns that `what` is slower on a device, and of what keeps it from a
/// library.
void warnOfSlowness(const char* what, const std::string& problem);

} // namespace at::xpu::detail
