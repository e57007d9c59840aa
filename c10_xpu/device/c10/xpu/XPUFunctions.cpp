#include <c10/xpu/XPUFunctions.h>

#include <c10/util/CallOnce.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUInternal.h>

#include <sycl/feature_test.hpp>
#include <sycl/platform.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace c10::xpu {

constexpr int kNotEnumerated = -1;
std::atomic<int> impl::known_count{kNotEnumerated};
__thread DeviceIndex impl::thread_device = 0;

namespace {

using impl::checkIndex;
using impl::known_count;
using impl::thread_device;
using Devices = std::vector<sycl::device>;

/// What the first use found. Never destroyed: threads and other libraries may
/// come here while the process ends.
struct DevicePool {
  Devices roots;
  int ordinals_per_root = 1;
  std::string no_device; // if there is none: what was looked for

  // What costs as much as to enumerate is made when it is first asked for.
  optional<sycl::context> context;
  c10::once_flag context_once;
  std::array<DeviceProp, C10_COMPILE_TIME_MAX_XPUS> properties; // by root
  std::array<c10::once_flag, C10_COMPILE_TIME_MAX_XPUS> properties_once;

  int size() const {
    return static_cast<int>(roots.size()) * ordinals_per_root;
  }
};

DevicePool* gPool = nullptr; // written once, before known_count
std::mutex gMutex;
std::string gMapping; // under gMutex; empty until it is chosen
std::atomic<bool> gStarted{false}; // the SYCL runtime may have been called
std::atomic<bool> gForked{false};
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};
std::atomic<SyncDebugMode> gSyncDebugMode{SyncDebugMode::L_DISABLED};

/// The SYCL runtime's threads and locks do not survive a fork, and calls into
/// it would hang. A thread that the child does not have may hold our own lock.
void afterForkInChild() {
  new (&gMutex) std::mutex;
  if (gStarted.load(std::memory_order_relaxed)) {
    gForked = true;
    known_count = kNotEnumerated;
  }
}

// Registered at load, so that a fork during the first use is seen too.
const int gForkHandler = impl::callInForkedChild(&afterForkInChild);

void checkNotForked() {
  TORCH_CHECK(
      !gForked,
      "Cannot use XPU in a forked subprocess: its parent had initialized XPU "
      "before the fork. To use XPU with multiprocessing, use the 'spawn' "
      "start method");
}

void checkMapping(const std::string& name, const char* origin) {
  TORCH_CHECK(
      name == "GPU" || name == "CPU" || name == "AUTO" || name == "EXPLICIT",
      c10::str("Unknown XPU mapping '", name, "' (from ", origin, ")"),
      ": it must be one of GPU, CPU, AUTO, EXPLICIT");
}

std::string currentMapping() { // under gMutex
  const char* name = std::getenv("TORCH_XPU_MAPPING");
  if (!gMapping.empty() || !name) {
    return gMapping.empty() ? "GPU" : gMapping;
  }
  checkMapping(name, "TORCH_XPU_MAPPING");
  return name;
}

int ordinalsPerRoot() {
  const char* text = std::getenv("TORCH_XPU_VIRTUAL_DEVICES");
  char* end = nullptr;
  const long count = text ? std::strtol(text, &end, 10) : 1;
  TORCH_CHECK(
      !text ||
          (*text >= '0' && *text <= '9' && !*end && count >= 1 &&
           count <= C10_COMPILE_TIME_MAX_XPUS),
      c10::str("TORCH_XPU_VIRTUAL_DEVICES='", text, "' is not valid: it must "),
      c10::str("be a whole number from 1 to ", C10_COMPILE_TIME_MAX_XPUS));
  return static_cast<int>(count);
}

constexpr int kNumGPUBackends = 3;

/// A GPU's place in the order of preference; other devices come after all.
int rankOf(const sycl::device& device) {
  const auto backend = device.get_backend();
  return !device.is_gpu()                               ? kNumGPUBackends + 1
      : backend == sycl::backend::ext_oneapi_level_zero ? 0
      : backend == sycl::backend::ext_oneapi_cuda       ? 1
      : backend == sycl::backend::ext_oneapi_hip        ? 2
                                                        : kNumGPUBackends;
}

