#include <ATen/xpu/detail/KernelErrors.h>

#include <ATen/xpu/PinnedMemoryAllocator.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

constexpr size_t kErrorWords = 8; // that a device has; of 8 bytes
constexpr uint64_t kErrorWritten =
    2; // in the first one, as in kernels/Common.sycl
constexpr uint32_t kDimsOfCode = 256;

std::atomic<uint64_t*> errors_memory{nullptr};

std::mutex errors_mutex; // over the list
auto& knownErrors() {
  static auto& all = *new std::vector<IndexError>; // never destroyed
  return all;
}

std::string textOf(
    const IndexError& error,
    int64_t index,
    int64_t size,
    int64_t dim) {
  const auto of = c10::str("index ", index, " is out of bounds for dimension ");
  switch (error.words) {
    case IndexWords::Dimension:
      return c10::str(of, dim, " with size ", size);
    case IndexWords::Self:
      return c10::str(
          "index out of range in self: ", of, dim, " with size ", size);
    case IndexWords::Ones:
      return "Number of elements of source < number of ones in mask";
    case IndexWords::Division:
      return "ZeroDivisionError";
    case IndexWords::Target:
      return c10::str("Target ", index, " is out of bounds.");
    case IndexWords::Elements:
      return c10::str(
          "out of range: tried to access index ",
          index,
          " on a tensor of ",
          size,
          " elements.");
    case IndexWords::Given:
      return error.message;
  }
  TORCH_INTERNAL_ASSERT(false);
}

void raiseOn(DeviceIndex device) {
  uint64_t* const written =
      errors_memory.load(std::memory_order_acquire) + device * kErrorWords;
  auto& state = *reinterpret_cast<std::atomic<uint64_t>*>(written);
  if (C10_LIKELY(state.load(std::memory_order_acquire) != kErrorWritten)) {
    return;
  }
  std::unique_lock<std::mutex> lock(errors_mutex);
  if (state.load(std::memory_order_acquire) != kErrorWritten) {
    return; // another thread raises it
  }
  const auto index = int64_t(written[1]);
  const auto size = int64_t(written[2]);
  const auto code = uint32_t(written[3]);
  const auto error = knownErrors().at(code / kDimsOfCode);
  state.store(0, std::memory_order_release);
  lock.unlock();
  const auto text = c10::str(
      textOf(error, index, size, code % kDimsOfCode),
      " (",
      error.op,
      " on xpu:",
      int(device),
      ", which was called before)");
  TORCH_CHECK_INDEX(!error.is_index_error, text);
  TORCH_CHECK(false, text);
}

} // namespace

uint32_t errorCode(IndexError error) {
  std::lock_guard<std::mutex> lock(errors_mutex);
  knownErrors().push_back(std::move(error));
  return uint32_t(knownErrors().size() - 1) * kDimsOfCode;
}

uint64_t* kernelErrors(DeviceIndex device) {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto bytes =
        c10::xpu::device_count() * kErrorWords * sizeof(uint64_t);
    const static auto& data = *new DataPtr( // never destroyed
        getPinnedMemoryAllocator()->allocate(bytes));
    auto* const words = static_cast<uint64_t*>(data.get());
    std::fill_n(words, bytes / sizeof(uint64_t), 0);
    errors_memory.store(words, std::memory_order_release);
    c10::xpu::impl::raise_kernel_errors.store(
        &raiseOn, std::memory_order_release);
  });
  return errors_memory.load(std::memory_order_acquire) + device * kErrorWords;
}

} // namespace at::xpu::detail
