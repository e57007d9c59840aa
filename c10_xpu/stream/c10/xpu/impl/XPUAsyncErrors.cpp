#include <c10/xpu/impl/XPUAsyncErrors.h>

#include <c10/util/Exception.h>

#include <sycl/exception.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

namespace c10 {
namespace xpu {
namespace impl {
namespace {

constexpr DeviceIndex kAnyDevice = -1;

struct AsyncError {
  DeviceIndex device;
  std::string text;
};

struct AsyncErrors {
  std::mutex mutex;
  std::vector<AsyncError> kept;
};

std::atomic<size_t> gNumKept{0};

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
    return "an exception that is no std::exception";
  }
}

} // namespace

void keepStreamErrors(
    sycl::exception_list errors,
    DeviceIndex device,
    const std::string& origin) {
  auto& all = asyncErrors();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& error : errors) {
    all.kept.push_back({device, origin + ": " + describe(error)});
  }
  gNumKept.store(all.kept.size(), std::memory_order_relaxed);
}

void keepContextErrors(sycl::exception_list errors) {
  keepStreamErrors(std::move(errors), kAnyDevice, "external queue");
}

void raiseAsyncErrors(DeviceIndex device) {
  // A thread sees what SYCL delivered to it, and what it was ordered after.
  if (C10_LIKELY(gNumKept.load(std::memory_order_relaxed) == 0)) {
    return;
  }
  std::string text;
  size_t count = 0;
  {
    auto& all = asyncErrors();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto end = std::stable_partition(
        all.kept.begin(), all.kept.end(), [device](const AsyncError& error) {
          return error.device == device || error.device == kAnyDevice;
        });
    for (auto it = all.kept.begin(); it != end; ++it, ++count) {
      text += "\n  " + it->text;
    }
    all.kept.erase(all.kept.begin(), end);
    gNumKept.store(all.kept.size(), std::memory_order_relaxed);
  }
  TORCH_CHECK(
      count == 0,
      "XPU error: ",
      count,
      " asynchronous error(s) of work submitted earlier:",
      text);
}

} // namespace impl
} // namespace xpu
} // namespace c10
