#pragma once

#include <gtest/gtest.h>

#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// What the tests of all stages have in common.

namespace c10 {
namespace xpu {
namespace test {

/// Only the mapping GPU, which is the default, may find nothing: a device that
/// another mapping does not find fails the test.
inline bool mayHaveNoDevice() {
  const char* mapping = std::getenv("TORCH_XPU_MAPPING");
  return !mapping || std::string(mapping) == "GPU";
}

/// How many ordinals there are over each device.
inline int virtualDevices() {
  const char* count = std::getenv("TORCH_XPU_VIRTUAL_DEVICES");
  return count ? std::atoi(count) : 1;
}

#define C10_XPU_NEEDS_DEVICES(n)                                              \
  do {                                                                        \
    if (c10::xpu::device_count() == 0 && c10::xpu::test::mayHaveNoDevice()) { \
      GTEST_SKIP() << "the mapping GPU finds no device here";                 \
    }                                                                         \
    ASSERT_GT(c10::xpu::device_count(), 0);                                   \
    if (c10::xpu::device_count() < (n)) {                                     \
      GTEST_SKIP() << "needs " << (n) << " devices, there are "               \
                   << c10::xpu::test::deviceCount()                           \
                   << "; TORCH_XPU_VIRTUAL_DEVICES=2 makes two of each";      \
    }                                                                         \
  } while (0)

#define C10_XPU_NEEDS_NO_DEVICE()                   \
  do {                                              \
    if (c10::xpu::device_count() != 0) {            \
      GTEST_SKIP() << "there is a device";          \
    }                                               \
    ASSERT_TRUE(c10::xpu::test::mayHaveNoDevice()); \
  } while (0)

/// device_count() as a number: a DeviceIndex is a character to C++, also where
/// it is printed.
inline int deviceCount() {
  return device_count();
}

/// Runs `body(n)` for each n below `count`, in threads that all start at once.
template <typename Count, typename Body>
void inThreads(Count count, Body&& body) {
  std::atomic<Count> waiting{count};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (const auto n : c10::irange(count)) {
    threads.emplace_back([&, n] {
      --waiting;
      while (waiting > 0) {
        std::this_thread::yield();
      }
      body(n);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

/// The message of the c10::Error that `action` must raise.
template <typename Action>
std::string errorOf(Action&& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_PRED2(c10::xpu::test::contains, (text), (part))

/// While it lives, guarded calls whose text contains `call` fail as if SYCL had
/// raised: `times` of them, from the `from`-th on, counted from 0.
class Fault {
 public:
  explicit Fault(
      const char* call,
      int from = 0,
      int times = std::numeric_limits<int>::max()) {
    wanted() = call;
    passing() = from;
    failing() = times;
    impl::fault_hook = [](const char* text) {
      if (contains(text, wanted()) && passing()-- <= 0 && failing()-- > 0) {
        throw sycl::exception(
            sycl::make_error_code(sycl::errc::runtime), "injected");
      }
    };
  }
  ~Fault() {
    impl::fault_hook = nullptr;
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  Fault(Fault&&) = delete;
  Fault& operator=(Fault&&) = delete;

 private:
  static std::string& wanted() {
    static std::string call;
    return call;
  }
  static std::atomic<int>& passing() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::atomic<int>& failing() {
    static std::atomic<int> count{0};
    return count;
  }
};

} // namespace test
} // namespace xpu
} // namespace c10
