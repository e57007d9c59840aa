#include <c10/xpu/XPUFunctions.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUDevicePool.h>

#include <sycl/usm.hpp>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace c10 {
namespace xpu {
namespace {

using impl::DevicePool;
using impl::Mapping;

constexpr int kNotEnumerated = -1;

// The number of devices, or kNotEnumerated. Everything that needs the pool
// reads this first: one load where the pool is there.
std::atomic<int> gCount{kNotEnumerated};
// Written once, before gCount; never destroyed, since threads and other
// libraries may come here while the process ends.
DevicePool* gPool = nullptr;
std::mutex gMutex;
bool gMappingSet = false; // under gMutex, with gMapping
Mapping gMapping = Mapping::GPU;
std::atomic<bool> gForked{false};
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};

// Initial-exec: one instruction instead of a call, for the few bytes that
// every library may take of the static block.
__attribute__((tls_model("initial-exec"))) thread_local DeviceIndex tDevice = 0;

/// The SYCL runtime's threads and locks do not survive fork(): whatever is
/// called in the child would hang. Say so instead.
void markForked() {
  if (gCount.load(std::memory_order_relaxed) != kNotEnumerated) {
    gForked = true;
    gCount = kNotEnumerated;
  }
}

void checkNotForked() {
  TORCH_CHECK(
      !gForked,
      "Cannot use XPU in a forked subprocess: its parent had initialized XPU "
      "before the fork. To use XPU with multiprocessing, use the 'spawn' "
      "start method");
}

Mapping currentMapping() {
  if (gMappingSet) {
    return gMapping;
  }
  const char* name = std::getenv("TORCH_XPU_MAPPING");
  return name ? impl::parseMapping(name, "TORCH_XPU_MAPPING") : Mapping::GPU;
}

C10_NOINLINE int enumerate() {
  checkNotForked();
  std::lock_guard<std::mutex> lock(gMutex);
  int count = gCount.load(std::memory_order_relaxed);
  if (count != kNotEnumerated) {
    return count; // another thread came first
  }
  const Mapping mapping = currentMapping();
  const int ordinals =
      impl::parseVirtualDevices(std::getenv("TORCH_XPU_VIRTUAL_DEVICES"));
  gPool = impl::enumerateDevices(mapping, ordinals).release();
  gMapping = mapping;
  gMappingSet = true;
  static std::once_flag at_fork;
  std::call_once(
      at_fork, [] { pthread_atfork(nullptr, nullptr, &markForked); });
  count = static_cast<int>(gPool->size());
  gCount.store(count, std::memory_order_release);
  return count;
}

inline int count() {
  const int known = gCount.load(std::memory_order_acquire);
  return C10_LIKELY(known != kNotEnumerated) ? known : enumerate();
}

[[noreturn]] C10_NOINLINE void raiseIndex(DeviceIndex device, int count) {
  TORCH_CHECK(
      count != 0,
      "No XPU device is available (mapping ",
      mapping(),
      "). Set TORCH_XPU_MAPPING to GPU, CPU, AUTO or EXPLICIT to look for "
      "other devices");
  TORCH_CHECK(
      false,
      "XPU device index ",
      static_cast<int>(device),
      " is out of range: there are ",
      count,
      " XPU device(s), so it must be from 0 to ",
      count - 1);
}

inline void check(DeviceIndex device) {
  const int known = count();
  if (C10_UNLIKELY(device < 0 || device >= known)) {
    raiseIndex(device, known);
  }
}

} // namespace

DeviceIndex device_count() {
  return static_cast<DeviceIndex>(count());
}

DeviceIndex device_count_ensure_non_zero() {
  const int known = count();
  if (C10_UNLIKELY(known == 0)) {
    raiseIndex(0, 0);
  }
  return static_cast<DeviceIndex>(known);
}

DeviceIndex current_device() {
  device_count_ensure_non_zero();
  return tDevice;
}

void set_device(DeviceIndex device) {
  check(device);
  tDevice = device;
}

DeviceIndex exchange_device(DeviceIndex device) {
  check(device);
  const DeviceIndex before = tDevice;
  tDevice = device;
  return before;
}

DeviceIndex maybe_exchange_device(DeviceIndex device) {
  return device < 0 ? current_device() : exchange_device(device);
}

void check_device_index(DeviceIndex device) {
  check(device);
}

sycl::device& get_raw_device(DeviceIndex device) {
  check(device);
  return gPool->root(device).raw;
}

sycl::context& get_device_context() {
  device_count_ensure_non_zero();
  return *gPool->context;
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  check(device);
  auto& root = gPool->root(device);
  std::call_once(root.properties_once, [&] {
    root.properties = impl::queryProperties(root.raw);
  });
  return root.properties;
}

void get_device_properties(DeviceProp* prop, DeviceIndex device) {
  TORCH_CHECK(prop, "get_device_properties needs a place for the properties");
  *prop = get_device_properties(device);
}

void set_pointer_owner_lookup(PointerOwnerLookup lookup) {
  gOwnerLookup = lookup;
}

DeviceIndex get_device_idx_from_pointer(void* ptr) {
  TORCH_CHECK(ptr, "A null pointer is no device's");
  if (PointerOwnerLookup lookup = gOwnerLookup) {
    const DeviceIndex owner = lookup(ptr);
    if (owner >= 0) {
      return owner;
    }
  }
  auto& context = get_device_context();
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
  for (size_t index = 0; index < gPool->roots.size(); ++index) {
    if (gPool->roots[index]->raw == raw) {
      // Of several ordinals over this root, the first: SYCL knows no more.
      return static_cast<DeviceIndex>(
          index * static_cast<size_t>(gPool->ordinals_per_root));
    }
  }
  TORCH_CHECK(
      false,
      "The pointer ",
      ptr,
      " is memory of a device that is no XPU device");
}

void set_mapping(const std::string& name) {
  checkNotForked();
  const Mapping wanted = impl::parseMapping(name, "set_mapping");
  std::lock_guard<std::mutex> lock(gMutex);
  TORCH_CHECK(
      gCount.load(std::memory_order_relaxed) == kNotEnumerated,
      "The XPU mapping cannot be set to ",
      name,
      " any more: the devices have been enumerated with the mapping ",
      impl::mappingName(gMapping),
      ". Set it before the first use of an XPU device");
  gMapping = wanted;
  gMappingSet = true;
}

std::string mapping() {
  std::lock_guard<std::mutex> lock(gMutex);
  return impl::mappingName(currentMapping());
}

bool is_device_pool_initialized() {
  return gCount.load(std::memory_order_acquire) != kNotEnumerated;
}

} // namespace xpu
} // namespace c10
