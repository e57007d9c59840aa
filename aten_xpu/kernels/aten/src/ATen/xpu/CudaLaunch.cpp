#include <ATen/xpu/detail/CudaLaunch.h>

#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/env.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <array>
#include <atomic>
#include <optional>

namespace at::xpu::detail {

namespace {

/// The CUstream of a stream.
void* cudaStream(c10::xpu::XPUStream stream) {
  struct Known {
    std::optional<c10::xpu::XPUStream> stream;
    void* native = nullptr;
  };
  thread_local Known known;
  if (!known.stream || *known.stream != stream) {
    known.native = stream.native_stream();
    // Another queue may have the id of an external stream tomorrow.
    known.stream = c10::xpu::impl::isExternalStream(stream.id())
        ? std::nullopt
        : std::make_optional(stream);
  }
  return known.native;
}

} // namespace

void enterCuda(DeviceIndex device) {
  constexpr size_t kMost = 128; // numbers of devices
  static std::array<std::atomic<void*>, kMost> contexts{};
  auto& known = contexts.at(device);
  void* context = known.load(std::memory_order_acquire);
  if (!context) {
    context = c10::xpu::impl::cudaContext(c10::xpu::get_raw_device(device));
    known.store(context, std::memory_order_release);
  }
  c10::xpu::impl::enterCudaContext(context);
}

void launchOnCuda(
    c10::xpu::XPUStream stream,
    const std::string& op,
    c10::function_ref<void(void*)> launch) {
  if (C10_UNLIKELY(c10::xpu::impl::isRecording(stream))) {
    detail::launch(stream, op.c_str(), /*nbytes=*/0, [&](sycl::queue& queue) {
      return c10::xpu::impl::recordOnCuda(queue, launch);
    });
    return;
  }
  {
    const RecordWork recorded(RecordWork::By::Stream, op, stream);
    void* const native = cudaStream(stream);
    enterCuda(stream.device_index());
    launch(native);
  }
  static const bool blocking =
      c10::utils::check_env("TORCH_XPU_LAUNCH_BLOCKING") == true;
  if (C10_UNLIKELY(blocking)) {
    c10::xpu::impl::waitFor(stream);
  }
}

} // namespace at::xpu::detail
