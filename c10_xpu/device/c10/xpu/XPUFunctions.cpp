#include <c10/xpu/XPUFunctions.h>

#include <c10/util/CallOnce.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUPosix.h>

#include <sycl/feature_test.hpp>
#include <sycl/platform.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace c10::xpu {
namespace {

using Devices = std::vector<sycl::device>;

struct RootDevice {
  explicit RootDevice(sycl::device device) : raw(std::move(device)) {}

  sycl::device raw;
  c10::once_flag properties_once;
  DeviceProp properties;
};

/// The devices of this process, as the first use found them.
struct DevicePool {
  std::deque<RootDevice> roots;
  int ordinals_per_root = 1;
  std::string no_device; // if there is none: what was looked for
  // Made when it is first asked for: it costs as much as to enumerate.
  std::unique_ptr<sycl::context> context;
  c10::once_flag context_once;

  int size() const {
    return static_cast<int>(roots.size()) * ordinals_per_root;
  }
};

constexpr int kNotEnumerated = -1;

// The pool is written once, before gCount, and never destroyed: threads and
// other libraries may come here while the process ends.
DevicePool* gPool = nullptr;
std::atomic<int> gCount{kNotEnumerated};
std::mutex gMutex;
std::string gMapping; // under gMutex; empty until it is chosen
std::atomic<bool> gStarted{false}; // the SYCL runtime may have been called
std::atomic<bool> gForked{false};
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};
std::atomic<SyncDebugMode> gSyncDebugMode{SyncDebugMode::L_DISABLED};
// initial-exec: one instruction to reach it; it takes a byte of the static
// block that all libraries share.
thread_local DeviceIndex thread_device
    __attribute__((tls_model("initial-exec"))) = 0;

/// The SYCL runtime's threads and locks do not survive a fork, and calls into
/// it would hang. Our own lock may be held by a thread the child does not have.
void afterForkInChild() {
  new (&gMutex) std::mutex;
  if (gStarted.load(std::memory_order_relaxed)) {
    gForked = true;
    gCount = kNotEnumerated;
  }
}

// Registered when the library is loaded, to be there for a fork during the
// first use as well.
const int gForkHandler = impl::callInForkedChild(&afterForkInChild);

void checkNotForked() {
  TORCH_CHECK(
      !gForked,
      "Cannot use XPU in a forked subprocess: its parent had initialized XPU "
      "before the fork. To use XPU with multiprocessing, use the 'spawn' "
      "start method");
}

std::string checkMapping(const std::string& name, const char* origin) {
  const bool known =
      name == "GPU" || name == "CPU" || name == "AUTO" || name == "EXPLICIT";
  TORCH_CHECK(
      known,
      c10::str("Unknown XPU mapping '", name, "' (from ", origin, ")") +
          ": it must be one of GPU, CPU, AUTO, EXPLICIT");
  return name;
}

std::string currentMapping() {
  const char* name = std::getenv("TORCH_XPU_MAPPING");
  return !gMapping.empty() ? gMapping
      : name               ? checkMapping(name, "TORCH_XPU_MAPPING")
                           : "GPU";
}

int parseOrdinals(const char* text) {
  char* end = nullptr;
  const long count = text ? std::strtol(text, &end, 10) : 1;
  const bool valid = !text ||
      (*text >= '0' && *text <= '9' && !*end && count >= 1 &&
       count <= C10_COMPILE_TIME_MAX_XPUS);
  TORCH_CHECK(
      valid,
      c10::str("TORCH_XPU_VIRTUAL_DEVICES='", text, "' is not valid: it ") +
          "must be a whole number from 1 to ",
      C10_COMPILE_TIME_MAX_XPUS);
  return static_cast<int>(count);
}

// ---- which devices a mapping takes ----

constexpr std::array<sycl::backend, 3> kGPUBackends = {
    sycl::backend::ext_oneapi_level_zero,
    sycl::backend::ext_oneapi_cuda,
    sycl::backend::ext_oneapi_hip};

