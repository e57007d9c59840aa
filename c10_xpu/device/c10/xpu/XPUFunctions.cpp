#include <c10/xpu/XPUFunctions.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUDevicePool.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <utility>

namespace c10::xpu {
namespace {

constexpr int kNotEnumerated = -1;

// The pool is written once, before gKnownCount, and never destroyed: threads
// and other libraries may come here while the process ends.
impl::DevicePool* gPool = nullptr;
std::atomic<int> gKnownCount{kNotEnumerated};
std::mutex gMutex;
std::string gMapping; // under gMutex; empty until it is chosen
std::atomic<bool> gStarted{false}; // the SYCL runtime may have been called
std::atomic<bool> gForked{false};
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};
std::atomic<SyncDebugMode> gSyncDebugMode{SyncDebugMode::DISABLED};
thread_local DeviceIndex thread_device = 0;

/// The SYCL runtime's threads and locks do not survive a fork, and calls into
/// it would hang. Our own lock may be held by a thread the child does not have.
void afterForkInChild() {
  new (&gMutex) std::mutex;
  if (gStarted.load(std::memory_order_relaxed)) {
    gForked = true;
    gKnownCount = kNotEnumerated;
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

std::string currentMapping() {
  const char* name = std::getenv("TORCH_XPU_MAPPING");
  if (!gMapping.empty() || !name) {
    return gMapping.empty() ? "GPU" : gMapping;
  }
  impl::checkMapping(name, "TORCH_XPU_MAPPING");
  return name;
}

C10_NOINLINE int enumerate() {
  checkNotForked();
  std::lock_guard<std::mutex> lock(gMutex);
  if (!gPool) {
    TORCH_CHECK(gForkHandler == 0, "pthread_atfork failed: ", gForkHandler);
    const auto mapping = currentMapping();
    gStarted = true;
    gPool = impl::enumerateDevices(
                mapping, std::getenv("TORCH_XPU_VIRTUAL_DEVICES"))
                .release();
    gMapping = mapping;
    gKnownCount.store(gPool->size(), std::memory_order_release);
  }
  return gPool->size();
}

impl::RootDevice& rootOf(DeviceIndex device) {
  check_device_index(device);
  return gPool->roots[static_cast<size_t>(device / gPool->ordinals_per_root)];
}

} // namespace

namespace impl {

int device_count() {
  const int known = gKnownCount.load(std::memory_order_acquire);
  return C10_LIKELY(known != kNotEnumerated) ? known : enumerate();
}

void raise_device_index(DeviceIndex index, int count) {
  TORCH_CHECK(
      count != 0,
      "No XPU device is available (",
      gPool->search,
      "). Set TORCH_XPU_MAPPING to GPU, CPU, AUTO or EXPLICIT to look for "
      "other devices");
  TORCH_CHECK(
      false,
      "XPU device index ",
      static_cast<int>(index),
      " is out of range: there are ",
      count,
      " XPU device(s), so it must be from 0 to ",
      count - 1);
}

DeviceIndex threadDevice() noexcept {
  return thread_device;
}

void setThreadDevice(DeviceIndex device) noexcept {
  thread_device = device;
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
  const int count = impl::device_count();
  if (C10_UNLIKELY(count == 0)) {
    TORCH_WARN_ONCE(
        "No XPU device was found. The ",
        gPool->search,
        ". Set TORCH_XPU_MAPPING (GPU, CPU, AUTO or EXPLICIT) to look for "
        "others.");
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_ensure_non_zero() {
  const int count = impl::device_count();
  if (C10_UNLIKELY(count == 0)) {
    impl::raise_device_index(0, 0);
  }
  return static_cast<DeviceIndex>(count);
}

DeviceIndex device_count_across_fork() {
  return static_cast<DeviceIndex>(
      C10_UNLIKELY(gForked && gPool) ? gPool->size() : impl::device_count());
}

bool is_available() {
  return impl::device_count() > 0;
}

void check_device_index(DeviceIndex device) {
  const int count = impl::device_count();
  if (C10_UNLIKELY(device < 0 || device >= count)) {
    impl::raise_device_index(device, count);
  }
}

DeviceIndex current_device() {
  device_count_ensure_non_zero();
  return thread_device;
}

void set_device(DeviceIndex device) {
  check_device_index(device);
  thread_device = device;
}

DeviceIndex exchange_device(DeviceIndex device) {
  check_device_index(device);
  return std::exchange(thread_device, device);
}

DeviceIndex maybe_exchange_device(DeviceIndex device) {
  return device < 0 ? current_device() : exchange_device(device);
}

sycl::device& get_raw_device(DeviceIndex device) {
  return rootOf(device).raw;
}

DeviceIndex get_root_device(DeviceIndex device) {
  check_device_index(device);
  return static_cast<DeviceIndex>(device - device % gPool->ordinals_per_root);
}

sycl::context& get_device_context() {
  device_count_ensure_non_zero();
  return impl::contextOf(*gPool);
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  auto& root = rootOf(device);
  c10::call_once(root.properties_once, [&] {
    root.properties = C10_XPU_CHECK(impl::queryProperties(root.raw));
  });
  return root.properties;
}

void get_device_properties(DeviceProp* prop, DeviceIndex device) {
  TORCH_CHECK(prop, "get_device_properties needs a place for the properties");
  *prop = get_device_properties(device);
}

optional<size_t> get_free_memory(DeviceIndex device) {
  auto& raw = get_raw_device(device);
  if (!C10_XPU_CHECK(raw.has(sycl::aspect::ext_intel_free_memory))) {
    return nullopt;
  }
  return C10_XPU_CHECK(
      raw.get_info<sycl::ext::intel::info::device::free_memory>());
}

bool can_device_access_peer(DeviceIndex device, DeviceIndex peer) {
  auto& one = get_raw_device(device);
  auto& other = get_raw_device(peer);
  return one == other ||
      C10_XPU_CHECK(one.ext_oneapi_can_access_peer(
          other, sycl::ext::oneapi::peer_access::access_supported));
}

bool enable_peer_access(DeviceIndex device, DeviceIndex peer) {
  const auto pair =
      std::make_pair(get_root_device(device), get_root_device(peer));
  if (!can_device_access_peer(device, peer)) {
    return false;
  }
  // SYCL raises if it is enabled twice.
  static auto* enabled = new std::set<std::pair<DeviceIndex, DeviceIndex>>;
  std::lock_guard<std::mutex> lock(gMutex);
  if (pair.first != pair.second && enabled->count(pair) == 0) {
    C10_XPU_CHECK(get_raw_device(device).ext_oneapi_enable_peer_access(
        get_raw_device(peer)));
    enabled->insert(pair);
  }
  return true;
}

void set_pointer_owner_lookup(PointerOwnerLookup lookup) {
  gOwnerLookup = lookup;
}

DeviceIndex get_device_idx_from_pointer(void* ptr) {
  TORCH_CHECK(ptr, "A null pointer does not belong to a device");
  auto& context = get_device_context();
  if (PointerOwnerLookup lookup = gOwnerLookup) {
    const DeviceIndex owner = lookup(ptr);
    if (owner >= 0) {
      return owner;
    }
  }
  const auto kind = C10_XPU_CHECK(sycl::get_pointer_type(ptr, context));
  TORCH_CHECK(
      kind == sycl::usm::alloc::device || kind == sycl::usm::alloc::shared,
      "The pointer ",
      ptr,
      " is ",
      kind == sycl::usm::alloc::host ? "pinned host memory"
                                     : "no memory of SYCL's",
      ", not memory of an XPU device");
  const auto raw = C10_XPU_CHECK(sycl::get_pointer_device(ptr, context));
  for (int index = 0; index < gPool->size();
       index += gPool->ordinals_per_root) {
    // Of several ordinals over this root, the first: SYCL knows no more.
    const auto device = static_cast<DeviceIndex>(index);
    if (rootOf(device).raw == raw) {
      return device;
    }
  }
  TORCH_CHECK(
      false,
      "The pointer ",
      ptr,
      " is memory of a device that is not an XPU device");
}

bool is_in_bad_fork() {
  return gForked;
}

bool is_device_pool_initialized() {
  return gKnownCount.load(std::memory_order_acquire) != kNotEnumerated;
}

void set_mapping(const std::string& name) {
  checkNotForked();
  impl::checkMapping(name, "set_mapping");
  std::lock_guard<std::mutex> lock(gMutex);
  TORCH_CHECK(
      !gPool,
      "The XPU mapping cannot be set to ",
      name,
      " any more: the devices have been enumerated with the mapping ",
      gMapping,
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
  TORCH_CHECK(
      mode != SyncDebugMode::ERROR, "called a synchronizing XPU operation");
  if (C10_UNLIKELY(mode == SyncDebugMode::WARN)) {
    TORCH_WARN("called a synchronizing XPU operation");
  }
}

} // namespace c10::xpu
