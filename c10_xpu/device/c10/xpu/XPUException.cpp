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
// Never destroyed: work may fail while the process ends.
auto& gKept = *new std::vector<AsyncError>;

} // namespace

void asyncHandler(sycl::exception_list errors) {
  impl::keepAsyncErrors(errors, impl::kUnknownDevice, 0);
}

namespace impl {

void keepAsyncErrors(
    const sycl::exception_list& errors,
    DeviceIndex device,
    StreamId stream) {
  const auto origin = device == kUnknownDevice
      ? std::string("external queue: ")
      : c10::str("stream ", stream, " on device xpu:", int(device), ": ");
  std::lock_guard<std::mutex> lock(gMutex);
  for (const auto& error : errors) {
    std::string text = "an unknown exception";
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) { // NOLINT(bugprone-empty-catch): the text says it
    }
    gKept.push_back({device, stream, origin + text});
  }
  gNumKept = gKept.size();
}

void raiseAsyncErrors(DeviceIndex device, optional<StreamId> stream) {
  if (C10_LIKELY(gNumKept.load(std::memory_order_relaxed) == 0)) {
    return;
  }
  std::string text;
  std::unique_lock<std::mutex> lock(gMutex);
  const auto end = std::stable_partition(
      gKept.begin(), gKept.end(), [&](const AsyncError& error) {
        return stream
            ? error.device == device && error.stream == *stream
            : error.device == device || error.device == kUnknownDevice;
      });
  const auto count = std::distance(gKept.begin(), end);
  for (auto it = gKept.begin(); it != end; ++it) {
    text += "\n  " + it->text;
  }
  gKept.erase(gKept.begin(), end);
  gNumKept = gKept.size();
  lock.unlock();
  TORCH_CHECK(
      count == 0, "XPU error: ", count, " asynchronous error(s):", text);
}

void raise(
    const char* call,
    const SourceLocation& where,
    const sycl::exception& error) {
  const auto text = c10::str("XPU error: ", error.what(), " (SYCL error code ");
  throw ::c10::Error(
      where, c10::str(text, error.code().value(), ", in ", call, ")"));
}

} // namespace impl
} // namespace c10::xpu
