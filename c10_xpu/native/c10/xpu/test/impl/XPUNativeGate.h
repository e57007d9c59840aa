#pragma once

#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/test/impl/XPUTestUtil.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <sycl/backend_types.hpp>
#include <sycl/event.hpp>
#include <sycl/queue.hpp>

#include <dlfcn.h>

#include <atomic>
#include <future>
#include <vector>

// Work on native streams, which SYCL knows nothing of: by CUDA's driver on a
// card, by OpenCL on the CPU device. To be included by the one source of a test
// program.
//
// OpenCL answers for such work where SYCL on an NVIDIA device does not. So on
// the CPU device the tests run once more with AsOnNvidia: SYCL says that it is
// on CUDA, that a queue is empty, and waits for nothing, and the functions of
// CUDA's driver that the runtime calls are defined here, by OpenCL.

namespace c10::xpu::test {

/// A function of a library that the process has loaded.
template <typename Function>
Function* loaded(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* const found = handle ? dlsym(handle, name) : nullptr;
  TORCH_CHECK(found, library, " has no ", name, ", or is not loaded");
  return reinterpret_cast<Function*>(found);
}

#define C10_XPU_OPENCL(name) \
  (c10::xpu::test::loaded<decltype(::name)>("libOpenCL.so.1", #name))

inline void checkNative(bool ok, const char* call) {
  TORCH_CHECK(ok, call, " failed");
}

/// What an object of OpenCL says of itself.
template <typename Info, typename Get, typename Object>
Info infoOf(Get* get, Object* object, cl_uint name) {
  Info info{};
  void* const where = static_cast<void*>(&info);
  checkNative(get(object, name, sizeof(Info), where, nullptr) == 0, "a query");
  return info;
}

/// Whether the device is of CUDA, whatever SYCL says of its queues.
inline bool isCuda(DeviceIndex device = 0) {
  return get_raw_device(device).get_backend() == sycl::backend::ext_oneapi_cuda;
}

/// Whether native work can be submitted to the device here.
inline bool hasNativeWork(DeviceIndex device = 0) {
  const auto backend = get_raw_device(device).get_backend();
  return isCuda(device) || backend == sycl::backend::opencl;
}

#define C10_XPU_NEEDS_NATIVE_WORK()                     \
  C10_XPU_NEEDS_DEVICES(1);                             \
  if (!c10::xpu::test::hasNativeWork()) {               \
    GTEST_SKIP() << "needs the backend CUDA or OpenCL"; \
  }

/// While it lives, SYCL is on the CPU device as on an NVIDIA device.
class AsOnNvidia {
 public:
  AsOnNvidia() {
    on = true;
  }
  ~AsOnNvidia() {
    on = false;
  }
  AsOnNvidia(const AsOnNvidia&) = delete;
  AsOnNvidia& operator=(const AsOnNvidia&) = delete;
  AsOnNvidia(AsOnNvidia&&) = delete;
  AsOnNvidia& operator=(AsOnNvidia&&) = delete;

  static inline std::atomic<bool> on{false};
};

/// Runs `body`, and on the CPU device once more as on an NVIDIA device.
template <typename Body>
void onEachKind(Body&& body) {
  body();
  if (!isCuda()) {
    SCOPED_TRACE("as on an NVIDIA device");
    const AsOnNvidia as_on_nvidia;
    body();
  }
}

/// Holds a native stream up until it is opened, at the latest when it dies.
class NativeGate {
 public:
  explicit NativeGate(void* stream) {
    if (isCuda()) {
      using Launch = int(void*, void (*)(void*), void*);
      static auto* const launch =
          loaded<Launch>("libcuda.so.1", "cuLaunchHostFunc");
      const auto wait = [](void* opened) {
        auto* const future = static_cast<std::shared_future<void>*>(opened);
        future->wait();
        delete future;
      };
      auto* const opened =
          new std::shared_future<void>(opening_.get_future().share());
      checkNative(launch(stream, wait, opened) == 0, "cuLaunchHostFunc");
      return;
    }
    auto* const queue = static_cast<cl_command_queue>(stream);
    auto* const context = infoOf<cl_context>(
        C10_XPU_OPENCL(clGetCommandQueueInfo), queue, CL_QUEUE_CONTEXT);
    user_event_ = C10_XPU_OPENCL(clCreateUserEvent)(context, nullptr);
    checkNative(
        C10_XPU_OPENCL(clEnqueueMarkerWithWaitList)(
            queue, 1, &user_event_, nullptr) == 0 &&
            C10_XPU_OPENCL(clFlush)(queue) == 0,
        "clEnqueueMarkerWithWaitList");
  }
  ~NativeGate() {
    open();
  }
  NativeGate(const NativeGate&) = delete;
  NativeGate& operator=(const NativeGate&) = delete;
  NativeGate(NativeGate&&) = delete;
  NativeGate& operator=(NativeGate&&) = delete;

  void open() {
    if (is_open_.exchange(true)) {
      return;
    }
    opening_.set_value();
    if (user_event_) {
      C10_XPU_OPENCL(clSetUserEventStatus)(user_event_, CL_COMPLETE);
      C10_XPU_OPENCL(clReleaseEvent)(user_event_);
    }
  }

 private:
  std::promise<void> opening_;
  cl_event user_event_ = nullptr;
  std::atomic<bool> is_open_{false};
};

/// Sets all bytes of device memory, as work of a native stream.
inline void fillNatively(
    void* stream,
    void* memory,
    unsigned char value,
    size_t bytes) {
  if (isCuda()) {
    using Fill = int(void*, unsigned char, size_t, void*);
    static auto* const fill = loaded<Fill>("libcuda.so.1", "cuMemsetD8Async");
    checkNative(fill(memory, value, bytes, stream) == 0, "cuMemsetD8Async");
    return;
  }
  auto* const queue = static_cast<cl_command_queue>(stream);
  auto* const device = infoOf<cl_device_id>(
      C10_XPU_OPENCL(clGetCommandQueueInfo), queue, CL_QUEUE_DEVICE);
  auto* const platform = infoOf<cl_platform_id>(
      C10_XPU_OPENCL(clGetDeviceInfo), device, CL_DEVICE_PLATFORM);
  const auto fill = reinterpret_cast<clEnqueueMemFillINTEL_fn>(
      C10_XPU_OPENCL(clGetExtensionFunctionAddressForPlatform)(
          platform, "clEnqueueMemFillINTEL"));
  checkNative(
      fill && fill(queue, memory, &value, 1, bytes, 0, nullptr, nullptr) == 0 &&
          C10_XPU_OPENCL(clFlush)(queue) == 0,
      "clEnqueueMemFillINTEL");
}

/// What device memory holds when all work of a queue so far is done. A copy to
/// the host must not be submitted before a gate is open, since CUDA may wait.
inline std::vector<int> valuesOf(sycl::queue& queue, const Ints& memory) {
  std::vector<int> values(memory.bytes() / sizeof(int));
  auto barrier = queue.ext_oneapi_submit_barrier();
  barrier.wait();
  queue.memcpy(values.data(), memory.get(), memory.bytes());
  queue.ext_oneapi_submit_barrier().wait();
  return values;
}

inline std::vector<int> intsOfBytes(size_t count, int byte) {
  return std::vector<int>(count, byte * 0x01010101);
}

} // namespace c10::xpu::test

// ---[ What the runtime calls, with AsOnNvidia

#define C10_XPU_NEXT(symbol, type, ...)                     \
  static auto* const next =                                 \
      c10::xpu::test::loaded<type>("libsycl.so.9", symbol); \
  return next(__VA_ARGS__)

namespace sycl {
inline namespace _V1 {

backend queue::get_backend() const noexcept {
  if (c10::xpu::test::AsOnNvidia::on) {
    return backend::ext_oneapi_cuda;
  }
  C10_XPU_NEXT(
      "_ZNK4sycl3_V15queue11get_backendEv", backend(const queue*), this);
}

bool queue::ext_oneapi_empty() const {
  if (c10::xpu::test::AsOnNvidia::on) {
    return true;
  }
  C10_XPU_NEXT(
      "_ZNK4sycl3_V15queue16ext_oneapi_emptyEv", bool(const queue*), this);
}

void queue::wait_proxy(const detail::code_location& where) {
  if (c10::xpu::test::AsOnNvidia::on) {
    return;
  }
  C10_XPU_NEXT(
      "_ZN4sycl3_V15queue10wait_proxyERKNS0_6detail13code_locationE",
      void(queue*, const detail::code_location&),
      this,
      where);
}

backend event::get_backend() const noexcept {
  if (c10::xpu::test::AsOnNvidia::on) {
    return backend::ext_oneapi_cuda;
  }
  C10_XPU_NEXT(
      "_ZNK4sycl3_V15event11get_backendEv", backend(const event*), this);
}

} // namespace _V1
} // namespace sycl

#undef C10_XPU_NEXT

// On a card these hide the driver's from the adapter, too, and call them.

extern "C" __attribute__((visibility("default"))) int cuStreamQuery(
    void* stream) {
  using namespace c10::xpu::test;
  if (!AsOnNvidia::on) {
    static auto* const query =
        loaded<int(void*)>("libcuda.so.1", "cuStreamQuery");
    return query(stream);
  }
  cl_event marker = nullptr;
  cl_int status = CL_QUEUED;
  checkNative(
      C10_XPU_OPENCL(clEnqueueMarkerWithWaitList)(
          static_cast<cl_command_queue>(stream), 0, nullptr, &marker) == 0 &&
          C10_XPU_OPENCL(clGetEventInfo)(
              marker,
              CL_EVENT_COMMAND_EXECUTION_STATUS,
              sizeof(status),
              &status,
              nullptr) == 0,
      "clGetEventInfo");
  C10_XPU_OPENCL(clReleaseEvent)(marker);
  return status == CL_COMPLETE ? 0 : 600; // CUDA_ERROR_NOT_READY
}

namespace c10::xpu::test {

/// What CUDA's driver says is the time between two events, with AsOnNvidia.
inline std::atomic<float> cuda_elapsed{0};

} // namespace c10::xpu::test

extern "C" __attribute__((visibility("default"))) int cuEventElapsedTime(
    float* milliseconds,
    void* from,
    void* to) {
  using namespace c10::xpu::test;
  if (!AsOnNvidia::on) {
    static auto* const elapsed =
        loaded<int(float*, void*, void*)>("libcuda.so.1", "cuEventElapsedTime");
    return elapsed(milliseconds, from, to);
  }
  *milliseconds = cuda_elapsed;
  return 0;
}
