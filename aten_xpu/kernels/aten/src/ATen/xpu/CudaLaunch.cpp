#include <ATen/xpu/detail/CudaLaunch.h>

#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/env.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <sycl/interop_handle.hpp>

#include <array>
#include <atomic>
#include <optional>

namespace at::xpu::detail {

namespace {

/// Makes a context the thread's, as SYCL does in each of its calls.
void enterContext(void* context) {
  static auto* const get = reinterpret_cast<int (*)(void**)>(
      c10::xpu::impl::cudaFunction("cuCtxGetCurrent"));
  void* current = nullptr;
  if (!get || get(&current) != 0 || current != context) {
    callCuda("cuCtxSetCurrent", context);
  }
}

/// The CUcontext of SYCL's adapter, retained for as long as the process lives.
void* contextOf(DeviceIndex device) {
  constexpr size_t kMost = 128; // numbers of devices
  static std::array<std::atomic<void*>, kMost> contexts{};
  auto& known = contexts.at(device);
  void* context = known.load(std::memory_order_acquire);
  if (!context) {
    callCuda(
        "cuDevicePrimaryCtxRetain",
        &context,
        *c10::xpu::impl::cudaDevice(c10::xpu::get_raw_device(device)));
    known.store(context, std::memory_order_release);
  }
  return context;
}

/// Adds to a graph what is launched on a stream of CUDA. Dependencies between
/// its nodes are those of the stream.
void captureInto(CUgraph graph, const std::function<void(void*)>& launch) {
  constexpr unsigned kNonBlocking = 1;
  constexpr int kThreadLocal = 1; // CU_STREAM_CAPTURE_MODE
  void* stream = nullptr;
  callCuda("cuStreamCreate", &stream, kNonBlocking);
  const auto destroy = c10::make_scope_exit([stream] {
    reinterpret_cast<int (*)(void*)>(
        c10::xpu::impl::cudaFunction("cuStreamDestroy_v2"))(stream);
  });
  const void* const none = nullptr; // no dependencies
  callCuda(
      "cuStreamBeginCaptureToGraph",
      stream,
      graph,
      none,
      none,
      size_t(0),
      kThreadLocal);
  launch(stream);
  CUgraph captured = nullptr;
  callCuda("cuStreamEndCapture", stream, &captured);
}

} // namespace

void enterCuda(DeviceIndex device) {
  enterContext(contextOf(device));
}

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

void recordOnCuda(
    sycl::handler& handler,
    DeviceIndex device,
    const std::function<void(CUgraph)>& add) {
  handler.ext_codeplay_enqueue_native_command([=](const sycl::interop_handle&
                                                      handle) {
    enterCuda(device);
    add(handle.ext_codeplay_get_native_graph<sycl::backend::ext_oneapi_cuda>());
  });
}

void launchOnCuda(
    c10::xpu::XPUStream stream,
    const std::string& op,
    const std::function<void(void*)>& launch) {
  const auto device = stream.device_index();
  if (c10::xpu::impl::isRecording(stream)) {
    detail::launch(stream, op.c_str(), /*nbytes=*/0, [&](sycl::queue& queue) {
      return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
        recordOnCuda(handler, device, [launch](CUgraph graph) {
          captureInto(graph, launch);
        });
      }));
    });
    return;
  }
  {
    const RecordWork recorded(RecordWork::By::Stream, op, stream);
    void* const native = cudaStream(stream);
    enterCuda(device);
    launch(native);
  }
  waitIfBlocking(stream);
}

void waitIfBlocking(c10::xpu::XPUStream stream) {
  static const bool blocking =
      c10::utils::check_env("TORCH_XPU_LAUNCH_BLOCKING") == true;
  if (C10_UNLIKELY(blocking)) {
    c10::xpu::impl::waitFor(stream);
  }
}

} // namespace at::xpu::detail
