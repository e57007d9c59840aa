#include <ATen/xpu/detail/Cudnn.h>

#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/Kernel.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <condition_variable>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace at::xpu::detail {

namespace {

constexpr size_t kOldestCudnn = 8900; // 8.9.0
constexpr size_t kCudnn9 = 90000; // from which on numbers have more digits

Cudnn loadCudnn() {
  Cudnn library{};
  // cuDNN compiles some kernels at run time by NVRTC, and does not find that
  // where pip's packages for CUDA 13 have it. Without it, it uses others.
  openOfCuda({"libnvrtc.so.13", "libnvrtc.so.12"});
  library.take(
      openOfCuda({"libcudnn.so.9", "libcudnn.so.8"}),
      missingOfCuda("libcudnn.so", "nvidia-cudnn-cu13"));
  library.look("cudnnGetVersion", library.version);
  if (library.problem.empty()) {
    const auto version = library.version();
    const size_t major = version < kCudnn9 ? 1000 : 10000;
    library.setVersion(
        c10::str(
            version / major, ".", version % major / 100, ".", version % 100),
        version >= kOldestCudnn);
  }
  const auto look = [&](const std::string& name, auto& function) {
    library.look("cudnn" + name, function);
  };
  look("GetErrorString", library.words_of);
  look("Create", library.create);
  look("SetStream", library.set_stream);
  look("BackendCreateDescriptor", library.create_object);
  look("BackendDestroyDescriptor", library.destroy_object);
  look("BackendSetAttribute", library.set_object);
  look("BackendGetAttribute", library.get_object);
  look("BackendFinalize", library.finalize_object);
  look("BackendExecute", library.execute);
  return library;
}

/// Those of a device. They are never destroyed: when a program ends, CUDA may
/// have ended before.
struct CudnnHandles {
  std::once_flag once;
  std::mutex mutex;
  std::condition_variable returned;
  // With the CUstream that each has; the last one was used last.
  std::vector<std::pair<void*, void*>> unused;
  bool are_there = false; // set once
};

CudnnHandles& cudnnHandles(DeviceIndex device) {
  static auto& all = *new std::array<CudnnHandles, kMostDevices>();
  return all.at(device);
}

/// Adds a handle; gives the status.
int addCudnnHandle(CudnnHandles& handles, DeviceIndex device) {
  enterCuda(device);
  void* handle = nullptr;
  const int status = cudnn().create(&handle);
  if (status == 0) {
    handles.unused.emplace_back(handle, nullptr);
  }
  return status;
}

} // namespace

const Cudnn& cudnn() {
  static const auto& opened = *new Cudnn(loadCudnn());
  return opened;
}

bool hasCudnn(DeviceIndex device) {
  auto& handles = cudnnHandles(device);
  std::call_once(handles.once, [&] {
    const auto make = [&]() -> std::string {
      const auto& library = cudnn();
      if (!library.problem.empty()) {
        return library.problem;
      }
      const int status = addCudnnHandle(handles, device);
      return status == 0
          ? ""
          : c10::str("cudnnCreate returned ", library.words_of(status));
    };
    handles.are_there = makeFirstHandle(device, "Convolutions", make);
  });
  return handles.are_there;
}

CudnnHandle::CudnnHandle(DeviceIndex device, bool may_make) : device_(device) {
  auto& handles = cudnnHandles(device);
  std::unique_lock<std::mutex> lock(handles.mutex);
  if (handles.unused.empty() && may_make) {
    addCudnnHandle(handles, device); // or wait, if it cannot be
  }
  handles.returned.wait(lock, [&] { return !handles.unused.empty(); });
  std::tie(handle_, stream_) = handles.unused.back();
  handles.unused.pop_back();
}

CudnnHandle::~CudnnHandle() {
  auto& handles = cudnnHandles(device_);
  {
    const std::lock_guard<std::mutex> lock(handles.mutex);
    handles.unused.emplace_back(handle_, stream_);
  }
  handles.returned.notify_one();
}

int CudnnHandle::use(void* cuda_stream) {
  if (stream_ == cuda_stream) {
    return 0;
  }
  const int status = cudnn().set_stream(handle_, cuda_stream);
  stream_ = status == 0 ? cuda_stream : nullptr;
  return status;
}

// For torch/xpu/_libraries.py.
TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_cudnn() -> (str, str, str)", [] { return cudnn().words(); });
}

} // namespace at::xpu::detail
