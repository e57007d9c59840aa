#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// A process has one first use, so this is the only test here.

namespace {

/// The message of the c10::Error that `action` raises, "no error" without one.
template <typename Action>
std::string errorOf(Action&& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

} // namespace

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(XPULazyInitTest, AFailureIsTriedAgainAndThreadsInitializeOnce) {
  auto& context = at::globalContext();
  ASSERT_FALSE(c10::xpu::is_device_pool_initialized());

  c10::xpu::impl::fault_hook = [](const char*) {
    throw sycl::exception(
        sycl::make_error_code(sycl::errc::runtime), "injected");
  };
  int local = 0;
  EXPECT_CONTAINS(errorOf([&] { context.lazyInitXPU(); }), "injected");
  EXPECT_CONTAINS(
      errorOf([&] { context.getDeviceFromPtr(&local, at::kXPU); }), "injected");
  EXPECT_CONTAINS(
      errorOf([&] { context.defaultGenerator(at::kXPU); }), "injected");
  c10::xpu::impl::fault_hook = nullptr;
  EXPECT_FALSE(c10::xpu::is_device_pool_initialized());

  constexpr int kThreads = 16;
  std::atomic<int> waiting{0};
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      ++waiting;
      while (waiting < kThreads) {
      }
      errors[n] = errorOf([&] { context.lazyInitXPU(); });
      if (!c10::xpu::is_device_pool_initialized()) {
        errors[n] += ", but there is no pool of devices";
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }

  const char* mapping = std::getenv("TORCH_XPU_MAPPING");
  if (mapping != nullptr && std::string(mapping) != "GPU") {
    ASSERT_GT(c10::xpu::device_count(), 0);
  }
  for (const auto& error : errors) {
    if (c10::xpu::device_count() > 0) {
      EXPECT_EQ(error, "no error");
    } else {
      EXPECT_CONTAINS(error, "No XPU device is available");
    }
  }
}
