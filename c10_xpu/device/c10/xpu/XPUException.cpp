#include <c10/xpu/XPUException.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>

namespace c10::xpu {

static std::mutex gErrorsMutex;
// A line for each error. Never destroyed: work may fail while the process ends.
static auto& gErrors = *new std::unordered_map<Stream, std::string>;
static std::atomic<bool> gAny{false}; // whether there are some

void asyncHandler(sycl::exception_list errors) {
  impl::keepAsyncErrors(errors, Stream(Stream::DEFAULT, kXPU));
}

void impl::keepAsyncErrors(const sycl::exception_list& errors, Stream stream) {
  const auto origin =
      stream.device_index() < 0 ? "external queue" : c10::str(stream);
  std::lock_guard<std::mutex> lock(gErrorsMutex);
  auto& text = gErrors[stream];
  for (const auto& error : errors) {
    text += "\n  " + origin + ": ";
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      text += e.what();
    } catch (...) {
      text += "an unknown exception";
    }
  }
  gAny.store(true, std::memory_order_release);
}

void impl::raiseAsyncErrors(DeviceIndex device, optional<StreamId> stream) {
  if (C10_LIKELY(!gAny.load(std::memory_order_acquire))) {
    return;
  }
  std::string text;
  std::unique_lock<std::mutex> lock(gErrorsMutex);
  for (auto it = gErrors.begin(); it != gErrors.end();) {
    const auto from = it->first.device_index();
    const bool due = stream ? from == device && it->first.id() == *stream
                            : from == device || from == kUnknownDevice;
    text += due ? it->second : "";
    it = due ? gErrors.erase(it) : ++it;
  }
  gAny.store(!gErrors.empty(), std::memory_order_release);
  lock.unlock();
  TORCH_CHECK(text.empty(), "XPU error: asynchronous error(s):", text);
}

void impl::raise(SourceLocation where, const sycl::exception& error) {
  auto text = c10::str("XPU error: ", error.what(), " (SYCL error code ");
  text += c10::str(error.code().value(), ", in ", where.function, ")");
  throw ::c10::Error(where, text);
}

} // namespace c10::xpu
