#include <ATen/xpu/detail/HostBlockRegistry.h>

#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>

#include <sycl/usm.hpp>

#include <mutex>
#include <utility>

namespace at {
namespace xpu {
namespace detail {

namespace {

// The alignment of CPU tensors.
constexpr size_t kAlignment = 64;

uintptr_t addressOf(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr);
}

void freeHostMemory(void* ptr) {
  C10_XPU_CHECK(sycl::free(ptr, c10::xpu::get_device_context()));
}

} // namespace

HostBlock* HostBlockRegistry::allocate(uint32_t bin, size_t size) {
  void* ptr = C10_XPU_CHECK(
      sycl::aligned_alloc_host(
          kAlignment, size, c10::xpu::get_device_context()));
  if (!ptr) {
    return nullptr;
  }
  try {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    if (spare_.empty()) {
      storage_.emplace_back();
      contexts_.insert(&storage_.back());
      spare_.push_back(&storage_.back());
      // So that giving a block back needs no memory.
      spare_.reserve(storage_.size());
    }
    HostBlock* block = spare_.back();
    by_address_.emplace(addressOf(ptr), block);
    spare_.pop_back();
    block->ptr = ptr;
    block->size = size;
    block->bin = bin;
    reserved_bytes_ += size;
    ++num_host_alloc_;
    return block;
  } catch (...) {
    freeHostMemory(ptr);
    throw;
  }
}

void HostBlockRegistry::release(HostBlock* block) {
  // Out of the registry first: once freed, the address may at any time be
  // another thread's new block.
  std::unique_lock<std::shared_mutex> lock(mutex_);
  auto entry = by_address_.extract(addressOf(block->ptr));
  lock.unlock();
  try {
    freeHostMemory(block->ptr);
  } catch (...) {
    lock.lock();
    by_address_.insert(std::move(entry));
    throw;
  }
  lock.lock();
  reserved_bytes_ -= block->size;
  ++num_host_free_;
  spare_.push_back(block);
}

HostBlock* HostBlockRegistry::find(void* ptr, void* ctx) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  // `ctx` may be anything: it is dereferenced only if it is known.
  if (contexts_.count(ctx)) {
    return static_cast<HostBlock*>(ctx);
  }
  const uintptr_t address = addressOf(ptr);
  auto it = by_address_.upper_bound(address);
  if (it == by_address_.begin()) {
    return nullptr;
  }
  --it;
  return address - it->first < it->second->size ? it->second : nullptr;
}

void HostBlockRegistry::addTo(HostAllocatorStats& stats) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  stats.reserved_bytes = reserved_bytes_;
  stats.num_host_alloc = num_host_alloc_;
  stats.num_host_free = num_host_free_;
}

} // namespace detail
} // namespace xpu
} // namespace at