/// A GPU's place in the order of preference; other devices come after all.
size_t rankOf(const sycl::device& device) {
  if (!device.is_gpu()) {
    return kGPUBackends.size() + 1;
  }
  const auto& all = kGPUBackends;
  const auto* found = std::find(all.begin(), all.end(), device.get_backend());
  return static_cast<size_t>(std::distance(all.begin(), found));
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

Devices select(const Devices& all, const std::string& mapping) {
  if (mapping == "EXPLICIT") {
    auto usable = pick(all, canAllocate);
    // The first device decides on the platform, and OpenCL may list GPUs too.
    std::stable_sort(
        usable.begin(), usable.end(), [](const auto& a, const auto& b) {
          return rankOf(a) < rankOf(b);
        });
    return usable;
  }
  for (size_t rank = 0; mapping != "CPU" && rank < kGPUBackends.size();
       ++rank) {
    auto gpus = pick(all, [&](const auto& d) { return rankOf(d) == rank; });
    if (!gpus.empty()) {
      return gpus;
    }
  }
  auto cpus =
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

/// See Note [One context for all devices]
void keepOnePlatform(Devices& devices) {
  const auto others = pick(devices, [&](const auto& device) {
    return device.get_platform() != devices.front().get_platform();
  });
  if (!others.empty()) {
    TORCH_WARN(
        "XPU uses the devices of one SYCL platform. Left out: ",
        describe(others),
        ". Set ONEAPI_DEVICE_SELECTOR to choose which platforms are seen.");
    devices = pick(devices, [&](const auto& device) {
      return device.get_platform() == devices.front().get_platform();
    });
  }
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
    text += exists(adapter)
        ? "; there is an NVIDIA card, but SYCL's adapter does not find it: is "
          "libcuda.so.1 in LD_LIBRARY_PATH?"
        : "; there is an NVIDIA card, but not SYCL's adapter for it, " +
            adapter + ", which ci/gpu/adapter builds";
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
  made->ordinals_per_root =
      parseOrdinals(std::getenv("TORCH_XPU_VIRTUAL_DEVICES"));
  Devices all;
  for (const auto& platform : sycl::platform::get_platforms()) {
    const auto devices = platform.get_devices();
    all.insert(all.end(), devices.begin(), devices.end());
  }
  auto devices = select(all, mapping);
  keepOnePlatform(devices);
  if (devices.empty()) {
    made->no_device = describeSearch(mapping, all);
  }
  for (auto& device : devices) {
    made->roots.emplace_back(std::move(device));
  }
  TORCH_CHECK(
      made->size() <= C10_COMPILE_TIME_MAX_XPUS,
      "There are more than ",
      C10_COMPILE_TIME_MAX_XPUS,
      " XPU devices: set TORCH_XPU_VIRTUAL_DEVICES to a smaller number");
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
    gCount.store(gPool->size(), std::memory_order_release);
  }
  return gPool->size();
}

// ---- what the functions of the header share; inline, which those are not ----

inline int countDevices() {
  const int count = gCount.load(std::memory_order_acquire);
  return C10_LIKELY(count != kNotEnumerated) ? count : enumerate();
}

inline void checkIndex(DeviceIndex device) {
  const int count = countDevices();
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    impl::raise_device_index(device, count);
  }
}

RootDevice& rootOf(DeviceIndex device) {
  checkIndex(device);
  return gPool->roots[static_cast<size_t>(device / gPool->ordinals_per_root)];
}

/// The default context of the platform, if it has one with all our devices.
optional<sycl::context> defaultContext(const Devices& devices) {
  try {
    const auto platform = devices.front().get_platform();
#ifdef SYCL_KHR_DEFAULT_CONTEXT
    const auto context = platform.khr_get_default_context();
#else
    const auto context = platform.ext_oneapi_get_default_context();
#endif
    const auto all = context.get_devices();
    const bool covers = pick(devices, [&](const auto& device) {
                          return std::count(all.begin(), all.end(), device) > 0;
                        }).size() == devices.size();
    return covers ? make_optional(context) : nullopt;
  } catch (const sycl::exception&) { // SYCL_ENABLE_DEFAULT_CONTEXTS=0
    return nullopt;
  }
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

} // namespace

