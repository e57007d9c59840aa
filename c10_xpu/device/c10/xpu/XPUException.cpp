#include <c10/xpu/XPUException.h>

namespace c10 {
namespace xpu {
namespace impl {

std::atomic<FaultHook> fault_hook{nullptr};

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
} // namespace xpu
} // namespace c10
