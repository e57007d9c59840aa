#include <c10/xpu/XPUFunctions.h>

#include <c10/util/ScopeExit.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUInternal.h>

#include <sycl/platform.hpp>
#include <sycl/queue.hpp>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace c10::xpu {

std::atomic<int> impl::known_count{impl::kNotEnumerated};
__thread DeviceIndex impl::thread_device = 0;

namespace {

using namespace impl;
using Devices = std::vector<sycl::device>;

// What the first use found; written before known_count. Never destroyed: other
// threads and libraries may still call this one while the process exits.
auto& gRoots = *new Devices;
int gOrdinalsPerRoot = 1;
int gCount = 0;
auto& gNoDevice = *new std::string; // why there is none, if so

std::recursive_mutex gDevicesMutex; // while the devices are enumerated
auto& gMapping = *new std::string; // under it; empty until it is chosen
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};
std::atomic<SyncDebugMode> gSyncDebugMode{SyncDebugMode::L_DISABLED};

/// The SYCL runtime's threads and locks do not survive a fork, and calls into
/// it would hang. A thread that the child does not have may hold our own lock.
void afterForkInChild() {
  new (&gDevicesMutex) std::recursive_mutex;
  if (known_count != kNotEnumerated) {
    known_count = kForked;
  }
}

// Registered at load, so that a fork during the first use is seen too.
const int gForkHandler = pthread_atfork(nullptr, nullptr, &afterForkInChild);

std::string checkedMapping(const std::string& name, const char* origin) {
  TORCH_CHECK(
      name == "GPU" || name == "CPU" || name == "AUTO" || name == "EXPLICIT",
      c10::str("Unknown XPU mapping '", name, "' (from ", origin, ")"),
      ": it must be one of GPU, CPU, AUTO, EXPLICIT");
  return name;
}

/// In order of preference. OpenCL lists the GPUs of other backends again.
enum Rank { kLevelZero, kCUDA, kHIP, kOtherGPU, kNoGPU };

Rank rankOf(const sycl::device& device) {
  const auto backend = device.get_backend();
  return !device.is_gpu()                               ? kNoGPU
      : backend == sycl::backend::ext_oneapi_level_zero ? kLevelZero
      : backend == sycl::backend::ext_oneapi_cuda       ? kCUDA
      : backend == sycl::backend::ext_oneapi_hip        ? kHIP
                                                        : kOtherGPU;
}

/// What was looked for, what there is, and what may be missing.
std::string describeSearch(const std::string& mapping, const Devices& all) {
  auto text = "No XPU device is available with the mapping " + mapping +
      " (TORCH_XPU_MAPPING=GPU takes GPUs of Level Zero, CUDA or HIP, CPU the "
      "SYCL CPU device, AUTO the one or the other, EXPLICIT all). SYCL sees " +
      c10::str(all.size(), " devices (ONEAPI_DEVICE_SELECTOR may hide more)");
  for (const auto& device : all) {
    text += " [" + device.get_info<sycl::info::device::name>() + ", " +
        device.get_platform().get_info<sycl::info::platform::name>() + "]";
  }
  if (mapping != "CPU") {
    text += ". An NVIDIA card needs libcuda.so.1 and libur_adapter_cuda.so.0";
  }
  const char* opencl = std::getenv("OCL_ICD_FILENAMES");
  return mapping == "GPU" ? text
      : !opencl
      ? text + ". A CPU device needs OCL_ICD_FILENAMES=<path of libintelocl.so>"
      : c10::str(text, ". OCL_ICD_FILENAMES=", opencl, " shows no CPU device");
}

Devices select(const std::string& mapping, Devices all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return rankOf(a) < rankOf(b);
  });
  Devices roots;
  for (const auto& device : all) {
    const Rank rank = rankOf(device);
    const bool first = roots.empty();
    const bool wanted = mapping == "EXPLICIT" ||
        (rank < kOtherGPU && mapping != "CPU" &&
         (first || rank == rankOf(roots[0]))) ||
        (device.is_cpu() && mapping != "GPU" && first);
    if (!wanted || !device.has(sycl::aspect::usm_device_allocations)) {
      continue;
    }
    // See Note [One context for all devices]
    if (first || device.get_platform() == roots[0].get_platform()) {
      roots.push_back(device);
      continue;
    }
    TORCH_WARN(
        device.get_info<sycl::info::device::name>(),
        " is left out: not on xpu:0's platform, see ONEAPI_DEVICE_SELECTOR");
  }
  return roots;
}

