#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <ATen/ATen.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelCache.h>
#include <ATen/xpu/detail/Operators.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/XPUStream.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace c10::xpu::test;
using c10::xpu::device_count;
using namespace at::xpu::detail;
namespace fs = std::filesystem;

#ifdef __SANITIZE_ADDRESS__
/// What SYCL's run-time compiler allocates by an operator of its own, SYCL
/// frees by the program's.
// NOLINTNEXTLINE(bugprone-reserved-identifier): AddressSanitizer's name
extern "C" const char* __asan_default_options() {
  return "alloc_dealloc_mismatch=0";
}
#endif

namespace {

/// A folder of this process, that kernels are kept in.
struct Folder {
  Folder() {
    std::string name = fs::temp_directory_path() / "xpu-kernels-XXXXXX";
    path = mkdtemp(name.data());
    setenv("TORCH_XPU_KERNELS", "1", /*overwrite=*/1);
    setenv("TORCH_XPU_KERNEL_CACHE", path.c_str(), /*overwrite=*/1);
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path path;
};
const Folder folder;

const std::vector<KernelImage> kImages{
    {"one", std::string("\0code\n", 6)},
    {"two", std::string(70000, 'x')},
    {"three", ""}};

bool same(const std::vector<KernelImage>& images) {
  if (images.size() != kImages.size()) {
    return false;
  }
  for (const auto i : c10::irange(images.size())) {
    if (images[i].kernel != kImages[i].kernel ||
        images[i].code != kImages[i].code) {
      return false;
    }
  }
  return true;
}

fs::path onlyFile(const fs::path& where) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(where)) {
    EXPECT_TRUE(found.empty());
    found = entry.path();
  }
  return found;
}

class XPUKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    C10_XPU_NEEDS_DEVICES(1);
    c10::xpu::XPUCachingAllocator::init(device_count());
    at::xpu::detail::registerFallbacks();
  }
};

} // namespace

TEST(XPUKernelCacheTest, KeepsImages) {
  ASSERT_TRUE(storeKernels(folder.path, "a key\n", kImages));
  const auto found = loadKernels("a key\n");
  ASSERT_TRUE(found);
  EXPECT_TRUE(same(*found));
  EXPECT_FALSE(loadKernels("another key\n"));
  EXPECT_FALSE(storeKernels("/dev/null/folder", "a key\n", kImages));
}

TEST(XPUKernelCacheTest, DamageIsAsNoFile) {
  const auto key = std::string("damaged");
  const auto own = folder.path / "own";
  ASSERT_TRUE(storeKernels(own, key, kImages));
  const auto kept = onlyFile(own);
  const auto used = folder.path / kept.filename();
  std::ifstream file(kept, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  const auto load = [&](const std::string& bytes) {
    std::ofstream(used, std::ios::binary) << bytes;
    return loadKernels(key);
  };
  ASSERT_TRUE(load(whole));
  std::mt19937 random(0); // NOLINT(cert-msc51-cpp): the same bytes in each run
  for (const auto i : c10::irange(400)) {
    // the first bytes are headers, the last ones the checksum
    const auto spread = i % 2 ? random() % whole.size()
        : i % 4               ? random() % 200
                              : whole.size() - 1 - random() % 40;
    auto changed = whole;
    changed[spread] = static_cast<char>(changed[spread] ^ (1 << random() % 8));
    EXPECT_FALSE(load(changed)) << "byte " << spread;
    EXPECT_FALSE(load(whole.substr(0, spread))) << "cut at " << spread;
  }
  EXPECT_TRUE(load(whole));
}

TEST(XPUKernelCacheTest, ThreadsStoreAndLoadAtOnce) {
  const auto key = std::string("shared");
  ASSERT_TRUE(storeKernels(folder.path, key, kImages));
  inThreads(6, [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      if (thread % 2) {
        EXPECT_TRUE(storeKernels(folder.path, key, kImages));
      } else {
        const auto images = loadKernels(key);
        ASSERT_TRUE(images);
        EXPECT_TRUE(same(*images));
      }
    }
  });
}

TEST_F(XPUKernelTest, ThreadsLoadAndLaunchAtOnce) {
  const auto on_cpu = at::arange(1000, at::kFloat);
  at::xpu::resetFallbackStatistics();
  inThreads(6, [&](int thread) {
    const auto device = c10::DeviceIndex(thread % device_count());
    const c10::xpu::XPUGuard guard(device);
    const auto stream = c10::xpu::getStreamFromPool(false, device);
    const c10::xpu::XPUStreamGuard on(stream);
    auto x = on_cpu.to(at::Device(at::kXPU, device));
    for (int i = 0; i < 30; ++i) {
      x = thread % 3 ? x + 1 : at::neg(at::neg(x)) + 1;
    }
    EXPECT_TRUE(at::equal(x.cpu(), on_cpu + 30));
  });
  for (const auto& count : at::xpu::fallbackStatistics()) {
    EXPECT_NE(count.name, "aten::add.Tensor");
    EXPECT_NE(count.name, "aten::neg");
  }
}
