#include <ATen/test/xpu_names.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/Context.h>
#include <ATen/xpu/XPUContext.h>
#include <ATen/xpu/XPUDevice.h>
#include <c10/util/irange.h>

#include <sycl/usm.hpp>

#include <string>

using namespace c10::xpu::test;

namespace {

const at::XPUHooksInterface& hooks() {
  return at::detail::getXPUHooks();
}

/// USM memory of a kind, in the devices' context.
class Memory {
 public:
  explicit Memory(sycl::usm::alloc kind, c10::DeviceIndex device = 0)
      : ptr_(
            sycl::malloc(
                64,
                c10::xpu::get_raw_device(device),
                c10::xpu::get_device_context(),
                kind)) {}
  ~Memory() {
    sycl::free(ptr_, c10::xpu::get_device_context());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* get() const {
    return ptr_;
  }

 private:
  void* ptr_;
};

bool isPinnedPtr(void* ptr) {
  return at::globalContext().isPinnedPtr(ptr);
}

} // namespace

TEST(XPUDeviceTest, InitializedMoreThanOnceIsHarmless) {
  C10_XPU_NEEDS_DEVICES(1);
  initContext();
  initContext();
  EXPECT_TRUE(c10::xpu::is_device_pool_initialized());
}

TEST(XPUDeviceTest, CountIsThatOfTheMapping) {
  const auto count = at::xpu::device_count();
  if (!mayHaveNoDevice()) {
    ASSERT_GT(count, 0);
  }
  EXPECT_EQ(count % virtualDevices(), 0);
  EXPECT_EQ(count, c10::xpu::device_count());
  EXPECT_EQ(countOf(hooks()), count);
  EXPECT_EQ(at::xpu::is_available(), count > 0);
  EXPECT_TRUE(at::hasXPU());
}

TEST(XPUDeviceTest, CurrentDeviceIsC10s) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto i : c10::irange(at::xpu::device_count())) {
    c10::xpu::set_device(i);
    EXPECT_EQ(at::xpu::current_device(), i);
    EXPECT_EQ(hooks().current_device(), i);
    EXPECT_EQ(
        at::xpu::getCurrentDeviceProperties(), at::xpu::getDeviceProperties(i));
  }
  c10::xpu::set_device(0);
}

TEST(XPUDeviceTest, PropertiesDescribeTheDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto i : c10::irange(at::xpu::device_count())) {
    const auto* prop = at::xpu::getDeviceProperties(i);
    ASSERT_NE(prop, nullptr);
    EXPECT_EQ(
        prop->name,
        c10::xpu::get_raw_device(i).get_info<sycl::info::device::name>());
    EXPECT_EQ(prop, at::xpu::getDeviceProperties(i));
  }
}

TEST(XPUDeviceTest, GlobalIndexPointsIntoSYCLsList) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto all = sycl::device::get_devices();
  for (const auto i : c10::irange(at::xpu::device_count())) {
    const auto index = at::xpu::getGlobalIdxFromDevice(i);
    ASSERT_GE(index, 0);
    ASSERT_LT(static_cast<size_t>(index), all.size());
    EXPECT_EQ(all[index], c10::xpu::get_raw_device(i));
    EXPECT_EQ(hooks().getGlobalIdxFromDevice({at::kXPU, i}), index);
  }
}

TEST(XPUDeviceTest, GlobalIndexIsOfAnXPUDeviceWithAnIndex) {
  for (const char* device : {"cpu", "cuda:0", "xpu"}) {
    EXPECT_EQ(
        errorOf([&] { hooks().getGlobalIdxFromDevice(at::Device(device)); }),
        std::string(
            "Expected an XPU device with an index, such as xpu:0, got ") +
            device + ".");
  }
}

TEST(XPUDeviceTest, PeersAreC10s) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto i : c10::irange(at::xpu::device_count())) {
    EXPECT_TRUE(at::xpu::canDeviceAccessPeer(i, i));
    EXPECT_EQ(
        at::xpu::canDeviceAccessPeer(i, 0),
        c10::xpu::can_device_access_peer(i, 0));
  }
}