bool canAllocate(const sycl::device& device) {
  return device.has(sycl::aspect::usm_device_allocations);
}

template <typename Predicate>
Devices pick(const Devices& from, Predicate wanted) {
  Devices picked;
  std::copy_if(from.begin(), from.end(), std::back_inserter(picked), wanted);
  return picked;
}

Devices select(Devices all, const std::string& mapping) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return rankOf(a) < rankOf(b);
  });
  if (mapping == "EXPLICIT") {
    return pick(all, canAllocate);
  }
  const int best = all.empty() ? kNumGPUBackends : rankOf(all.front());
  if (mapping != "CPU" && best < kNumGPUBackends) {
    return pick(all, [&](const auto& d) { return rankOf(d) == best; });
  }
  const auto cpus =
      pick(all, [](const auto& d) { return d.is_cpu() && canAllocate(d); });
  return mapping == "GPU" || cpus.empty() ? Devices() : Devices{cpus.front()};
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

/// What was looked for, what there is, and what is known to be missing.
std::string describeSearch(const std::string& mapping, const Devices& all) {
  const auto exists = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  };
  const auto folder = impl::libraryFolderOf(
      reinterpret_cast<void*>(static_cast<Devices (*)(sycl::info::device_type)>(
          &sycl::device::get_devices)));
  const auto adapter = folder + "libur_adapter_cuda.so.0";
  const auto opencl = folder + "libintelocl.so";
  const std::string gpus = "GPUs of Level Zero, CUDA or HIP";
  auto text = "No XPU device is available (mapping " + mapping + " looks for ";
  text += mapping == "GPU" ? gpus
      : mapping == "CPU"   ? "the SYCL CPU device"
      : mapping == "AUTO"  ? gpus + ", then the SYCL CPU device"
                           : "devices that can allocate device USM";
  text += "; SYCL sees: " + describe(all);
  if (mapping != "CPU" &&
      (exists("/proc/driver/nvidia") || exists("/dev/nvidiactl"))) {
    text += "; there is an NVIDIA card, but ";
    text += exists(adapter)
        ? "SYCL's adapter does not find it: is libcuda.so.1 in LD_LIBRARY_PATH?"
        : "not SYCL's adapter for it, " + adapter +
            ", which ci/gpu/adapter builds";
  }
  if (mapping != "GPU" && exists(opencl)) {
    text += "; for the CPU device set OCL_ICD_FILENAMES=" + opencl +
        " before the process starts";
  }
  return text + "). Set TORCH_XPU_MAPPING to GPU, CPU, AUTO or EXPLICIT to " +
      "look for other devices";
}

std::unique_ptr<DevicePool> makePool(const std::string& mapping) {
  auto made = std::make_unique<DevicePool>();
  made->ordinals_per_root = ordinalsPerRoot();
  Devices all;
  for (const auto& platform : sycl::platform::get_platforms()) {
    const auto devices = platform.get_devices();
    all.insert(all.end(), devices.begin(), devices.end());
  }
  const auto selected = select(all, mapping);
  if (selected.empty()) {
    made->no_device = describeSearch(mapping, all);
    return made;
  }
  // See Note [One context for all devices]
  const auto isOurs = [&](const auto& device) {
    return device.get_platform() == selected.front().get_platform();
  };
  made->roots = pick(selected, isOurs);
  if (made->roots.size() < selected.size()) {
    TORCH_WARN(
        "XPU uses the devices of one SYCL platform. Left out: ",
        describe(pick(selected, [&](const auto& d) { return !isOurs(d); })),
        ". Set ONEAPI_DEVICE_SELECTOR to choose which platforms are seen.");
  }
  TORCH_CHECK(
      made->size() <= C10_COMPILE_TIME_MAX_XPUS,
      c10::str("There are more than ", C10_COMPILE_TIME_MAX_XPUS, " XPU "),
      "devices: set TORCH_XPU_VIRTUAL_DEVICES to a smaller number");
  return made;
}

