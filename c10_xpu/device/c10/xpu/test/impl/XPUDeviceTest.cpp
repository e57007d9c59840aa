#include <c10/xpu/test/impl/XPUFaults.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <sycl/usm.hpp>

#include <thread>
#include <vector>

using namespace c10::xpu;
using namespace c10::xpu::test;

TEST(XPUDeviceTest, CountIsThatOfTheMapping) {
  EXPECT_EQ(device_count() % virtualDevices(), 0);
  if (mayHaveNoDevice()) {
    return;
  }
  ASSERT_GT(device_count(), 0)
      << "the mapping " << mapping() << " found no device";
  if (mapping() == "CPU") {
    EXPECT_EQ(device_count(), virtualDevices());
  }
  EXPECT_EQ(device_count_ensure_non_zero(), device_count());
}

TEST(XPUDeviceTest, NoDeviceIsAnErrorOnceADeviceIsAskedFor) {
  C10_XPU_NEEDS_NO_DEVICE();
  for (const auto& text :
       {errorOf([] { device_count_ensure_non_zero(); }),
        errorOf([] { current_device(); }),
        errorOf([] { set_device(0); }),
        errorOf([] { get_raw_device(0); }),
        errorOf([] { get_device_context(); })}) {
    EXPECT_TRUE(contains(text, "No XPU device is available")) << text;
    EXPECT_CONTAINS(text, "TORCH_XPU_MAPPING");
  }
}

TEST(XPUDeviceTest, CurrentDeviceIsPerThread) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto last = static_cast<c10::DeviceIndex>(device_count() - 1);
  set_device(last);
  EXPECT_EQ(current_device(), last);
  std::thread([&] {
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(exchange_device(last), 0);
    EXPECT_EQ(exchange_device(0), last);
  }).join();
  EXPECT_EQ(current_device(), last);
  EXPECT_EQ(maybe_exchange_device(-1), last);
  EXPECT_EQ(current_device(), last);
  EXPECT_EQ(maybe_exchange_device(0), last);
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUDeviceTest, IndexOutOfRangeNamesTheRange) {
  C10_XPU_NEEDS_DEVICES(1);
  const int count = deviceCount();
  set_device(0);
  for (int bad : {-1, -128, count, 127}) {
    const auto index = static_cast<c10::DeviceIndex>(bad);
    const std::string expected = c10::str(
        "XPU device index ",
        bad,
        " is out of range: there are ",
        count,
        " XPU device(s), so it must be from 0 to ",
        count - 1);
    DeviceProp prop;
    for (const auto& text :
         {errorOf([&] { set_device(index); }),
          errorOf([&] { exchange_device(index); }),
          errorOf([&] { check_device_index(index); }),
          errorOf([&] { get_raw_device(index); }),
          errorOf([&] { get_device_properties(&prop, index); })}) {
      EXPECT_CONTAINS(text, expected);
    }
  }
  EXPECT_EQ(current_device(), 0);
}

TEST(XPUDeviceTest, PropertiesDescribeTheDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  for (int index = 0; index < device_count(); ++index) {
    const auto device = static_cast<c10::DeviceIndex>(index);
    DeviceProp prop;
    get_device_properties(&prop, device);
    const auto& raw = get_raw_device(device);
    EXPECT_EQ(prop.name, raw.get_info<sycl::info::device::name>());
    EXPECT_FALSE(prop.platform_name.empty());
    EXPECT_FALSE(prop.driver_version.empty());
    EXPECT_TRUE(prop.is_available);
    EXPECT_GT(prop.max_compute_units, 0u);
    EXPECT_GT(prop.max_work_group_size, 0u);
    EXPECT_GT(prop.global_mem_size, 0u);
    EXPECT_LE(prop.max_mem_alloc_size, prop.global_mem_size);
    EXPECT_FALSE(prop.sub_group_sizes.empty());
    EXPECT_FALSE(prop.single_fp_config.empty());
    EXPECT_EQ(prop.has_fp64, raw.has(sycl::aspect::fp64));
    EXPECT_EQ(prop.has_fp64, !prop.double_fp_config.empty());
    EXPECT_TRUE(raw.has(sycl::aspect::usm_device_allocations));
    EXPECT_GT(prop.gpu_eu_count, 0u) << "a device without it has a default";
  }
}

TEST(XPUDeviceTest, PropertiesAreAskedOfTheDriverOnce) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto& first = get_device_properties(0);
  static int calls = 0;
  sycl_hook = [](const char*) { ++calls; };
  const auto& second = get_device_properties(0);
  sycl_hook = nullptr;
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(&first, &second);
}

TEST(XPUDeviceTest, OrdinalsOverOneRootShareItsDeviceAndContext) {
  C10_XPU_NEEDS_DEVICES(1);
  EXPECT_EQ(&get_raw_device(0), &get_raw_device(virtualDevices() - 1));
  const auto devices = get_device_context().get_devices();
  EXPECT_EQ(
      devices.size() * static_cast<size_t>(virtualDevices()),
      static_cast<size_t>(device_count()));
}

