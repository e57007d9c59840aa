#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUMemoryBackend.h>
#include <c10/xpu/impl/XPUMemoryPool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace c10::xpu::XPUCachingAllocator {

namespace {

using impl::AllocatorConfig;
using impl::Block;
using PoolType = impl::MemoryPool<impl::MemoryBackend>;
using ArenaType = PoolType::ArenaType;

// What `init` makes. It is never destroyed: memory may be freed while the
// process ends, when the SYCL runtime is gone already.
struct State {
  explicit State(const AllocatorConfig& config) : config(config) {}

  PoolType* pool(int device) const noexcept {
    return device >= 0 && device < C10_COMPILE_TIME_MAX_XPUS
        ? pools[device].load(std::memory_order_acquire)
        : nullptr;
  }

  template <class Visitor>
  void forEachPool(Visitor visit) const {
    for (const auto& pool : pools) {
      if (PoolType* present = pool.load(std::memory_order_acquire)) {
        visit(*present);
      }
    }
  }

  const AllocatorConfig config;
  impl::MemoryBackend backend;
  impl::BlockTable table;
  std::array<std::atomic<PoolType*>, C10_COMPILE_TIME_MAX_XPUS> pools{};
};

std::atomic<State*> g_state{nullptr};
std::mutex g_init_mutex;

State* state() noexcept {
  return g_state.load(std::memory_order_acquire);
}

[[noreturn]] C10_NOINLINE void throwNotReady(int device) {
  TORCH_CHECK(
      false,
      "The XPU caching allocator is not ready for device ",
      device,
      ". Call c10::xpu::XPUCachingAllocator::init(device_count) first, with a"
      " device_count greater than the device's index, which must not be"
      " negative.");
}

PoolType& poolOf(int device) {
  State* const s = state();
  PoolType* const pool = s == nullptr ? nullptr : s->pool(device);
  if (C10_UNLIKELY(pool == nullptr)) {
    throwNotReady(device);
  }
  return *pool;
}

c10::Device deviceAt(int device) {
  return {c10::DeviceType::XPU, static_cast<c10::DeviceIndex>(device)};
}

// Whether a profiler listens on this thread, which then has the last word.
bool maybeProfiled() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) !=
      nullptr;
}

C10_NOINLINE void reportToProfiler(
    PoolType& pool,
    int device,
    void* ptr,
    int64_t size) {
  if (!c10::memoryProfilingEnabled()) {
    return;
  }
  c10::reportMemoryUsageToProfiler(
      ptr, size, pool.allocatedBytes(), pool.reservedBytes(), deviceAt(device));
}

void* allocateOn(int device, int64_t stream, size_t size) {
  PoolType& pool = poolOf(device);
  const Block* block = pool.allocate(size, stream);
  void* const ptr = block->ptr;
  if (const auto* trace = c10::impl::GPUTrace::get_trace();
      C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_allocation(reinterpret_cast<uintptr_t>(ptr));
  }
  if (C10_UNLIKELY(maybeProfiled())) {
    reportToProfiler(pool, device, ptr, static_cast<int64_t>(block->size));
  }
  return ptr;
}

Block* findBlock(const void* ptr) {
  State* const s = state();
  Block* const block = s == nullptr ? nullptr : s->table.find(ptr);
  TORCH_CHECK(
      block != nullptr,
      "invalid XPU pointer: ",
      ptr,
      " was not allocated by the XPU caching allocator");
  return block;
}

ArenaType& arenaOf(const Block* block) noexcept {
  return static_cast<ArenaType&>(block->arena());
}

void freeBlock(void* ptr) {
  Block* const block = findBlock(ptr);
  ArenaType& arena = arenaOf(block);
  if (const auto* trace = c10::impl::GPUTrace::get_trace();
      C10_UNLIKELY(trace != nullptr)) {
    // Before the memory can be somebody else's.
    arena.requireAllocated(block, ptr);
    (*trace)->trace_gpu_memory_deallocation(reinterpret_cast<uintptr_t>(ptr));
  }
  const auto freed = arena.free(block, ptr);
  const int device = arena.stream().device;
  PoolType& pool = *state()->pool(device);
  pool.freed(freed);
  if (C10_UNLIKELY(maybeProfiled())) {
    reportToProfiler(pool, device, ptr, -static_cast<int64_t>(freed.size));
  }
}

