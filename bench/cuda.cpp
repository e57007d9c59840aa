// torch.cuda's side of the figures: PyTorch's own c10/cuda, called from C++.
// Compiled by ci/gpu/run against the torch that the machine has, in a process
// of its own, since a process has one of the two.

#include "Figures.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime_api.h>

// Exported by c10_cuda for libtorch_cuda, without a header.
namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*has)(DeviceIndex));
} // namespace c10::cuda::_internal

namespace {

using namespace bench;
namespace Cache = c10::cuda::CUDACachingAllocator;

struct Cuda {
  using Stream = c10::cuda::CUDAStream;
  using Event = c10::cuda::CUDAEvent;
  using DeviceGuard = c10::cuda::CUDAGuard;
  using StreamGuard = c10::cuda::CUDAStreamGuard;
  static constexpr c10::DeviceType kDevice = c10::DeviceType::CUDA;

  static int currentDevice() {
    return c10::cuda::current_device();
  }
  static Stream currentStream() {
    return c10::cuda::getCurrentCUDAStream();
  }
  static Stream poolStream() {
    return c10::cuda::getStreamFromPool();
  }
  static Event event(bool timing) {
    return Event(timing ? cudaEventDefault : cudaEventDisableTiming);
  }
  static void syncDevice() {
    c10::cuda::device_synchronize();
  }
  static void* allocate(size_t bytes) {
    return Cache::raw_alloc(bytes);
  }
  static void* allocateOn(size_t bytes, Stream stream) {
    return Cache::raw_alloc_with_stream(bytes, stream);
  }
  static void free(void* block) {
    Cache::raw_delete(block);
  }
  static void* allocateHost(size_t bytes) {
    void* block = nullptr;
    C10_CUDA_CHECK(cudaMallocHost(&block, bytes));
    return block;
  }
  static void freeHost(void* block) {
    C10_CUDA_CHECK(cudaFreeHost(block));
  }
  static c10::Allocator* allocator() {
    return Cache::get();
  }
  static void recordStream(const c10::DataPtr& block, Stream stream) {
    Cache::recordStream(block, stream);
  }
  static void emptyCache() {
    Cache::emptyCache();
  }
  static auto reserved() {
    return Cache::getDeviceStats(0).reserved_bytes[0];
  }
  static void resetPeak() {
    Cache::resetPeakStats(0);
  }
  static int64_t segmentsMade() {
    return Cache::getDeviceStats(0).segment[0].allocated;
  }
  static void copy(void* to, const void* from, size_t bytes, Stream stream) {
    C10_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.stream()));
    C10_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));
  }
  static inline CopyEnds copyEnds;
  static std::optional<Side> raw(const std::string&) {
    return {};
  }
};

} // namespace

int main(int argc, char** argv) {
  const Options options = parseOptions(argc, argv);
  // libtorch_cuda, which would set it, is not loaded.
  c10::cuda::_internal::setHasPrimaryContext(
      [](c10::DeviceIndex) { return true; });
  Cache::init(c10::cuda::device_count_ensure_non_zero());
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  header("PyTorch " BENCH_TORCH, properties.name, "cuda");
  Figures<Cuda>(options).run();
  return 0;
}
