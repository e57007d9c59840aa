#include <c10/xpu/XPUFunctions.h>

#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/impl/XPUDevicePool.h>

#include <sycl/usm.hpp>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

namespace c10 {
namespace xpu {
namespace {

using impl::DevicePool;
using impl::Mapping;

// Written once, before known_device_count; never destroyed, since threads and
// other libraries may come here while the process ends.
DevicePool* gPool = nullptr;
std::mutex gMutex;
bool gMappingSet = false; // under gMutex, with gMapping
Mapping gMapping = Mapping::GPU;
std::atomic<bool> gStarted{false}; // the SYCL runtime may have been called
std::atomic<bool> gForked{false};
std::atomic<PointerOwnerLookup> gOwnerLookup{nullptr};

/// Runs in each forked child. The SYCL runtime's threads and locks do not
/// survive: whatever is called would hang. Say so instead. Our own lock may be
/// held by a thread that the child does not have, hence a new one.
void afterForkInChild() {
  new (&gMutex) std::mutex;
  if (gStarted.load(std::memory_order_relaxed)) {
    gForked = true;
    impl::known_device_count = impl::kNotEnumerated;
  }
}

// Registered when the library is loaded, so that it is there for a fork during
// the first use as well.
const int gForkHandler = pthread_atfork(nullptr, nullptr, &afterForkInChild);

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

} // namespace

namespace impl {

std::atomic<int> known_device_count{kNotEnumerated};
__thread DeviceIndex thread_device = 0;

int enumerate() {
  checkNotForked();
  std::lock_guard<std::mutex> lock(gMutex);
  int count = known_device_count.load(std::memory_order_relaxed);
  if (count != kNotEnumerated) {
    return count; // another thread came first
  }
  TORCH_CHECK(gForkHandler == 0, "pthread_atfork failed: ", gForkHandler);
  const Mapping mapping = currentMapping();
  const int ordinals =
      parseVirtualDevices(std::getenv("TORCH_XPU_VIRTUAL_DEVICES"));
  gStarted = true;
  gPool = enumerateDevices(mapping, ordinals).release();
  gMapping = mapping;
  gMappingSet = true;
  count = static_cast<int>(gPool->size());
  known_device_count.store(count, std::memory_order_release);
  return count;
}

void warn_no_device() {
  TORCH_WARN_ONCE(
      "No XPU device was found. The ",
      gPool->search,
      ". Set TORCH_XPU_MAPPING (GPU, CPU, AUTO or EXPLICIT) to look for "
      "others.");
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

} // namespace impl

DeviceIndex device_count_across_fork() {
  if (C10_UNLIKELY(gForked && gPool)) {
    return static_cast<DeviceIndex>(gPool->size());
  }
  return static_cast<DeviceIndex>(impl::device_count());
}

sycl::device& get_raw_device(DeviceIndex device) {
  check_device_index(device);
  return gPool->root(device).raw;
}

sycl::context& get_device_context() {
  device_count_ensure_non_zero();
  return impl::contextOf(*gPool);
}

const DeviceProp& get_device_properties(DeviceIndex device) {
  check_device_index(device);
  auto& root = gPool->root(device);
  c10::call_once(root.properties_once, [&] {
    root.properties = C10_XPU_CHECK(impl::queryProperties(root.raw));
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
  device_count_ensure_non_zero();
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

bool is_in_bad_fork() {
  return gForked;
}

void set_mapping(const std::string& name) {
  checkNotForked();
  const Mapping wanted = impl::parseMapping(name, "set_mapping");
  std::lock_guard<std::mutex> lock(gMutex);
  TORCH_CHECK(
      !is_device_pool_initialized(),
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

} // namespace xpu
} // namespace c10