C10_NOINLINE int enumerate() {
  checkNotForked();
  std::lock_guard<std::mutex> lock(gMutex);
  if (!gPool) {
    TORCH_CHECK(gForkHandler == 0, "pthread_atfork failed: ", gForkHandler);
    const auto mapping = currentMapping();
    gStarted = true;
    gPool = C10_XPU_CHECK(makePool(mapping)).release();
    gMapping = mapping;
    known_count.store(gPool->size(), std::memory_order_release);
  }
  return gPool->size();
}

inline int countDevices() {
  const int count = known_count.load(std::memory_order_acquire);
  return C10_LIKELY(count != kNotEnumerated) ? count : enumerate();
}

inline int countSome() {
  const int count = countDevices();
  if (C10_UNLIKELY(count == 0)) {
    impl::raise_device_index(0, 0);
  }
  return count;
}

size_t rootOf(DeviceIndex device) {
  checkIndex(device);
  return static_cast<size_t>(device / gPool->ordinals_per_root);
}

/// See Note [One context for all devices]
sycl::context makeContext(const Devices& devices) {
  try {
    const auto platform = devices.front().get_platform();
#ifdef SYCL_KHR_DEFAULT_CONTEXT
    const auto context = platform.khr_get_default_context();
#else
    const auto context = platform.ext_oneapi_get_default_context();
#endif
    const auto all = context.get_devices();
    if (std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
          return std::count(all.begin(), all.end(), device) > 0;
        })) {
      return context;
    }
  } catch (const sycl::exception&) { // NOLINT(bugprone-empty-catch)
    // SYCL_ENABLE_DEFAULT_CONTEXTS=0
  }
  return sycl::context(devices, asyncHandler);
}

/// Sets `value` to a descriptor of the device, if the device has it.
template <typename Descriptor, typename Value>
void query(const sycl::device& device, Value& value) {
  try {
    value = device.get_info<Descriptor>();
  } catch (const sycl::exception&) { // NOLINT(bugprone-empty-catch)
    // It stays as it is.
  }
}

DeviceProp queryProperties(const sycl::device& device) {
  DeviceProp prop;
  prop.platform_name =
      device.get_platform().get_info<sycl::info::platform::name>();
#define C10_XPU_QUERY(member) \
  query<sycl::info::device::member>(device, prop.member);
  C10_XPU_FORALL_DESCRIPTORS(C10_XPU_QUERY)
#undef C10_XPU_QUERY
#define C10_XPU_QUERY(member, fallback)                                 \
  if (device.has(sycl::aspect::ext_intel_##member)) {                   \
    query<sycl::ext::intel::info::device::member>(device, prop.member); \
  }
  C10_XPU_FORALL_INTEL_DESCRIPTORS(C10_XPU_QUERY)
#undef C10_XPU_QUERY
#define C10_XPU_QUERY(member) \
  prop.has_##member = device.has(sycl::aspect::member);
  C10_XPU_FORALL_ASPECTS(C10_XPU_QUERY)
#undef C10_XPU_QUERY
  return prop;
}

} // namespace

namespace impl {

void raise_device_index(DeviceIndex index, int count) {
  TORCH_CHECK(count != 0, gPool->no_device);
  TORCH_CHECK(
      false,
      c10::str("XPU device index ", int(index), " is out of range: there are "),
      c10::str(count, " XPU device(s), so it must be from 0 to ", count - 1));
}

DeviceIndex threadDevice() noexcept {
  return thread_device;
}

void setThreadDevice(DeviceIndex device) noexcept {
  thread_device = device;
}

bool launchBlocking() {
  static const bool blocking =
      c10::utils::check_env("TORCH_XPU_LAUNCH_BLOCKING") == true;
  return blocking;
}

} // namespace impl

