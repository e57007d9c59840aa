#include <c10/xpu/XPUException.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

namespace c10::xpu {
namespace {

struct AsyncError {
  DeviceIndex device;
  StreamId stream;
  std::string text;
};

std::mutex gMutex;
std::atomic<size_t> gNumKept{0};

std::vector<AsyncError>& keptErrors() { // under gMutex
  // Never destroyed: work may fail while the process ends.
  static auto* errors = new std::vector<AsyncError>;
  return *errors;
}

} // namespace

void asyncHandler(sycl::exception_list errors) {
  impl::keepAsyncErrors(errors, impl::kUnknownDevice, 0);
}

namespace impl {

void keepAsyncErrors(
    const sycl::exception_list& errors,
    DeviceIndex device,
    StreamId stream) {
  auto text = device == kUnknownDevice
      ? std::string("external queue: ")
      : c10::str("stream ", stream, " on device xpu:", int(device), ": ");
  std::lock_guard<std::mutex> lock(gMutex);
  for (const auto& error : errors) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      keptErrors().push_back({device, stream, text + e.what()});
    } catch (...) {
      keptErrors().push_back({device, stream, text + "an unknown exception"});
    }
  }
  gNumKept.store(keptErrors().size(), std::memory_order_relaxed);
}

void raiseAsyncErrors(DeviceIndex device, optional<StreamId> stream) {
  if (C10_LIKELY(gNumKept.load(std::memory_order_relaxed) == 0)) {
    return;
  }
  std::string text;
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(gMutex);
    auto& kept = keptErrors();
    const auto end = std::stable_partition(
        kept.begin(), kept.end(), [&](const AsyncError& error) {
          return stream
              ? error.device == device && error.stream == *stream
              : error.device == device || error.device == kUnknownDevice;
        });
    for (auto it = kept.begin(); it != end; ++it, ++count) {
      text += "\n  " + it->text;
    }
    kept.erase(kept.begin(), end);
    gNumKept.store(kept.size(), std::memory_order_relaxed);
  }
  TORCH_CHECK(
      count == 0, "XPU error: ", count, " asynchronous error(s):", text);
}

void raise(
    const char* call,
    const SourceLocation& where,
    const sycl::exception& error) {
  const auto code = std::to_string(error.code().value());
  throw ::c10::Error(
      where,
      c10::str("XPU error: ", error.what()) + " (SYCL error code " + code +
          ", in " + call + ")");
}

} // namespace impl
} // namespace c10::xpu