namespace impl {

int device_count() {
  return countDevices();
}

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

DeviceIndex deviceOrCurrent(DeviceIndex device) {
  if (device == -1 && countDevices() > 0) {
    return thread_device;
  }
  checkIndex(device);
  return device;
}

bool launchBlocking() {
  static const bool blocking = [] {
    const char* value = std::getenv("TORCH_XPU_LAUNCH_BLOCKING");
    return value && std::string(value) == "1";
  }();
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
  const int count = countDevices();
  if (C10_UNLIKELY(count == 0)) {
    impl::raise_device_index(0, 0);
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_across_fork() {
  return static_cast<DeviceIndex>(
      C10_UNLIKELY(gForked && gPool) ? gPool->size() : countDevices());
}

bool is_available() {
  return countDevices() > 0;
}

void check_device_index(DeviceIndex device) {
  checkIndex(device);
}

DeviceIndex current_device() {
  return impl::deviceOrCurrent(-1);
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
  return rootOf(device).raw;
}

DeviceIndex get_root_device(DeviceIndex device) {
  checkIndex(device);
  return static_cast<DeviceIndex>(device - device % gPool->ordinals_per_root);
}

sycl::context& get_device_context() {
  device_count_ensure_non_zero();
  c10::call_once(gPool->context_once, [] {
    Devices devices;
    for (const auto& root : gPool->roots) {
      devices.push_back(root.raw);
    }
    auto context = C10_XPU_CHECK(defaultContext(devices));
    if (!context) {
      context = C10_XPU_CHECK(sycl::context(devices, asyncHandler));
    }
    gPool->context = std::make_unique<sycl::context>(std::move(*context));
  });
  return *gPool->context;
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  auto& root = rootOf(device);
  c10::call_once(root.properties_once, [&] {
    root.properties = C10_XPU_CHECK(queryProperties(root.raw));
  });
  return root.properties;
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
  if (!can_device_access_peer(device, peer)) {
    return false;
  }
  auto& one = get_raw_device(device);
  auto& other = get_raw_device(peer);
  try {
    if (one != other) {
      one.ext_oneapi_enable_peer_access(other);
    }
  } catch (const sycl::exception&) { // it is enabled already
  }
  return true;
}

void set_pointer_owner_lookup(PointerOwnerLookup lookup) {
  gOwnerLookup = lookup;
}

DeviceIndex get_device_idx_from_pointer(void* ptr) {
  TORCH_CHECK(ptr, "A null pointer does not belong to a device");
  device_count_ensure_non_zero();
  const PointerOwnerLookup lookup = gOwnerLookup;
  const DeviceIndex owner = lookup ? lookup(ptr) : DeviceIndex(-1);
  if (owner >= 0) {
    return owner;
  }
  auto& context = get_device_context();
  const auto kind = C10_XPU_CHECK(sycl::get_pointer_type(ptr, context));
  const bool of_device =
      kind == sycl::usm::alloc::device || kind == sycl::usm::alloc::shared;
  TORCH_CHECK(
      of_device,
      c10::str("The pointer ", ptr, " is not memory of an XPU device, but "),
      kind == sycl::usm::alloc::host ? "pinned host memory"
                                     : "memory that SYCL does not know");
  const auto raw = C10_XPU_CHECK(sycl::get_pointer_device(ptr, context));
  // Of several ordinals over a root, the first: SYCL knows no more.
  DeviceIndex device = 0;
  while (get_raw_device(device) != raw) { // raises after the last
    device = static_cast<DeviceIndex>(device + gPool->ordinals_per_root);
  }
  return device;
}

bool is_in_bad_fork() {
  return gForked;
}

bool is_device_pool_initialized() {
  return gCount.load(std::memory_order_acquire) != kNotEnumerated;
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