DeviceIndex device_count() {
  const int count = countDevices();
  if (C10_UNLIKELY(count == 0)) {
    TORCH_WARN_ONCE(gPool->no_device);
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_ensure_non_zero() {
  return static_cast<DeviceIndex>(countSome());
}

DeviceIndex device_count_across_fork() {
  return static_cast<DeviceIndex>(
      C10_UNLIKELY(gForked && gPool) ? gPool->size() : countDevices());
}

bool is_available() {
  return countDevices() > 0;
}

void check_device_index(DeviceIndex device) {
  const int count = countDevices();
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    impl::raise_device_index(device, count);
  }
}

DeviceIndex current_device() {
  countSome();
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

sycl::device& get_raw_device(DeviceIndex device) {
  const size_t root = rootOf(device);
  return gPool->roots[root];
}

DeviceIndex get_root_device(DeviceIndex device) {
  checkIndex(device);
  return static_cast<DeviceIndex>(device - device % gPool->ordinals_per_root);
}

sycl::context& get_device_context() {
  countSome();
  c10::call_once(gPool->context_once, [] {
    gPool->context = C10_XPU_CHECK(makeContext(gPool->roots));
  });
  return *gPool->context;
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  const size_t root = rootOf(device);
  auto& properties = gPool->properties[root];
  c10::call_once(gPool->properties_once[root], [&] {
    properties = C10_XPU_CHECK(queryProperties(gPool->roots[root]));
  });
  return properties;
}

void get_device_properties(DeviceProp* prop, DeviceIndex device) {
  *prop = get_device_properties(device);
}

optional<size_t> get_free_memory(DeviceIndex device) {
  using Free = sycl::ext::intel::info::device::free_memory;
  auto& raw = get_raw_device(device);
  return C10_XPU_CHECK(raw.has(sycl::aspect::ext_intel_free_memory))
      ? optional<size_t>(C10_XPU_CHECK(raw.get_info<Free>()))
      : nullopt;
}

bool can_device_access_peer(DeviceIndex device, DeviceIndex peer) {
  using Access = sycl::ext::oneapi::peer_access;
  auto& one = get_raw_device(device);
  auto& other = get_raw_device(peer);
  return one == other ||
      C10_XPU_CHECK(
             one.ext_oneapi_can_access_peer(other, Access::access_supported));
}

bool enable_peer_access(DeviceIndex device, DeviceIndex peer) {
  const bool can = can_device_access_peer(device, peer);
  if (can && get_root_device(device) != get_root_device(peer)) {
    try {
      get_raw_device(device).ext_oneapi_enable_peer_access(
          get_raw_device(peer));
    } catch (const sycl::exception&) { // NOLINT(bugprone-empty-catch)
      // It is enabled already.
    }
  }
  return can;
}

void set_pointer_owner_lookup(PointerOwnerLookup lookup) {
  gOwnerLookup = lookup;
}

DeviceIndex get_device_idx_from_pointer(void* ptr) {
  TORCH_CHECK(ptr, "A null pointer does not belong to a device");
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
  const auto& roots = gPool->roots;
  const auto root = std::find(roots.begin(), roots.end(), raw) - roots.begin();
  return get_root_device(
      static_cast<DeviceIndex>(root * gPool->ordinals_per_root));
}

bool is_in_bad_fork() {
  return gForked;
}

bool is_device_pool_initialized() {
  return known_count.load(std::memory_order_acquire) != kNotEnumerated;
}

void set_mapping(const std::string& name) {
  checkNotForked();
  checkMapping(name, "set_mapping");
  std::lock_guard<std::mutex> lock(gMutex);
  TORCH_CHECK(
      !gPool,
      c10::str("The XPU mapping cannot be set to ", name, " any more: the ") +
          "devices have been enumerated with the mapping " + gMapping +
          ". Set it before the first use of an XPU device");
  gMapping = name;
}

std::string mapping() {
  std::lock_guard<std::mutex> lock(gMutex);
  return currentMapping();
}

SyncDebugMode get_sync_debug_mode() {
  return gSyncDebugMode;
}

void set_sync_debug_mode(SyncDebugMode mode) {
  gSyncDebugMode = mode;
}

void warn_or_error_on_sync() {
  const auto mode = gSyncDebugMode.load(std::memory_order_relaxed);
  const char* text = "called a synchronizing XPU operation";
  TORCH_CHECK(mode != SyncDebugMode::L_ERROR, text);
  if (C10_UNLIKELY(mode == SyncDebugMode::L_WARN)) {
    TORCH_WARN(text);
  }
}

} // namespace c10::xpu
