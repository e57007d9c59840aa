#include <c10/xpu/impl/XPUNative.h>

#include <c10/util/ScopeExit.h>
#include <c10/xpu/XPUException.h>

#include <sycl/backend.hpp>
#include <sycl/handler.hpp>
#include <sycl/interop_handle.hpp>

#include <dlfcn.h>

#include <memory>
#include <variant>

namespace c10::xpu::impl {

using sycl::backend;

namespace {

// The results of the drivers' functions that are told apart.
constexpr int kSuccess = 0;
constexpr int kCudaNotReady = 600;
constexpr int kLevelZeroNotReady = 1;

/// A function of a driver that SYCL has loaded already; null if there is none.
template <typename Function>
Function* ofDriver(const char* library, const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name); // in a program that links the driver
  if (!found) {
    if (void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      found = dlsym(loaded, name);
    }
  }
  return reinterpret_cast<Function*>(found);
}

template <typename Function>
Function* ofCuda(const char* name) {
  return ofDriver<Function>("libcuda.so.1", name);
}

void checkCuda(int result, const char* call, uintptr_t stream) {
  TORCH_CHECK(
      result == kSuccess,
      c10::str(call, " returned ", result, " for the CUDA stream ", stream),
      ": is it a stream of this process?");
}

/// What the backend says; nothing if it cannot be asked.
optional<bool> isNativeIdle(const sycl::queue& queue) {
  int result = -1;
  int not_ready = kCudaNotReady;
  if (queue.get_backend() == backend::ext_oneapi_cuda) {
    static auto* const query = ofCuda<int(void*)>("cuStreamQuery");
    result = query ? query(nativeStream(queue)) : result;
  } else if (queue.get_backend() == backend::ext_oneapi_level_zero) {
    static auto* const wait = ofDriver<int(void*, uint64_t)>(
        "libze_loader.so.1", "zeCommandListHostSynchronize");
    not_ready = kLevelZeroNotReady;
    result = wait ? wait(nativeStream(queue), /*timeout=*/0) : result;
  }
  if (result == kSuccess || result == not_ready) {
    return result == kSuccess;
  }
  return nullopt;
}

} // namespace

void* nativeStream(const sycl::queue& queue) {
  switch (queue.get_backend()) {
    case backend::ext_oneapi_cuda:
      return C10_XPU_CHECK(sycl::get_native<backend::ext_oneapi_cuda>(queue));
    case backend::opencl:
      return C10_XPU_CHECK(sycl::get_native<backend::opencl>(queue));
    case backend::ext_oneapi_level_zero: {
      const auto native = C10_XPU_CHECK(
          sycl::get_native<backend::ext_oneapi_level_zero>(queue));
      const auto* list = std::get_if<ze_command_list_handle_t>(&native);
      TORCH_CHECK(
          list,
          "The native stream of an XPU stream is an immediate command list, but "
          "SYCL uses a command queue, of which the order is not kept. Set "
          "UR_L0_USE_IMMEDIATE_COMMANDLISTS=1 before the process starts");
      return *list;
    }
    default:
      TORCH_CHECK(
          false,
          "This SYCL backend has no native stream that can be handed out: CUDA, "
          "Level Zero and OpenCL have");
  }
}

optional<bool> isIdle(const sycl::queue& queue, bool native) {
  if (queue.get_backend() == backend::opencl) {
    return nullopt;
  }
  if (!C10_XPU_CHECK(queue.ext_oneapi_empty())) {
    return false;
  }
  return native ? isNativeIdle(queue) : true;
}

optional<double> nativeElapsedTime(
    const sycl::event& from,
    const sycl::event& to) {
  if (from.get_backend() != backend::ext_oneapi_cuda) {
    return nullopt;
  }
  const auto native = [](const sycl::event& event) -> void* {
    return C10_XPU_CHECK(sycl::get_native<backend::ext_oneapi_cuda>(event));
  };
  static auto* const elapsed =
      ofCuda<int(float*, void*, void*)>("cuEventElapsedTime");
  float milliseconds = 0;
  if (!elapsed ||
      elapsed(&milliseconds, native(from), native(to)) != kSuccess) {
    return nullopt;
  }
  return milliseconds;
}

