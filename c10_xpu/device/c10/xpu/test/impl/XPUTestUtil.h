#pragma once

#include <gtest/gtest.h>

#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>

#include <sycl/handler.hpp>
#include <sycl/properties/queue_properties.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// What the tests of all stages have in common.

namespace c10::xpu::test {

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

/// For tests in which a queue of one device uses memory of another.
#define C10_XPU_NEEDS_PEERS()                                               \
  do {                                                                      \
    for (c10::DeviceIndex one = 0; one < c10::xpu::device_count(); ++one) { \
      for (c10::DeviceIndex other = 0; other < one; ++other) {              \
        if (!c10::xpu::enable_peer_access(one, other) ||                    \
            !c10::xpu::enable_peer_access(other, one)) {                    \
          GTEST_SKIP() << "the cards cannot use each other's memory";       \
        }                                                                   \
      }                                                                     \
    }                                                                       \
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

/// Work that holds a queue up until it is opened, at the latest when it dies.
/// SYCL may run host tasks in one thread: of queues that are held up at the
/// same time, the one that was first must be opened first.
class Gate {
 public:
  explicit Gate(sycl::queue& queue) : queue_(queue) {
    queue_.submit([&](sycl::handler& handler) {
      handler.host_task(
          [opened = opening_.get_future().share()] { opened.wait(); });
    });
  }
  ~Gate() {
    finish();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  Gate(Gate&&) = delete;
  Gate& operator=(Gate&&) = delete;

  void open() {
    if (!is_open_) {
      is_open_ = true;
      opening_.set_value();
    }
  }

  /// Opens it and returns when all work of the queue is done.
  void finish() {
    open();
    queue_.wait();
  }

 private:
  sycl::queue queue_;
  std::promise<void> opening_;
  bool is_open_ = false;
};

/// Submits work that fails while it runs.
inline void submitFailure(sycl::queue& queue, const std::string& text) {
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

struct Ended {
  int code;
  std::string output;
};

/// Runs `body` in a forked child with these variables set ("" unsets one). A
/// child passes by returning an empty string; what it returns is the failure.
/// One that hangs is ended by a signal.
inline Ended inChild(
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) {
      value.empty() ? unsetenv(name.c_str())
                    : setenv(name.c_str(), value.c_str(), 1);
    }
    std::string failure;
    try {
      failure = body();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::string text = "[" + failure + "]";
    const auto written = write(ends[1], text.data(), text.size());
    _exit(failure.empty() && written > 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = read(ends[0], buffer.data(), buffer.size())) > 0) {
    output.append(buffer.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), output};
}

/// Runs a test's body in a child that is the first in its process to use XPU,
/// with these variables set. A program all of whose tests do so can repeat and
/// shuffle them. A skip of the body is one of the test.
inline void inFreshProcess(
    const std::function<void()>& body,
    const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  ASSERT_FALSE(is_device_pool_initialized())
      << "the process of the tests must not use XPU itself";
  const std::string skipped = "skipped";
  const auto ended = inChild(environment, [&]() -> std::string {
    body();
    return ::testing::Test::HasFailure() ? "failed"
        : ::testing::Test::IsSkipped()   ? skipped
                                         : "";
  });
  if (ended.output.find("[" + skipped + "]") != std::string::npos) {
    GTEST_SKIP() << "as the child says above";
  }
  EXPECT_EQ(ended.code, 0) << ended.output;
}

} // namespace c10::xpu::test