// The deleter of all DataPtrs of this allocator.
void deleteData(void* ptr) {
  if (ptr != nullptr) {
    freeBlock(ptr);
  }
}

c10::DeviceIndex ownerOf(void* ptr) {
  c10::DeviceIndex owner = -1;
  if (const State* s = state()) {
    for (c10::DeviceIndex i = 0; i < C10_COMPILE_TIME_MAX_XPUS; ++i) {
      const PoolType* pool = s->pool(i);
      if (pool != nullptr && pool->owns(ptr)) {
        owner = i;
      }
    }
  }
  return owner;
}

struct XPUAllocator final : c10::Allocator {
  DataPtr allocate(size_t size) const override {
    const DeviceIndex device = current_device();
    void* const ptr = size == 0
        ? nullptr
        : allocateOn(device, getCurrentXPUStream(device).id(), size);
    return {ptr, ptr, &deleteData, deviceAt(device)};
  }

  DeleterFnPtr raw_deleter() const override {
    return &deleteData;
  }
};

XPUAllocator g_allocator;

// Runs when the library is loaded, and only stores a pointer.
REGISTER_ALLOCATOR(c10::kXPU, &g_allocator);

} // namespace

Allocator* get() {
  return &g_allocator;
}

void init(int device_count) {
  TORCH_CHECK(
      device_count >= 0 && device_count <= xpu::device_count(),
      "init of the XPU caching allocator: device_count is ",
      device_count,
      ", but must be from 0 to the number of XPU devices, ",
      static_cast<int>(xpu::device_count()));
  std::lock_guard<std::mutex> guard(g_init_mutex);
  if (state() == nullptr) {
    const char* text = std::getenv("PYTORCH_XPU_ALLOC_CONF");
    const auto config = AllocatorConfig::parse(text == nullptr ? "" : text);
    g_state.store(new State(config), std::memory_order_release);
    set_pointer_owner_lookup(&ownerOf);
  }
  State& s = *state();
  for (int i = 0; i < device_count; ++i) {
    if (s.pool(i) == nullptr) {
      s.pools[i].store(
          new PoolType(s.backend, s.table, i, s.config),
          std::memory_order_release);
    }
  }
}

void* raw_alloc(size_t nbytes) {
  if (nbytes == 0) {
    return nullptr;
  }
  const DeviceIndex device = current_device();
  return allocateOn(device, getCurrentXPUStream(device).id(), nbytes);
}

void* raw_alloc_with_stream(size_t nbytes, XPUStream stream) {
  if (nbytes == 0) {
    return nullptr;
  }
  return allocateOn(stream.device_index(), stream.id(), nbytes);
}

void raw_delete(void* ptr) {
  if (ptr != nullptr) {
    freeBlock(ptr);
  }
}

void recordStream(const DataPtr& ptr, XPUStream stream) {
  // An empty tensor has no block. Memory with another deleter is not ours.
  if (!ptr.get() || ptr.get_deleter() != &deleteData) {
    return;
  }
  void* const start = ptr.get_context();
  Block* const block = findBlock(start);
  arenaOf(block).recordStream(
      block, start, {stream.id(), stream.device_index()});
}

void emptyCache() {
  if (const State* s = state()) {
    s->forEachPool([](PoolType& pool) { pool.emptyCache(); });
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
  poolOf(device).setMemoryFraction(fraction);
}

void cacheInfo(int device, size_t* cached_and_free, size_t* largest_block) {
  TORCH_CHECK(
      cached_and_free != nullptr && largest_block != nullptr,
      "cacheInfo needs a place for both of its results");
  PoolType& pool = poolOf(device);
  if (*largest_block == 0) {
    *largest_block = state()->backend.freeMemory(device);
  }
  pool.cacheInfo(*cached_and_free, *largest_block);
}

DeviceStats getDeviceStats(int device) {
  return poolOf(device).stats();
}

void resetPeakStats(int device) {
  poolOf(device).resetPeakStats();
}

void resetAccumulatedStats(int device) {
  poolOf(device).resetAccumulatedStats();
}

std::vector<SegmentInfo> snapshot() {
  std::vector<SegmentInfo> result;
  if (const State* s = state()) {
    s->forEachPool([&](PoolType& pool) { pool.snapshot(result); });
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return a.address < b.address;
  });
  return result;
}

} // namespace c10::xpu::XPUCachingAllocator