TEST(XPUDeviceTest, OrdinalsOverOneRootHaveOneCard) {
  C10_XPU_NEEDS_DEVICES(1);
  for (int index = 0; index < device_count(); ++index) {
    const auto device = static_cast<c10::DeviceIndex>(index);
    const auto root = get_root_device(device);
    EXPECT_EQ(root, index - index % virtualDevices());
    EXPECT_EQ(&get_raw_device(root), &get_raw_device(device));
    const auto free = get_free_memory(device);
    EXPECT_EQ(
        free.has_value(),
        get_raw_device(device).has(sycl::aspect::ext_intel_free_memory) ||
            get_raw_device(device).is_cpu());
    EXPECT_LE(free.value_or(0), get_device_properties(device).global_mem_size);
    EXPECT_TRUE(can_device_access_peer(device, root));
    EXPECT_TRUE(enable_peer_access(device, root));
    for (int peer = 0; peer < device_count(); ++peer) {
      const auto other = static_cast<c10::DeviceIndex>(peer);
      EXPECT_EQ(
          enable_peer_access(device, other),
          can_device_access_peer(device, other));
      EXPECT_EQ(
          enable_peer_access(device, other), // a second time is harmless
          can_device_access_peer(device, other));
    }
  }
  const auto bad = static_cast<c10::DeviceIndex>(device_count());
  for (const auto& text :
       {errorOf([&] { get_root_device(bad); }),
        errorOf([&] { get_free_memory(bad); }),
        errorOf([&] { can_device_access_peer(0, bad); }),
        errorOf([&] { enable_peer_access(bad, 0); })}) {
    EXPECT_CONTAINS(text, "is out of range");
  }
}

TEST(XPUDeviceTest, QueuesOfOtherLibrariesShareTheContext) {
  C10_XPU_NEEDS_DEVICES(1);
  sycl::queue theirs(get_raw_device(0), sycl::property::queue::in_order());
  EXPECT_EQ(theirs.get_context(), get_device_context());
}

TEST(XPUDeviceTest, SynchronizationsWarnOrRaiseWhereAsked) {
  EXPECT_EQ(get_sync_debug_mode(), SyncDebugMode::L_DISABLED);
  warn_or_error_on_sync();
  set_sync_debug_mode(SyncDebugMode::L_ERROR);
  EXPECT_EQ(get_sync_debug_mode(), SyncDebugMode::L_ERROR);
  EXPECT_CONTAINS(
      errorOf([] { warn_or_error_on_sync(); }), "synchronizing XPU operation");
  set_sync_debug_mode(SyncDebugMode::L_WARN);
  warn_or_error_on_sync();
  set_sync_debug_mode(SyncDebugMode::L_DISABLED);
}

TEST(XPUDeviceTest, PointersHaveAnOwner) {
  C10_XPU_NEEDS_DEVICES(1);
  auto& context = get_device_context();
  void* device = sycl::malloc_device(64, get_raw_device(0), context);
  void* shared = sycl::malloc_shared(64, get_raw_device(0), context);
  void* host = sycl::malloc_host(64, context);
  int local = 0;
  EXPECT_EQ(get_device_idx_from_pointer(device), 0);
  EXPECT_EQ(get_device_idx_from_pointer(shared), 0);
  EXPECT_TRUE(contains(
      errorOf([&] { get_device_idx_from_pointer(host); }),
      "pinned host memory"));
  EXPECT_TRUE(contains(
      errorOf([&] { get_device_idx_from_pointer(&local); }),
      "memory that SYCL does not know"));
  EXPECT_THROW(get_device_idx_from_pointer(nullptr), c10::Error);
  for (void* ptr : {device, shared, host}) {
    sycl::free(ptr, context);
  }
}

TEST(XPUDeviceTest, TheAllocatorsRecordsComeFirst) {
  C10_XPU_NEEDS_DEVICES(1);
  static int mine = 0;
  set_pointer_owner_lookup([](void* ptr) {
    return static_cast<c10::DeviceIndex>(
        ptr == &mine ? device_count() - 1 : -1);
  });
  EXPECT_EQ(get_device_idx_from_pointer(&mine), device_count() - 1);
  int other = 0;
  EXPECT_THROW(get_device_idx_from_pointer(&other), c10::Error);
  set_pointer_owner_lookup(nullptr);
}

TEST(XPUDeviceTest, ErrorsOfSyclLeaveAsErrorsOfPyTorch) {
  C10_XPU_NEEDS_DEVICES(1);
  Ints memory(0, 1);
  Fault fault("get_pointer_device");
  const auto text = errorOf([&] { get_device_idx_from_pointer(memory.get()); });
  EXPECT_CONTAINS(text, "XPU error: injected (SYCL error code 1, in ");
  EXPECT_CONTAINS(text, "get_pointer_device");
}

TEST(XPUDeviceTest, TheMappingIsFixedAfterTheFirstUse) {
  const auto before = mapping();
  device_count();
  EXPECT_TRUE(is_device_pool_initialized());
  EXPECT_TRUE(contains(
      errorOf([] { set_mapping("AUTO"); }),
      "The XPU mapping cannot be set to AUTO any more"));
  EXPECT_EQ(mapping(), before);
}
