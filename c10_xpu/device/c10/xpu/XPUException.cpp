#include <c10/xpu/XPUException.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

namespace c10::xpu {
namespace {

constexpr DeviceIndex kUnknownDevice = -1; // of what asyncHandler keeps

struct AsyncError {
  DeviceIndex device;
  StreamId stream;
  std::string text;
};

struct AsyncErrors {
  std::mutex mutex;
  std::vector<AsyncError> kept;
};

std::atomic<size_t> num_kept{0};

AsyncErrors& asyncErrors() {
  // Never destroyed: work may fail while the process ends.
  static auto* errors = new AsyncErrors;
  return *errors;
}

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

template <typename Predicate>
void raiseKept(Predicate matches) {
  if (C10_LIKELY(num_kept.load(std::memory_order_relaxed) == 0)) {
    return;
  }
  std::string text;
  size_t count = 0;
  {
    auto& all = asyncErrors();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto end =
        std::stable_partition(all.kept.begin(), all.kept.end(), matches);
    for (auto it = all.kept.begin(); it != end; ++it, ++count) {
      text += "\n  " + it->text;
    }
    all.kept.erase(all.kept.begin(), end);
    num_kept.store(all.kept.size(), std::memory_order_relaxed);
  }
  TORCH_CHECK(
      count == 0,
      "XPU error: ",
      count,
      " asynchronous error(s) of work submitted earlier:",
      text);
}

} // namespace

void asyncHandler(sycl::exception_list errors) {
  impl::keepAsyncErrors(errors, kUnknownDevice, 0);
}

namespace impl {

void keepAsyncErrors(
    const sycl::exception_list& errors,
    DeviceIndex device,
    StreamId stream) {
  const auto origin = device == kUnknownDevice
      ? std::string("external queue")
      : c10::str("stream ", stream, " on device xpu:", int(device));
  auto& all = asyncErrors();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& error : errors) {
    all.kept.push_back({device, stream, origin + ": " + describe(error)});
  }
  num_kept.store(all.kept.size(), std::memory_order_relaxed);
}

void raiseAsyncErrors(DeviceIndex device, StreamId stream) {
  raiseKept([&](const AsyncError& error) {
    return error.device == device && error.stream == stream;
  });
}

void raiseAsyncErrors(DeviceIndex device) {
  raiseKept([&](const AsyncError& error) {
    return error.device == device || error.device == kUnknownDevice;
  });
}

void raiseAsyncErrors() {
  raiseAsyncErrors(kUnknownDevice);
}

void raise(
    const char* call,
    const SourceLocation& where,
    const sycl::exception& error) {
  throw ::c10::Error(
      where,
      c10::str(
          "XPU error: ",
          error.what(),
          " (SYCL error code ",
          error.code().value(),
          ", in ",
          call,
          ")"));
}

} // namespace impl
} // namespace c10::xpu