TEST(XPUDeviceTest, IndexOutOfRangeNamesTheRange) {
  C10_XPU_NEEDS_DEVICES(1);
  const int count = deviceCount();
  for (const int bad : {-1, -128, count, 127}) {
    const auto index = static_cast<c10::DeviceIndex>(bad);
    for (const auto& text :
         {errorOf([&] { at::xpu::getDeviceProperties(index); }),
          errorOf([&] { at::xpu::getGlobalIdxFromDevice(index); })}) {
      EXPECT_CONTAINS(text, "XPU device index " + std::to_string(bad));
      EXPECT_CONTAINS(text, "from 0 to " + std::to_string(count - 1));
    }
  }
}

TEST(XPUDeviceTest, PointersHaveTheirDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  for (const auto kind : {sycl::usm::alloc::device, sycl::usm::alloc::shared}) {
    const Memory memory(kind);
    ASSERT_NE(memory.get(), nullptr);
    const at::Device expected(at::kXPU, 0);
    EXPECT_EQ(at::xpu::getDeviceFromPtr(memory.get()), expected);
    EXPECT_EQ(hooks().getDeviceFromPtr(memory.get()), expected);
    EXPECT_EQ(
        at::globalContext().getDeviceFromPtr(memory.get(), at::kXPU), expected);
  }
}

TEST(XPUDeviceTest, HostMemoryHasNoDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  int local = 0;
  const Memory pinned(sycl::usm::alloc::host);
  for (void* ptr : {static_cast<void*>(&local), pinned.get()}) {
    EXPECT_THROW(at::xpu::getDeviceFromPtr(ptr), c10::Error);
    EXPECT_THROW(
        at::globalContext().getDeviceFromPtr(ptr, at::kXPU), c10::Error);
  }
}

TEST(XPUDeviceTest, OnlyUSMHostMemoryIsPinned) {
  C10_XPU_NEEDS_DEVICES(1);
  initContext();
  int local = 0;
  const Memory host(sycl::usm::alloc::host);
  const Memory device(sycl::usm::alloc::device);
  const Memory shared(sycl::usm::alloc::shared);
  EXPECT_TRUE(isPinnedPtr(host.get()));
  EXPECT_TRUE(isPinnedPtr(static_cast<char*>(host.get()) + 63));
  EXPECT_FALSE(isPinnedPtr(device.get()));
  EXPECT_FALSE(isPinnedPtr(shared.get()));
  EXPECT_FALSE(isPinnedPtr(&local));
  EXPECT_FALSE(isPinnedPtr(nullptr));
}

TEST(XPUDeviceTest, ConfigurationNamesEveryDevice) {
  const auto text = hooks().showConfig();
  EXPECT_CONTAINS(text, "XPU mapping " + c10::xpu::mapping() + ", ");
  for (const auto i : c10::irange(at::xpu::device_count())) {
    EXPECT_CONTAINS(
        text,
        "xpu:" + std::to_string(i) + " " +
            at::xpu::getDeviceProperties(i)->name);
  }
}

TEST(XPUDeviceTest, AForkedChildMayAskWhatNeedsNoDevice) {
  C10_XPU_NEEDS_DEVICES(1);
  const auto ended = inChild({}, []() -> std::string {
    int local = 0;
    if (!at::hasXPU() || isPinnedPtr(&local)) {
      return "wrong answer";
    }
    const auto text = errorOf([] { at::xpu::device_count(); });
    return contains(text, "forked") ? "" : text;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(XPUDeviceTest, NoDeviceIsAnErrorOnceADeviceIsAskedFor) {
  C10_XPU_NEEDS_NO_DEVICE();
  EXPECT_FALSE(at::xpu::is_available());
  EXPECT_EQ(hooks().current_device(), -1);
  int local = 0;
  EXPECT_FALSE(isPinnedPtr(&local));
  auto& context = at::globalContext();
  // Twice, since a failed initialization is tried again.
  for (int n = 0; n < 2; ++n) {
    for (const auto& text :
         {errorOf([&] { initContext(); }),
          errorOf([&] { context.defaultGenerator(at::kXPU); }),
          errorOf([&] { context.getDeviceFromPtr(&local, at::kXPU); }),
          errorOf([] { at::xpu::current_device(); }),
          errorOf([] { at::xpu::getCurrentDeviceProperties(); }),
          errorOf([] { at::xpu::getDeviceProperties(0); }),
          errorOf([] { at::xpu::getGlobalIdxFromDevice(0); })}) {
      EXPECT_CONTAINS(text, "No XPU device is available");
      EXPECT_CONTAINS(text, "TORCH_XPU_MAPPING");
    }
  }
}
