#include <ATen/xpu/detail/VendorLibrary.h>

#include <ATen/xpu/detail/KernelImage.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <c10/xpu/XPUFunctions.h>

#include <dlfcn.h>
#include <link.h>

#include <vector>

namespace at::xpu::detail {

void* openLibrary(
    c10::ArrayRef<std::string> folders,
    c10::ArrayRef<const char*> files) {
  for (const auto& folder : folders) {
    for (const auto* file : files) {
      if (void* const opened =
              dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return opened;
      }
    }
  }
  return nullptr;
}

void* openOfCuda(c10::ArrayRef<const char*> files) {
  std::vector<std::string> places;
  for (const auto& folder : cudaFolders()) {
    for (const auto* in : {"/lib/", "/lib64/"}) {
      places.push_back(folder + in);
    }
  }
  places.emplace_back();
  return openLibrary(places, files);
}

std::string missingOfCuda(const std::string& name, const std::string& package) {
  return c10::str(
      name,
      " is not found. Install the package ",
      package,
      ", or set CUDA_PATH to a CUDA toolkit that has it");
}

VendorLibrary::VendorLibrary(
    void* opened,
    const char* prefix,
    const std::string& missing)
    : opened(opened), prefix(prefix) {
  const link_map* map = nullptr;
  if (!opened) {
    problem = missing;
  } else if (dlinfo(opened, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0) {
    path = map->l_name;
  }
}

VendorLibrary::Found VendorLibrary::find(const std::string& function_name) {
  const auto name = prefix + function_name;
  void* const found = opened ? dlsym(opened, name.c_str()) : nullptr;
  if (!found && problem.empty()) {
    problem = c10::str(path, " has no function ", name);
  }
  return {found};
}

void VendorLibrary::setVersion(const std::string& version, bool can_be_used) {
  version_name = version;
  if (!can_be_used) {
    problem = c10::str(path, " has version ", version, ", which is too old");
  }
}

void* VendorHandles::of(DeviceIndex index) {
  auto& place = places.at(index);
  std::call_once(place.once, [&] {
    const auto& device = c10::xpu::get_raw_device(index);
    if (!takes(device)) {
      return;
    }
    void* made = nullptr;
    const auto problem = make(index, &made);
    if (problem.empty()) {
      place.handle = made;
    } else if (device.is_gpu()) {
      TORCH_WARN(
          what,
          " are slower on this device than they could be: ",
          problem,
          ".");
    }
  });
  return place.handle;
}

} // namespace at::xpu::detail
