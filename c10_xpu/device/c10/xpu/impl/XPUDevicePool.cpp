#include <c10/xpu/impl/XPUDevicePool.h>

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUException.h>

#include <sycl/feature_test.hpp>
#include <sycl/platform.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace c10::xpu::impl {
namespace {

using Devices = std::vector<sycl::device>;

// In order of preference.
constexpr std::array<sycl::backend, 3> kGPUBackends = {
    sycl::backend::ext_oneapi_level_zero,
    sycl::backend::ext_oneapi_cuda,
    sycl::backend::ext_oneapi_hip};

bool canAllocate(const sycl::device& device) {
  return device.has(sycl::aspect::usm_device_allocations);
}

/// A GPU's place in the order of preference; other devices come after all.
size_t rankOf(const sycl::device& device) {
  if (!device.is_gpu()) {
    return kGPUBackends.size() + 1;
  }
  const auto* const found =
      std::find(kGPUBackends.begin(), kGPUBackends.end(), device.get_backend());
  return static_cast<size_t>(std::distance(kGPUBackends.begin(), found));
}

std::string describe(const Devices& devices) {
  std::string text;
  for (const auto& device : devices) {
    text += (text.empty() ? "" : ", ") +
        device.get_info<sycl::info::device::name>() + " (" +
        device.get_platform().get_info<sycl::info::platform::name>() + ")";
  }
  return text.empty() ? "none" : text;
}

template <typename Predicate>
Devices pick(const Devices& from, Predicate wanted) {
  Devices picked;
  std::copy_if(from.begin(), from.end(), std::back_inserter(picked), wanted);
  return picked;
}

Devices select(const Devices& all, const std::string& mapping) {
  if (mapping == "EXPLICIT") {
    auto usable = pick(all, canAllocate);
    // The first device decides on the platform. OpenCL lists GPUs too.
    std::stable_sort(
        usable.begin(), usable.end(), [](const auto& a, const auto& b) {
          return rankOf(a) < rankOf(b);
        });
    return usable;
  }
  if (mapping != "CPU") {
    for (size_t rank = 0; rank < kGPUBackends.size(); ++rank) {
      auto gpus = pick(all, [&](const auto& d) { return rankOf(d) == rank; });
      if (!gpus.empty()) {
        return gpus;
      }
    }
  }
  if (mapping == "GPU") {
    return {};
  }
  const auto cpus = pick(all, [](const auto& device) {
    return device.is_cpu() && canAllocate(device);
  });
  return cpus.empty() ? Devices() : Devices{cpus.front()};
}

/// See Note [One context for all devices]
void keepOnePlatform(Devices& devices) {
  if (devices.empty()) {
    return;
  }
  const auto platform = devices.front().get_platform();
  const auto end = std::stable_partition(
      devices.begin(), devices.end(), [&](const sycl::device& device) {
        return device.get_platform() == platform;
      });
  if (end != devices.end()) {
    TORCH_WARN(
        "XPU uses the devices of one SYCL platform. Left out: ",
        describe(Devices(end, devices.end())),
        ". Set ONEAPI_DEVICE_SELECTOR to choose which platforms are seen.");
    devices.erase(end, devices.end());
  }
}

/// What was looked for, what there is, and what is known to be missing.
std::string describeSearch(const std::string& mapping, const Devices& all) {
  const auto exists = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  const std::string gpus = "GPUs of Level Zero, CUDA or HIP";
  auto text = c10::str(
      "mapping ",
      mapping,
      " looks for ",
      mapping == "GPU"        ? gpus
          : mapping == "CPU"  ? "the SYCL CPU device"
          : mapping == "AUTO" ? gpus + ", then the SYCL CPU device"
                              : "devices that can allocate device USM",
      "; SYCL sees: ",
      describe(all));
  const auto folder = libraryFolderOf(
      reinterpret_cast<void*>(static_cast<Devices (*)(sycl::info::device_type)>(
          &sycl::device::get_devices)));
  if (mapping != "CPU" &&
      (exists("/proc/driver/nvidia") || exists("/dev/nvidiactl"))) {
    const auto adapter = folder + "libur_adapter_cuda.so.0";
    text += exists(adapter)
        ? "; there is an NVIDIA card and SYCL's adapter for it, but the adapter "
          "finds no device: is libcuda.so.1 in LD_LIBRARY_PATH?"
        : "; there is an NVIDIA card, but not SYCL's adapter for it, " +
            adapter + ", which ci/gpu/adapter of xpu-stack builds";
  }
  const auto opencl = folder + "libintelocl.so";
  if (mapping != "GPU" && exists(opencl) &&
      pick(all, [](const auto& d) { return d.is_cpu(); }).empty()) {
    text += "; for the CPU device set OCL_ICD_FILENAMES=" + opencl +
        " before the process starts";
  }
  return text;
}

int parseOrdinals(const char* text) {
  char* end = nullptr;
  const long count = text ? std::strtol(text, &end, 10) : 1;
  TORCH_CHECK(
      !text ||
          (*text >= '0' && *text <= '9' && !*end && count >= 1 &&
           count <= C10_COMPILE_TIME_MAX_XPUS),
      "TORCH_XPU_VIRTUAL_DEVICES='",
      text,
      "' is not valid: it must be a whole number from 1 to ",
      C10_COMPILE_TIME_MAX_XPUS);
  return static_cast<int>(count);
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

/// The default context of the platform, if it has one with all our devices.
optional<sycl::context> defaultContext(const Devices& devices) {
  try {
    const auto platform = devices.front().get_platform();
#ifdef SYCL_KHR_DEFAULT_CONTEXT
    auto context = platform.khr_get_default_context();
#else
    auto context = platform.ext_oneapi_get_default_context();
#endif
    const auto covered = context.get_devices();
    for (const auto& device : devices) {
      if (std::find(covered.begin(), covered.end(), device) == covered.end()) {
        return nullopt;
      }
    }
    return context;
  } catch (const sycl::exception& error) {
    // Where SYCL has turned default contexts off.
    if (error.code() != sycl::errc::feature_not_supported) {
      throw;
    }
    return nullopt;
  }
}

} // namespace

void checkMapping(const std::string& name, const char* origin) {
  TORCH_CHECK(
      name == "GPU" || name == "CPU" || name == "AUTO" || name == "EXPLICIT",
      "Unknown XPU mapping '",
      name,
      "' (from ",
      origin,
      "): it must be one of GPU, CPU, AUTO, EXPLICIT");
}

std::unique_ptr<DevicePool> enumerateDevices(
    const std::string& mapping,
    const char* ordinals) {
  auto pool = std::make_unique<DevicePool>();
  pool->ordinals_per_root = parseOrdinals(ordinals);
  Devices all;
  for (const auto& platform : C10_XPU_CHECK(sycl::platform::get_platforms())) {
    const auto devices = C10_XPU_CHECK(platform.get_devices());
    all.insert(all.end(), devices.begin(), devices.end());
  }
  auto devices = C10_XPU_CHECK(select(all, mapping));
  C10_XPU_CHECK(keepOnePlatform(devices));
  if (devices.empty()) {
    pool->search = C10_XPU_CHECK(describeSearch(mapping, all));
  }
  for (auto& device : devices) {
    pool->roots.emplace_back(std::move(device));
  }
  TORCH_CHECK(
      pool->size() <= C10_COMPILE_TIME_MAX_XPUS,
      devices.size(),
      " XPU device(s) with TORCH_XPU_VIRTUAL_DEVICES=",
      pool->ordinals_per_root,
      " are more than the ",
      C10_COMPILE_TIME_MAX_XPUS,
      " that can be addressed: set it to a smaller number");
  return pool;
}

sycl::context& contextOf(DevicePool& pool) {
  c10::call_once(pool.context_once, [&] {
    Devices devices;
    for (const auto& root : pool.roots) {
      devices.push_back(root.raw);
    }
    auto context = C10_XPU_CHECK(defaultContext(devices));
    if (!context) {
      context = C10_XPU_CHECK(sycl::context(devices, asyncHandler));
    }
    pool.context = std::make_unique<sycl::context>(std::move(*context));
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

} // namespace c10::xpu::impl
