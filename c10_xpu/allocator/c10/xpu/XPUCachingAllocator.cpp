#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <sycl/usm.hpp>

#include <cstdlib>
#include <utility>

namespace c10::xpu::XPUCachingAllocator {

namespace {

using impl::AllocatorConfig;
using impl::Block;
using impl::DeviceAllocator;

struct SyclBackend final : impl::MemoryBackend {
  void* allocate(DeviceIndex device, size_t size) override {
    void* ptr = nullptr;
    try {
      ptr = sycl::aligned_alloc_device(
          impl::kMinBlockSize,
          size,
          get_raw_device(device),
          get_device_context());
    } catch (const sycl::exception& error) {
      // Lack of memory is reported by a null pointer or by this code.
      if (error.code() != sycl::errc::memory_allocation) {
        C10_XPU_CHECK(throw);
      }
    }
    TORCH_CHECK(
        reinterpret_cast<uintptr_t>(ptr) % impl::kMinBlockSize == 0,
        "SYCL returned device memory at ",
        ptr,
        ", which is not aligned to ",
        impl::kMinBlockSize,
        " bytes as asked for");
    return ptr;
  }

  void deallocate(DeviceIndex /*device*/, void* ptr) override {
    C10_XPU_CHECK(sycl::free(ptr, get_device_context()));
  }

  impl::Fence fence(XPUStream stream, sycl::queue* external) override {
    sycl::queue* const queue = external != nullptr
        ? external
        : impl::findUsedQueue(stream.device_index(), stream.id());
    if (queue == nullptr) {
      return nullptr;
    }
    const bool can_ask = impl::canAskEmpty(*queue);
    if (can_ask && C10_XPU_CHECK(queue->ext_oneapi_empty())) {
      return nullptr;
    }
    auto event = C10_XPU_CHECK(queue->ext_oneapi_submit_barrier());
    if (!can_ask && impl::isComplete(event)) {
      return nullptr;
    }
    return [event, queue = *queue](bool wait) mutable {
      // An event that a host task held looks held even when that has ended, so
      // that another one, submitted now, is asked as well.
      if (wait &&
          (!impl::isHeldByHost(event) ||
           !impl::isHeldByHost(
               C10_XPU_CHECK(queue.ext_oneapi_submit_barrier())))) {
        C10_XPU_CHECK(event.wait());
        return true;
      }
      return impl::isComplete(event);
    };
  }

  std::shared_ptr<sycl::queue> externalQueue(XPUStream stream) override {
    return impl::isExternalStream(stream.id())
        ? std::make_shared<sycl::queue>(stream.queue())
        : nullptr;
  }

  size_t totalMemory(DeviceIndex device) override {
    return get_device_properties(device).global_mem_size;
  }

