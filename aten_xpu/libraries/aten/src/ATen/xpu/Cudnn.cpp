#include <ATen/xpu/detail/Cudnn.h>

#include <ATen/xpu/detail/CudaLaunch.h>
#include <ATen/xpu/detail/KernelImage.h>
#include <c10/util/StringUtil.h>
#include <c10/xpu/XPUFunctions.h>
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

void* openCudnn() {
  // cuDNN compiles some kernels at run time by NVRTC, and does not find that
  // where pip's packages for CUDA 13 have it. Without it, it uses others.
  openOfCuda({"libnvrtc.so.13", "libnvrtc.so.12"});
  return openOfCuda({"libcudnn.so.9", "libcudnn.so.8"});
}

/// Those of a device; see VendorHandles.
struct CudnnHandles {
  std::mutex mutex;
  std::condition_variable returned;
  // With the CUstream that each has; the last one was used last.
  std::vector<std::pair<void*, void*>> unused;
  bool are_of_recent_card = false; // set once
};

CudnnHandles& cudnnHandles(DeviceIndex device) {
  static auto& all = *new std::array<CudnnHandles, kMostDevices>();
  return all.at(device);
}

/// Adds a handle; gives the status.
int addCudnnHandle(DeviceIndex device, void** made) {
  enterCuda(device);
  const int status = cudnn().create(made);
  if (status == 0) {
    cudnnHandles(device).unused.emplace_back(*made, nullptr);
  }
  return status;
}

} // namespace

Cudnn::Cudnn()
    : VendorLibrary(
          openCudnn(),
          "cudnn",
          missingOfCuda("libcudnn.so", "nvidia-cudnn-cu13")) {
  if (version) {
    const auto number = version();
    const size_t major = number < kCudnn9 ? 1000 : 10000;
    setVersion(
        c10::str(number / major, ".", number % major / 100, ".", number % 100),
        number >= kOldestCudnn);
  }
}

const Cudnn& cudnn() {
  static const auto& opened = *new Cudnn();
  return opened;
}

bool hasCudnn(DeviceIndex device) {
  static auto& first = *new VendorHandles{
      "Convolutions",
      &takesPtx,
      [](DeviceIndex index, void** made) -> std::string {
        cudnnHandles(index).are_of_recent_card =
            imageForm(c10::xpu::get_raw_device(index)) == ImageForm::Ptx;
        const auto& library = cudnn();
        const int status =
            library.problem.empty() ? addCudnnHandle(index, made) : 0;
        return status == 0
            ? library.problem
            : c10::str("cudnnCreate returned ", library.words_of(status));
      }};
  return first.of(device) != nullptr;
}

bool isRecentCard(DeviceIndex device) {
  return cudnnHandles(device).are_of_recent_card;
}

CudnnHandle::CudnnHandle(DeviceIndex device, bool may_make) : device_(device) {
  auto& handles = cudnnHandles(device);
  std::unique_lock<std::mutex> lock(handles.mutex);
  if (handles.unused.empty() && may_make) {
    addCudnnHandle(device, &handle_); // or wait, if it cannot be
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
