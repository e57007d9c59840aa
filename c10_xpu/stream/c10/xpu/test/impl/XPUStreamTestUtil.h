#pragma once

#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/xpu/XPUStream.h>

#include <sycl/handler.hpp>
#include <sycl/usm.hpp>

#include <future>
#include <stdexcept>

/// What tests that have work on streams have in common.

namespace c10 {
namespace xpu {
namespace test {

/// Work that holds a stream up until it is opened, at the latest when it dies.
/// SYCL may run host tasks in one thread: of streams that are held up at the
/// same time, the one that was first must be opened first.
class Gate {
 public:
  explicit Gate(const XPUStream& stream) : stream_(stream) {
    stream.queue().submit([&](sycl::handler& handler) {
      handler.host_task(
          [opened = opening_.get_future().share()] { opened.wait(); });
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
    if (!is_open_) {
      is_open_ = true;
      opening_.set_value();
    }
  }

  /// Opens it and returns when all work of the stream is done.
  void finish() {
    open();
    stream_.synchronize();
  }

 private:
  XPUStream stream_;
  std::promise<void> opening_;
  bool is_open_ = false;
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
