#include <c10/xpu/impl/XPUDevicePool.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUMacros.h>

#include <sycl/platform.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

namespace c10 {
namespace xpu {
namespace impl {
namespace {

constexpr std::array<Mapping, 4> kMappings = {
    Mapping::GPU,
    Mapping::CPU,
    Mapping::AUTO,
    Mapping::EXPLICIT};

bool isLevelZeroGPU(const sycl::device& device) {
  return device.is_gpu() &&
      device.get_backend() == sycl::backend::ext_oneapi_level_zero;
}

bool canAllocate(const sycl::device& device) {
  return device.has(sycl::aspect::usm_device_allocations);
}

std::string describe(const sycl::device& device) {
  std::ostringstream text;
  text << device.get_info<sycl::info::device::name>() << " ("
       << device.get_platform().get_info<sycl::info::platform::name>() << ")";
  return text.str();
}

std::string describe(const std::vector<sycl::device>& devices) {
  std::string text;
  for (const auto& device : devices) {
    text += (text.empty() ? "" : ", ") + describe(device);
  }
  return text.empty() ? "none" : text;
}

/// Lets the OpenCL loader find Intel's CPU device where the runtime was
/// installed from PyPI. The .icd files of that package name a path of the
/// machine it was built on, so that the loader finds nothing by itself; the
/// library stands beside libsycl.so, whose place is known. What a person has
/// set is left alone. Must come before the runtime's first call, which reads
/// the environment.
void findOpenCLBesideSycl() {
  if (std::getenv("OCL_ICD_VENDORS") || std::getenv("OCL_ICD_FILENAMES")) {
    return;
  }
  Dl_info info;
  auto* symbol =
      reinterpret_cast<void*>(static_cast<std::vector<sycl::platform> (*)()>(
          &sycl::platform::get_platforms));
  if (!dladdr(symbol, &info) || !info.dli_fname) {
    return;
  }
  std::string path = info.dli_fname;
  path.erase(path.rfind('/') + 1);
  path += "libintelocl.so";
  if (access(path.c_str(), R_OK) == 0) {
    setenv("OCL_ICD_FILENAMES", path.c_str(), /*overwrite=*/0);
  }
}

std::vector<sycl::device> allDevices() {
  std::vector<sycl::device> found;
  for (const auto& platform : C10_XPU_CHECK(sycl::platform::get_platforms())) {
    for (auto& device : C10_XPU_CHECK(platform.get_devices())) {
      found.push_back(std::move(device));
    }
  }
  return found;
}

template <typename Predicate>
std::vector<sycl::device> pick(
    const std::vector<sycl::device>& from,
    Predicate wanted) {
  std::vector<sycl::device> picked;
  std::copy_if(from.begin(), from.end(), std::back_inserter(picked), wanted);
  return picked;
}

std::vector<sycl::device> select(
    const std::vector<sycl::device>& all,
    Mapping mapping) {
  auto gpus = pick(all, isLevelZeroGPU);
  if (mapping == Mapping::GPU || (mapping == Mapping::AUTO && !gpus.empty())) {
    return gpus;
  }
  if (mapping == Mapping::EXPLICIT) {
    auto usable = pick(all, canAllocate);
    // SYCL may list a GPU twice, through OpenCL and through Level Zero; the
    // latter leads, since the first device decides on the platform.
    const auto others =
        std::stable_partition(usable.begin(), usable.end(), isLevelZeroGPU);
    std::stable_partition(others, usable.end(), [](const auto& device) {
      return device.is_gpu();
    });
    return usable;
  }
  auto cpus = pick(all, [](const sycl::device& device) {
    return device.is_cpu() && canAllocate(device);
  });
  if (cpus.size() > 1) {
    cpus.erase(cpus.begin() + 1, cpus.end());
  }
  return cpus;
}

/// Keeps the devices that can share a context with the first.
/// See Note [One context for all devices]
void keepOnePlatform(std::vector<sycl::device>& devices) {
  if (devices.empty()) {
    return;
  }
  const auto platform = devices.front().get_platform();
  auto end = std::stable_partition(
      devices.begin(), devices.end(), [&](const sycl::device& device) {
        return device.get_platform() == platform;
      });
  if (end != devices.end()) {
    TORCH_WARN(
        "XPU uses the devices of one SYCL platform. Left out: ",
        describe(std::vector<sycl::device>(end, devices.end())),
        ". Set ONEAPI_DEVICE_SELECTOR to choose which platforms are seen.");
    devices.erase(end, devices.end());
  }
}

std::string describeSearch(
    Mapping mapping,
    const std::vector<sycl::device>& all) {
  return c10::str(
      "mapping ",
      mappingName(mapping),
      " looks for ",
      mapping == Mapping::GPU       ? "Level-Zero GPUs"
          : mapping == Mapping::CPU ? "the SYCL CPU device"
          : mapping == Mapping::AUTO
          ? "Level-Zero GPUs, then the SYCL CPU device"
          : "devices that can allocate device USM",
      "; SYCL sees: ",
      describe(all));
}

/// A descriptor of the device, or `fallback` where the device has none.
template <typename Descriptor, typename Value>
Value queryOr(const sycl::device& device, Value fallback) {
  try {
    return device.get_info<Descriptor>();
  } catch (const sycl::exception&) {
    return fallback;
  }
}

} // namespace

const char* mappingName(Mapping mapping) {
  switch (mapping) {
    case Mapping::GPU:
      return "GPU";
    case Mapping::CPU:
      return "CPU";
    case Mapping::AUTO:
      return "AUTO";
    case Mapping::EXPLICIT:
      return "EXPLICIT";
  }
  TORCH_INTERNAL_ASSERT(false, "unknown mapping");
}

Mapping parseMapping(const std::string& name, const char* origin) {
  for (Mapping mapping : kMappings) {
    if (name == mappingName(mapping)) {
      return mapping;
    }
  }
  TORCH_CHECK(
      false,
      "Unknown XPU mapping '",
      name,
      "' (from ",
      origin,
      "): it must be one of GPU, CPU, AUTO, EXPLICIT");
}

int parseVirtualDevices(const char* text) {
  if (!text) {
    return 1;
  }
  char* end = nullptr;
  errno = 0;
  const long count = std::strtol(text, &end, 10);
  TORCH_CHECK(
      *text >= '0' && *text <= '9' && !*end && errno == 0 && count >= 1 &&
          count <= C10_COMPILE_TIME_MAX_XPUS,
      "TORCH_XPU_VIRTUAL_DEVICES='",
      text,
      "' is not valid: it must be a whole number from 1 to ",
      C10_COMPILE_TIME_MAX_XPUS);
  return static_cast<int>(count);
}

std::unique_ptr<DevicePool> enumerateDevices(Mapping mapping, int ordinals) {
  findOpenCLBesideSycl();
  const auto all = allDevices();
  auto devices = C10_XPU_CHECK(select(all, mapping));
  C10_XPU_CHECK(keepOnePlatform(devices));

  auto pool = std::make_unique<DevicePool>();
  if (devices.empty()) {
    pool->search = C10_XPU_CHECK(describeSearch(mapping, all));
    return pool;
  }
  TORCH_CHECK(
      devices.size() * static_cast<size_t>(ordinals) <=
          C10_COMPILE_TIME_MAX_XPUS,
      devices.size(),
      " XPU device(s) with TORCH_XPU_VIRTUAL_DEVICES=",
      ordinals,
      " are more than the ",
      C10_COMPILE_TIME_MAX_XPUS,
      " that can be addressed: set it to a smaller number");
  pool->ordinals_per_root = ordinals;
  for (auto& device : devices) {
    pool->roots.push_back(std::make_unique<RootDevice>(std::move(device)));
  }
  return pool;
}

sycl::context& contextOf(DevicePool& pool) {
  c10::call_once(pool.context_once, [&] {
    std::vector<sycl::device> devices;
    devices.reserve(pool.roots.size());
    for (const auto& root : pool.roots) {
      devices.push_back(root->raw);
    }
    pool.context =
        std::make_unique<sycl::context>(C10_XPU_CHECK(sycl::context(devices)));
  });
  return *pool.context;
}

DeviceProp queryProperties(const sycl::device& device) {
  DeviceProp prop;
  prop.platform_name =
      device.get_platform().get_info<sycl::info::platform::name>();

#define C10_XPU_QUERY(type, member) \
  prop.member =                     \
      queryOr<sycl::info::device::member>(device, std::move(prop.member));
  C10_XPU_FORALL_DESCRIPTORS(C10_XPU_QUERY)
#undef C10_XPU_QUERY

#define C10_XPU_QUERY(type, member, fallback)                      \
  if (device.has(sycl::aspect::ext_intel_##member)) {              \
    prop.member = queryOr<sycl::ext::intel::info::device::member>( \
        device, std::move(prop.member));                           \
  }
  C10_XPU_FORALL_INTEL_DESCRIPTORS(C10_XPU_QUERY)
#undef C10_XPU_QUERY

#define C10_XPU_QUERY(member) \
  prop.has_##member = device.has(sycl::aspect::member);
  C10_XPU_FORALL_ASPECTS(C10_XPU_QUERY)
#undef C10_XPU_QUERY
  return prop;
}

} // namespace impl
} // namespace xpu
} // namespace c10