  optional<size_t> freeMemory(DeviceIndex device) override {
    return get_free_memory(device);
  }
};

// What `init` makes. It is never destroyed: memory may be freed while the
// process ends, when the SYCL runtime is gone already.
struct State {
  AllocatorConfig config;
  SyclBackend backend;
  impl::BlockTable table;
  std::array<impl::Card, C10_COMPILE_TIME_MAX_XPUS> cards;
  std::array<std::atomic<DeviceAllocator*>, C10_COMPILE_TIME_MAX_XPUS>
      devices{};
};

std::atomic<State*> state{nullptr};
std::mutex init_mutex;

DeviceAllocator* find(int device) {
  State* const s = state.load(std::memory_order_acquire);
  return s != nullptr && device >= 0 && device < C10_COMPILE_TIME_MAX_XPUS
      ? s->devices[device].load(std::memory_order_acquire)
      : nullptr;
}

DeviceAllocator& at(int device) {
  if (C10_UNLIKELY(is_in_bad_fork())) {
    check_device_index(0); // raises
  }
  DeviceAllocator* const allocator = find(device);
  TORCH_CHECK(
      allocator != nullptr,
      "The XPU caching allocator is not ready for device ",
      device,
      ". Call c10::xpu::XPUCachingAllocator::init(device_count) first, with a"
      " device_count greater than the device's index, which must not be"
      " negative.");
  return *allocator;
}

template <class Visitor>
void forEachDevice(Visitor visit) {
  if (is_in_bad_fork()) {
    return;
  }
  for (int i = 0; i < C10_COMPILE_TIME_MAX_XPUS; ++i) {
    if (DeviceAllocator* const allocator = find(i)) {
      visit(*allocator, static_cast<DeviceIndex>(i));
    }
  }
}

void reportToProfiler(DeviceIndex device, void* ptr, int64_t size) {
  if (!memoryProfilingEnabled()) {
    return;
  }
  const DeviceStats stats = at(device).stats();
  reportMemoryUsageToProfiler(
      ptr,
      size,
      stats.allocated_bytes[0].current,
      stats.reserved_bytes[0].current,
      Device(kXPU, device));
}

void* allocateOn(DeviceIndex device, StreamId stream, size_t size) {
  DeviceAllocator& allocator = at(device);
  Block* block = allocator.allocate(size, stream);
  if (C10_UNLIKELY(block == nullptr)) {
    // Other ordinals over the same card may have cached what is needed.
    bool emptied = false;
    forEachDevice([&](DeviceAllocator& other, DeviceIndex i) {
      if (i != device && get_root_device(i) == get_root_device(device)) {
        other.emptyCache();
        emptied = true;
      }
    });
    block = emptied ? allocator.allocate(size, stream) : nullptr;
  }
  if (C10_UNLIKELY(block == nullptr)) {
    allocator.throwOutOfMemory(size);
  }
  void* const ptr = block->ptr;
  if (const auto* trace = c10::impl::GPUTrace::get_trace();
      C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_allocation(reinterpret_cast<uintptr_t>(ptr));
  }
  if (C10_UNLIKELY(ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE))) {
    reportToProfiler(device, ptr, static_cast<int64_t>(block->size));
  }
  return ptr;
}

Block* findBlock(const void* ptr) {
  const State* const s = state.load(std::memory_order_acquire);
  Block* const block = s == nullptr ? nullptr : s->table.find(ptr);
  TORCH_CHECK(
      block != nullptr,
      "invalid XPU pointer: ",
      ptr,
      " was not allocated by the XPU caching allocator");
  return block;
}

void freeBlock(void* ptr) {
  if (C10_UNLIKELY(ptr == nullptr || is_in_bad_fork())) {
    return;
  }
  Block* const block = findBlock(ptr);
  if (const auto* trace = c10::impl::GPUTrace::get_trace();
      C10_UNLIKELY(trace != nullptr)) {
    // Before the memory can be someone else's.
    DeviceAllocator::checkedSize(block, ptr);
    (*trace)->trace_gpu_memory_deallocation(reinterpret_cast<uintptr_t>(ptr));
  }
  const auto size = static_cast<int64_t>(DeviceAllocator::free(block, ptr));
  if (C10_UNLIKELY(ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE))) {
    reportToProfiler(block->owner->device.index(), ptr, -size);
  }
}

DeviceIndex ownerOf(void* ptr) {
  DeviceIndex owner = -1;
  forEachDevice([&](DeviceAllocator& allocator, DeviceIndex i) {
    if (allocator.owns(ptr)) {
      owner = i;
    }
  });
  return owner;
}

struct NativeAllocator final : XPUAllocator {
  DataPtr allocate(size_t size) const override {
    const DeviceIndex device = current_device();
    void* const ptr = size == 0
        ? nullptr
        : allocateOn(device, getCurrentXPUStream(device).id(), size);
    return {ptr, ptr, &freeBlock, Device(kXPU, device)};
  }

  DeleterFnPtr raw_deleter() const override {
    return &freeBlock;
  }