optional<int> cudaDevice(const sycl::device& device) {
  if (device.get_backend() != backend::ext_oneapi_cuda) {
    return nullopt;
  }
  return C10_XPU_CHECK(sycl::get_native<backend::ext_oneapi_cuda>(device));
}

void* cudaFunction(const char* name) {
  return reinterpret_cast<void*>(ofCuda<void()>(name));
}

void* openClFunction(const char* name) {
  return reinterpret_cast<void*>(ofDriver<void()>("libOpenCL.so.1", name));
}

void* cudaContext(const sycl::device& device) {
  void* context = nullptr;
  callCuda("cuDevicePrimaryCtxRetain", &context, *cudaDevice(device));
  return context;
}

void enterCudaContext(void* context) {
  static auto* const get = ofCuda<int(void**)>("cuCtxGetCurrent");
  void* current = nullptr;
  if (!get || get(&current) != kSuccess || current != context) {
    callCuda("cuCtxSetCurrent", context);
  }
}

sycl::event recordOnCuda(
    sycl::queue& queue,
    const std::function<void(void*)>& launch) {
  constexpr unsigned kNonBlocking = 1;
  constexpr int kThreadLocal = 1; // CU_STREAM_CAPTURE_MODE
  void* const context = cudaContext(queue.get_device());
  enterCudaContext(context);
  void* stream = nullptr;
  callCuda("cuStreamCreate", &stream, kNonBlocking);
  const auto destroy = c10::make_scope_exit(
      [stream] { ofCuda<int(void*)>("cuStreamDestroy_v2")(stream); });
  callCuda("cuStreamBeginCapture_v2", stream, kThreadLocal);
  const auto end = [stream](int& result) {
    CUgraph graph = nullptr;
    result = ofCuda<int(void*, CUgraph*)>("cuStreamEndCapture")(stream, &graph);
    return std::shared_ptr<CUgraph_st>(
        graph, ofCuda<int(CUgraph)>("cuGraphDestroy"));
  };
  int result = kSuccess;
  try {
    launch(stream);
  } catch (...) {
    end(result); // it may be invalid by now
    throw;
  }
  const auto captured = end(result);
  TORCH_CHECK(
      result == kSuccess, "What was launched cannot be captured: ", result);
  return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
    handler.ext_codeplay_enqueue_native_command(
        [captured, context](const sycl::interop_handle& handle) {
          enterCudaContext(context);
          void* node = nullptr;
          const void* const none = nullptr; // no dependencies
          callCuda(
              "cuGraphAddChildGraphNode",
              &node,
              handle.ext_codeplay_get_native_graph<backend::ext_oneapi_cuda>(),
              none,
              size_t(0),
              captured.get());
        });
  }));
}

void letCudaStreamWait(uintptr_t stream, const sycl::event& event) {
  static auto* const wait =
      ofCuda<int(uintptr_t, void*, unsigned)>("cuStreamWaitEvent");
  TORCH_CHECK(
      wait && event.get_backend() == backend::ext_oneapi_cuda,
      "A CUDA stream can wait for work of an NVIDIA device only");
  void* const native =
      C10_XPU_CHECK(sycl::get_native<backend::ext_oneapi_cuda>(event));
  checkCuda(wait(stream, native, /*flags=*/0), "cuStreamWaitEvent", stream);
}

void synchronizeCudaStream(uintptr_t stream) {
  static auto* const synchronize =
      ofCuda<int(uintptr_t)>("cuStreamSynchronize");
  TORCH_CHECK(
      synchronize,
      c10::str("There is no CUDA stream ", stream, " to wait for: "),
      "CUDA's driver is not loaded, since no XPU device is NVIDIA's");
  checkCuda(synchronize(stream), "cuStreamSynchronize", stream);
}

} // namespace c10::xpu::impl