/// Stores what it finds, and returns the number of devices.
int enumerate(const std::string& mapping) {
  const auto all = sycl::device::get_devices();
  auto roots = select(mapping, all);
  TORCH_CHECK(
      roots.size() <= C10_COMPILE_TIME_MAX_XPUS,
      c10::str("The mapping ", mapping, " finds ", roots.size(), " devices, "),
      c10::str("but there can be at most ", C10_COMPILE_TIME_MAX_XPUS),
      " XPU devices: choose some with ONEAPI_DEVICE_SELECTOR");
  const auto most =
      C10_COMPILE_TIME_MAX_XPUS / std::max<size_t>(roots.size(), 1);
  const char* set = std::getenv("TORCH_XPU_VIRTUAL_DEVICES");
  const std::string text = set ? set : "1";
  const size_t count = std::strtoul(text.c_str(), nullptr, 10);
  TORCH_CHECK(
      count >= 1 && count <= most && text == std::to_string(count),
      c10::str("TORCH_XPU_VIRTUAL_DEVICES='", text, "' is not valid: it must "),
      c10::str("be a whole number from 1 to ", most));
  gNoDevice = roots.empty() ? describeSearch(mapping, all) : "";
  gOrdinalsPerRoot = static_cast<int>(count);
  gRoots = std::move(roots);
  gMapping = mapping;
  gCount = static_cast<int>(gRoots.size() * count);
  return gCount;
}

/// The number of devices, which the first use enumerates.
int countDevices() {
  const int count = known_count.load(std::memory_order_acquire);
  if (C10_LIKELY(count >= 0)) {
    return count;
  }
  TORCH_CHECK(
      count != kForked,
      "Cannot use XPU in a forked subprocess of a process that has used it. "
      "To use XPU with multiprocessing, use the 'spawn' start method");
  TORCH_CHECK(gForkHandler == 0, "pthread_atfork failed");
  std::lock_guard<std::recursive_mutex> lock(gDevicesMutex);
  if (known_count < 0) {
    const auto name = mapping();
    known_count = kStarted;
    known_count = C10_XPU_CHECK(enumerate(name));
  }
  return known_count;
}

sycl::context makeContext(const Devices& devices) {
  // With the first context Intel's OpenCL runtime has LLVM install handlers for
  // most signals: SIGUSR1 would be swallowed.
  std::array<struct sigaction, 32> handlers{};
  for (int i = 1; i < 32; ++i) {
    sigaction(i, nullptr, &handlers[i]);
  }
  const auto restore = c10::make_scope_exit([&] {
    for (int i = 1; i < 32; ++i) {
      sigaction(i, &handlers[i], nullptr);
    }
  });
  const auto shared = sycl::queue(devices.front()).get_context();
  // With SYCL_ENABLE_DEFAULT_CONTEXTS=0 it has only this device.
  return shared.get_devices().size() < devices.size()
      ? sycl::context(devices, asyncHandler)
      : shared;
}

std::vector<DeviceProp> queryProperties(const Devices& devices) {
  namespace intel = sycl::ext::intel::info::device;
  std::vector<DeviceProp> all;
  for (const auto& device : devices) {
    DeviceProp& prop = all.emplace_back();
    prop.platform_name =
        device.get_platform().get_info<sycl::info::platform::name>();
#define C10_XPU_QUERY(member, value)                                  \
  try {                                                               \
    prop.member = value;                                              \
  } catch (const sycl::exception&) { /* NOLINT: it has no such one */ \
  }
#define C10_XPU_QUERY_SYCL(member) \
  C10_XPU_QUERY(member, device.get_info<sycl::info::device::member>())
#define C10_XPU_QUERY_INTEL(member, fallback) \
  prop.member = fallback;                     \
  C10_XPU_QUERY(member, device.get_info<intel::member>())
#define C10_XPU_QUERY_ASPECT(member) \
  prop.has_##member = device.has(sycl::aspect::member);
    C10_XPU_FORALL_DESCRIPTORS(C10_XPU_QUERY_SYCL)
    C10_XPU_FORALL_INTEL_DESCRIPTORS(C10_XPU_QUERY_INTEL)
    C10_XPU_FORALL_ASPECTS(C10_XPU_QUERY_ASPECT)
    C10_XPU_FORALL_OTHERS(C10_XPU_QUERY)
  }
  return all;
}