  void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) override {
    check_device_index(stream.device_index()); // raises in a forked child
    return nbytes == 0 ? nullptr
                       : allocateOn(stream.device_index(), stream.id(), nbytes);
  }

  void raw_delete(void* ptr) override {
    freeBlock(ptr);
  }

  void recordStream(const DataPtr& ptr, XPUStream stream) override {
    // An empty tensor has no block. Memory with another deleter is not ours.
    if (ptr.get() && ptr.get_deleter() == &freeBlock && !is_in_bad_fork()) {
      void* const start = ptr.get_context();
      DeviceAllocator::recordStream(findBlock(start), start, stream);
    }
  }

  void emptyCache() override {
    forEachDevice([](DeviceAllocator& allocator, DeviceIndex) {
      allocator.emptyCache();
    });
  }
};

NativeAllocator native_allocator;
std::atomic<XPUAllocator*> current_allocator{&native_allocator};

// Runs when the library is loaded, and only stores a pointer.
REGISTER_ALLOCATOR(kXPU, &native_allocator);

} // namespace

XPUAllocator* get() {
  return current_allocator.load(std::memory_order_acquire);
}

void set(XPUAllocator* allocator) {
  TORCH_CHECK(
      get() == &native_allocator && state.load() == nullptr,
      "The XPU allocator cannot be changed any more: the present one is in "
      "use. Change it once, before the first use of an XPU device");
  current_allocator = allocator;
  SetAllocator(kXPU, allocator);
}

void init(int device_count) {
  TORCH_CHECK(
      device_count >= 0 && device_count <= xpu::device_count(),
      "init of the XPU caching allocator: device_count is ",
      device_count,
      ", but must be from 0 to the number of XPU devices, ",
      static_cast<int>(xpu::device_count()));
  const std::lock_guard<std::mutex> guard(init_mutex);
  State* s = state;
  if (s == nullptr) {
    const char* text = std::getenv("PYTORCH_XPU_ALLOC_CONF");
    auto made = std::make_unique<State>();
    made->config = AllocatorConfig::parse(text == nullptr ? "" : text);
    s = made.release();
    state = s;
    set_pointer_owner_lookup(&ownerOf);
  }
  const auto end = static_cast<DeviceIndex>(device_count);
  for (DeviceIndex i = 0; i < end; ++i) {
    if (s->devices[i] == nullptr) {
      s->devices[i] = new DeviceAllocator(
          s->backend, s->table, s->cards[get_root_device(i)], i, s->config);
    }
  }
}

void setMemoryFraction(double fraction, int device) {
  TORCH_CHECK(
      fraction >= 0 && fraction <= 1, // false for NaN
      "The memory fraction for XPU device ",
      device,
      " is ",
      fraction,
      ", but must be from 0 to 1");
  at(device).setMemoryFraction(fraction);
}

void cacheInfo(int device, size_t* cached_and_free, size_t* largest_block) {
  TORCH_CHECK(
      cached_and_free != nullptr && largest_block != nullptr,
      "cacheInfo needs a place for both of its results");
  std::vector<SegmentInfo> segments;
  at(device).snapshot(segments);
  if (*largest_block == 0) {
    *largest_block =
        get_free_memory(static_cast<DeviceIndex>(device)).value_or(0);
  }
  for (const auto& segment : segments) {
    for (const auto& block : segment.blocks) {
      if (!block.active) {
        const auto size = static_cast<size_t>(block.size);
        *cached_and_free += size;
        *largest_block = std::max(*largest_block, size);
      }
    }
  }
}

DeviceStats getDeviceStats(int device) {
  return at(device).stats();
}

void resetPeakStats(int device) {
  at(device).resetPeakStats();
}

void resetAccumulatedStats(int device) {
  at(device).resetAccumulatedStats();
}

std::vector<SegmentInfo> snapshot() {
  std::vector<SegmentInfo> result;
  forEachDevice([&](DeviceAllocator& allocator, DeviceIndex) {
    allocator.snapshot(result);
  });
  return result;
}

} // namespace c10::xpu::XPUCachingAllocator
