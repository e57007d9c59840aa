#include <ATen/xpu/detail/HostKernelAllocator.h>

#include <ATen/xpu/detail/CPUAllocatorBase.h>
#include <c10/core/CPUAllocator.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>

#include <atomic>
#include <utility>

namespace at::xpu::detail {

namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

std::atomic<int (*)()> python_depth{nullptr};
std::atomic<bool> gave_device_memory{false};
std::atomic<bool> process_ends{false};

constexpr int kOutside = -1; // of every scope
thread_local int depth_of_scope = kOutside;

int depthOfThread() {
  const auto depth = python_depth.load(std::memory_order_relaxed);
  return depth ? depth() : 0;
}

/// Replaces PyTorch's CPU allocator when the library is loaded.
struct HostKernelAllocator final : CPUAllocatorBase {
  DataPtr allocateBytes(size_t nbytes) const final {
    if (C10_LIKELY(depth_of_scope == kOutside) ||
        depth_of_scope != depthOfThread()) {
      return former->allocate(nbytes);
    }
    gave_device_memory.store(true, std::memory_order_relaxed);
    return allocateForHost(nbytes);
  }
  // For raw_deallocate, which does not say which of the two gave the memory.
  c10::DeleterFnPtr raw_deleter() const final {
    return &deleteEither;
  }
  static void deleteEither(void* data);

  c10::Allocator* const former = c10::GetCPUAllocator();
};

// Never destroyed: other threads allocate until the process has ended.
auto* const host_kernel_allocator = [] {
  auto* const replacement = new HostKernelAllocator();
  c10::SetCPUAllocator(replacement, /*priority=*/0);
  return replacement;
}();

struct ProcessEnd {
  ~ProcessEnd() {
    process_ends = true;
  }
};
const ProcessEnd process_end;

void HostKernelAllocator::deleteEither(void* data) {
  auto kind = sycl::usm::alloc::unknown;
  if (gave_device_memory.load(std::memory_order_relaxed)) {
    // Where SYCL cannot be asked the memory stays, since either deleter may be
    // the wrong one.
    if (process_ends || c10::xpu::is_in_bad_fork()) {
      return;
    }
    try {
      kind = sycl::get_pointer_type(data, c10::xpu::get_device_context());
    } catch (const std::exception&) {
      return;
    }
  }
  (kind == sycl::usm::alloc::device
       ? allocator::get()->raw_deleter()
       : host_kernel_allocator->former->raw_deleter())(data);
}

} // namespace

DeviceMemoryScope::DeviceMemoryScope(bool wanted)
    : outer_depth_(
          std::exchange(depth_of_scope, wanted ? depthOfThread() : kOutside)) {}

DeviceMemoryScope::~DeviceMemoryScope() {
  depth_of_scope = outer_depth_;
}

DataPtr allocateForHost(size_t nbytes) {
  void* const data = allocator::raw_alloc(nbytes);
  // Work that uses the block's former contents may be on the stream by now.
  c10::xpu::impl::waitFor(c10::xpu::getCurrentXPUStream());
  return {data, data, allocator::get()->raw_deleter(), Device(kCPU)};
}

bool isDeviceMemory(const DataPtr& data) {
  return data.get_deleter() == allocator::get()->raw_deleter();
}

void setPythonDepth(int (*depth)()) {
  python_depth = depth;
}

} // namespace at::xpu::detail