/// The number behind a word of a file, or at its beginning without a word.
optional<size_t> numberIn(const char* path, const std::string& word = "") {
  std::ifstream file(path);
  std::string found;
  while (!word.empty() && found != word && file >> found) {
  }
  size_t number = 0;
  return file >> number ? optional<size_t>(number) : nullopt;
}

/// What this process can have without swapping, also in a container.
optional<size_t> availableHostMemory() {
  auto available = numberIn("/proc/meminfo", "MemAvailable:");
  if (!available) {
    return nullopt;
  }
  *available *= 1024;
  const auto limit = numberIn("/sys/fs/cgroup/memory.max"); // or it says "max"
  const auto used = numberIn("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    // Of what is used, this is cached files.
    const size_t cached =
        numberIn("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
    const size_t held = *used - std::min(*used, cached);
    *available = std::min(*available, *limit - std::min(*limit, held));
  }
  return available;
}

} // namespace

DeviceIndex& impl::threadDevice() noexcept {
  return thread_device;
}

DeviceIndex device_count() {
  const int count = countDevices();
  if (C10_UNLIKELY(count == 0)) {
    TORCH_WARN_ONCE(gNoDevice);
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_ensure_non_zero() {
  checkIndex(0);
  return static_cast<DeviceIndex>(known_count);
}

DeviceIndex device_count_across_fork() {
  return static_cast<DeviceIndex>(is_in_bad_fork() ? gCount : countDevices());
}

bool is_available() {
  return countDevices() > 0;
}

void impl::raiseUnlessDevice(DeviceIndex index) {
  const int count = countDevices();
  TORCH_CHECK(count != 0, gNoDevice);
  TORCH_CHECK(
      index >= 0 && index < count,
      c10::str("XPU device index ", int(index), " is out of range: there are "),
      c10::str(count, " XPU device(s), so it must be from 0 to ", count - 1));
}

void check_device_index(DeviceIndex device) {
  checkIndex(device);
}

DeviceIndex current_device() {
  checkIndex(0);
  return thread_device;
}

void set_device(DeviceIndex device) {
  checkIndex(device);
  thread_device = device;
}

DeviceIndex exchange_device(DeviceIndex device) {
  checkIndex(device);
  return std::exchange(thread_device, device);
}

DeviceIndex maybe_exchange_device(DeviceIndex device) {
  return device < 0 ? current_device() : exchange_device(device);
}

DeviceIndex get_root_device(DeviceIndex device) {
  checkIndex(device);
  return static_cast<DeviceIndex>(device - device % gOrdinalsPerRoot);
}

sycl::device& get_raw_device(DeviceIndex device) {
  checkIndex(device);
  return gRoots[device / gOrdinalsPerRoot];
}

sycl::context& get_device_context() {
  checkIndex(0);
  // Here and below: made at the first request; a failure can be retried.
  static auto& context = *new sycl::context(C10_XPU_CHECK(makeContext(gRoots)));
  return context;
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  checkIndex(device);
  static const auto& properties =
      *new std::vector<DeviceProp>(C10_XPU_CHECK(queryProperties(gRoots)));
  return properties[device / gOrdinalsPerRoot];
}

void get_device_properties(DeviceProp* prop, DeviceIndex device) {
  *prop = get_device_properties(device);
}

optional<size_t> get_free_memory(DeviceIndex device) {
  using Free = sycl::ext::intel::info::device::free_memory;
  const auto& raw = get_raw_device(device);
  if (get_device_properties(device).device_type ==
      sycl::info::device_type::cpu) {
    return availableHostMemory();
  }
  return C10_XPU_CHECK(raw.has(sycl::aspect::ext_intel_free_memory))
      ? optional<size_t>(C10_XPU_CHECK(raw.get_info<Free>()))
      : nullopt;
}

bool can_device_access_peer(DeviceIndex device, DeviceIndex peer) {
  auto& one = get_raw_device(device);
  auto& other = get_raw_device(peer);
  return one == other || C10_XPU_CHECK(one.ext_oneapi_can_access_peer(other));
}

bool enable_peer_access(DeviceIndex device, DeviceIndex peer) {
  const std::pair roots(get_root_device(device), get_root_device(peer));
  if (roots.first == roots.second || !can_device_access_peer(device, peer)) {
    return roots.first == roots.second;
  }
  // By roots. Not every adapter says clearly that access is enabled already.
  static auto& enabled = *new std::map<decltype(roots), bool>;
  std::lock_guard<std::recursive_mutex> lock(gDevicesMutex);
  const auto [known, is_new] = enabled.try_emplace(roots, true);
  try {
    if (is_new) {
      get_raw_device(device).ext_oneapi_enable_peer_access(
          get_raw_device(peer));
    }
  } catch (const sycl::exception& error) {
    known->second = error.code() == sycl::errc::invalid; // enabled already
    if (!known->second) {
      TORCH_WARN(
          c10::str("Copies from xpu:", int(device), " to xpu:", int(peer)),
          " go through the host, since SYCL says: ",
          error.what());
    }
  }
  return known->second;
}

void set_pointer_owner_lookup(PointerOwnerLookup lookup) {
  gOwnerLookup = lookup;
}

DeviceIndex get_device_idx_from_pointer(void* ptr) {
  auto& context = get_device_context();
  const PointerOwnerLookup lookup = gOwnerLookup;
  const DeviceIndex owner = lookup ? lookup(ptr) : DeviceIndex(-1);
  if (owner >= 0) {
    return owner;
  }
  const auto kind = C10_XPU_CHECK(sycl::get_pointer_type(ptr, context));
  TORCH_CHECK(
      kind == sycl::usm::alloc::device || kind == sycl::usm::alloc::shared,
      c10::str("The pointer ", ptr, " is not memory of an XPU device, but "),
      kind == sycl::usm::alloc::host ? "pinned host memory"
                                     : "memory that SYCL does not know");
  const auto raw = C10_XPU_CHECK(sycl::get_pointer_device(ptr, context));
  // Of several ordinals over a root, the first: SYCL knows no more.
  const auto found = std::find(gRoots.begin(), gRoots.end(), raw);
  TORCH_CHECK(
      found != gRoots.end(),
      c10::str("The pointer ", ptr, " is memory of "),
      C10_XPU_CHECK(raw.get_info<sycl::info::device::name>()),
      c10::str(", which the mapping ", mapping(), " leaves out: choose "),
      "another with TORCH_XPU_MAPPING, or ONEAPI_DEVICE_SELECTOR");
  const auto root = (found - gRoots.begin()) * gOrdinalsPerRoot;
  return get_root_device(static_cast<DeviceIndex>(root));
}

bool is_in_bad_fork() {
  return known_count == kForked;
}

bool is_device_pool_initialized() {
  return known_count >= 0;
}

void set_mapping(const std::string& name) {
  checkedMapping(name, "set_mapping");
  std::lock_guard<std::recursive_mutex> lock(gDevicesMutex);
  TORCH_CHECK(
      known_count == kNotEnumerated || known_count == kStarted,
      c10::str("The XPU mapping cannot be set to ", name, " any more: the "),
      c10::str("devices have been enumerated with the mapping ", gMapping),
      ". Set it before the first use of an XPU device");
  gMapping = name;
}

std::string mapping() {
  std::lock_guard<std::recursive_mutex> lock(gDevicesMutex);
  const char* name = std::getenv("TORCH_XPU_MAPPING");
  return !gMapping.empty() ? gMapping
      : name               ? checkedMapping(name, "TORCH_XPU_MAPPING")
                           : "GPU";
}

SyncDebugMode get_sync_debug_mode() {
  return gSyncDebugMode;
}

void set_sync_debug_mode(SyncDebugMode mode) {
  gSyncDebugMode = mode;
}

void warn_or_error_on_sync() {
  const char* text = "called a synchronizing XPU operation";
  TORCH_CHECK(gSyncDebugMode != SyncDebugMode::L_ERROR, text);
  if (gSyncDebugMode == SyncDebugMode::L_WARN) {
    TORCH_WARN(text);
  }
}

} // namespace c10::xpu
