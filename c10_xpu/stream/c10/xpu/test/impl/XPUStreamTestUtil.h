#pragma once

#include <gtest/gtest.h>

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/handler.hpp>
#include <sycl/usm.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

/// What the tests of streams and events have in common.

namespace c10 {
namespace xpu {
namespace test {

/// Only the mapping GPU, which is the default, may find nothing.
inline bool mayHaveNoDevice() {
  const char* mapping = std::getenv("TORCH_XPU_MAPPING");
  return !mapping || std::string(mapping) == "GPU";
}

#define C10_XPU_NEEDS_DEVICES(n)                                              \
  do {                                                                        \
    if (c10::xpu::device_count() == 0 && c10::xpu::test::mayHaveNoDevice()) { \
      GTEST_SKIP() << "the mapping GPU finds no device here";                 \
    }                                                                         \
    ASSERT_GT(c10::xpu::device_count(), 0);                                   \
    if (c10::xpu::device_count() < (n)) {                                     \
      GTEST_SKIP() << "needs " << (n) << " devices, there are "               \
                   << static_cast<int>(c10::xpu::device_count())              \
                   << "; TORCH_XPU_VIRTUAL_DEVICES=2 makes two of each";      \
    }                                                                         \
  } while (0)

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

/// While it lives, the guarded call whose text contains `call` fails as if
/// SYCL had raised: from the `from`-th time on, counted from 0.
class Fault {
 public:
  explicit Fault(const char* call, int from = 0) {
    wanted() = call;
    remaining() = from;
    impl::fault_hook = [](const char* text) {
      if (contains(text, wanted()) && remaining()-- <= 0) {
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
  static std::atomic<int>& remaining() {
    static std::atomic<int> count{0};
    return count;
  }
};

/// Work that holds a stream up until it is opened, at the latest when it dies.
class Gate {
 public:
  explicit Gate(const XPUStream& stream) : stream_(stream) {
    stream.queue().submit([this](sycl::handler& handler) {
      handler.host_task([this] {
        while (!open_) {
          std::this_thread::yield();
        }
      });
    });
  }
  ~Gate() {
    open();
    stream_.queue().wait();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  Gate(Gate&&) = delete;
  Gate& operator=(Gate&&) = delete;

  void open() {
    open_ = true;
  }

 private:
  XPUStream stream_;
  std::atomic<bool> open_{false};
};

/// Submits work that fails while it runs.
inline void submitFailure(sycl::queue& queue, const char* text) {
  queue.submit([text](sycl::handler& handler) {
    handler.host_task([text] { throw std::runtime_error(text); });
  });
}

/// Device memory for `count` integers.
class Ints {
 public:
  Ints(DeviceIndex device, size_t count)
      : count_(count),
        data_(
            sycl::malloc_device<int>(
                count,
                get_raw_device(device),
                get_device_context())) {
    TORCH_CHECK(data_, "no device memory for a test");
  }
  ~Ints() {
    sycl::free(data_, get_device_context());
  }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  Ints(Ints&&) = delete;
  Ints& operator=(Ints&&) = delete;

  int* get() const {
    return data_;
  }
  size_t bytes() const {
    return count_ * sizeof(int);
  }

 private:
  size_t count_;
  int* data_;
};

} // namespace test
} // namespace xpu
} // namespace c10
