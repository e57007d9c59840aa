#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>
#include <c10/xpu/impl/XPUInternal.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <sycl/usm.hpp>

#include <algorithm>
#include <cstdlib>

namespace c10::xpu::XPUCachingAllocator {

namespace {

using impl::DeviceAllocator;

auto& out_of_memory_observers = *new std::vector<OutOfMemoryObserver>;
std::mutex observers_mutex;

// What `init` makes. It is never destroyed: memory may be freed while the
// process ends, when the SYCL runtime is gone already.
struct SyclBackend final : impl::MemoryBackend {
  std::array<impl::Card, C10_COMPILE_TIME_MAX_XPUS> cards; // by first ordinal
  std::vector<std::unique_ptr<DeviceAllocator>> devices;

  void* allocate(DeviceIndex device, size_t size) override {
    constexpr size_t align = impl::kMinBlockSize;
    auto& raw = get_raw_device(device);
    auto& context = get_device_context();
    void* ptr = nullptr;
    try {
      ptr = sycl::aligned_alloc_device(align, size, raw, context);
    } catch (const sycl::exception& error) {
      // Lack of memory is a null pointer or this code.
      if (error.code() != sycl::errc::memory_allocation) {
        C10_XPU_CHECK(throw);
      }
    }
    TORCH_CHECK(
        reinterpret_cast<uintptr_t>(ptr) % align == 0,
        "SYCL returned device memory that is not aligned to 512 bytes");
    return ptr;
  }

  void deallocate(DeviceIndex /*device*/, void* ptr) override {
    C10_XPU_CHECK(sycl::free(ptr, get_device_context()));
  }

  impl::Fence fence(const impl::StreamUse& use) override {
    const auto& stream = use.stream;
    auto* own = impl::findUsedQueue(stream.device_index(), stream.id());
    if (own == nullptr) {
      return nullptr;
    }
    sycl::queue queue = use.external ? *use.external : *own;
    const auto records = [queue] {
      return C10_XPU_CHECK(queue.ext_oneapi_get_state()) ==
          sycl::ext::oneapi::experimental::queue_state::recording;
    };
    if (records()) { // what it is given now runs some time, or many times
      return [this, use, records](bool wait) {
        if (records()) {
          return false;
        }
        const auto later = fence(use);
        return !later || later(wait);
      };
    }
    const bool can_ask = impl::canAskEmpty(queue);
    if (can_ask && C10_XPU_CHECK(queue.ext_oneapi_empty())) {
      return nullptr;
    }
    auto event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
    if (!can_ask && impl::isComplete(event)) {
      return nullptr;
    }
    return [event, queue](bool wait) mutable {
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

  optional<sycl::queue> externalQueue(XPUStream stream) override {
    const bool external = impl::isExternalStream(stream.id());
    return external ? optional<sycl::queue>(stream.queue()) : nullopt;
  }

  void* outOfMemory(size_t size, XPUStream stream) override {
    // Other ordinals over the same card may have cached what is needed.
    const DeviceIndex device = stream.device_index();
    DeviceAllocator& allocator = *devices[device];
    for (const auto& other : devices) {
      if (other.get() != &allocator && &other->card == &allocator.card) {
        other->emptyCache();
        if (void* const ptr = allocator.allocate(size, stream, true)) {
          return ptr;
        }
      }
    }
    std::unique_lock<std::mutex> lock(observers_mutex);
    const auto observers = out_of_memory_observers;
    lock.unlock();
    const auto free = get_free_memory(device);
    for (const auto& observer : observers) {
      observer(device, size, allocator.card.total, free.value_or(0));
    }
    allocator.throwOutOfMemory(size, free);
  }
};

std::atomic<SyclBackend*> state{nullptr};
std::mutex init_mutex;

DeviceAllocator& at(int device) {
  auto* const s = state.load(std::memory_order_acquire);
  TORCH_CHECK(
      s, "Call c10::xpu::XPUCachingAllocator::init(device_count) first");
  const auto index = static_cast<DeviceIndex>(device);
  impl::checkIndex(index == device ? index : DeviceIndex(-1)); // or forked
  return *s->devices[device];
}

template <class Visitor>
void forEachDevice(Visitor visit) {
  auto* const s = state.load(std::memory_order_acquire);
  if (s != nullptr && !is_in_bad_fork()) {
    for (const auto& allocator : s->devices) {
      visit(*allocator);
    }
  }
}

impl::Block* findBlock(const void* ptr) {
  const auto* const s = state.load(std::memory_order_acquire);
  auto* const block = s == nullptr ? nullptr : s->table.find(ptr);
  TORCH_CHECK(
      block,
      c10::str("invalid XPU pointer: ", ptr, " is not an allocated block"));
  return block;
}

DeviceIndex ownerOf(void* ptr) {
  DeviceIndex owner = -1;
  forEachDevice([&](DeviceAllocator& allocator) {
    owner = allocator.owns(ptr) ? allocator.device : owner;
  });
  return owner;
}

struct NativeAllocator final : XPUAllocator {
  void* raw_alloc_with_stream(size_t size, XPUStream stream) override {
    if (size == 0) {
      return nullptr;
    }
    return at(stream.device_index()).allocate(size, stream);
  }

  void raw_delete(void* ptr) override {
    if (C10_LIKELY(ptr != nullptr && impl::known_count != impl::kForked)) {
      impl::DeviceAllocator::free(findBlock(ptr), ptr);
    }
  }

  void recordStream(const DataPtr& ptr, XPUStream stream) override {
    // An empty tensor has no block. Memory with another deleter is not ours.
    if (ptr.get() && ptr.get_deleter() == raw_deleter() && !is_in_bad_fork()) {
      void* const start = ptr.get_context();
      impl::DeviceAllocator::recordStream(findBlock(start), start, stream);
    }
  }

  void emptyCache(MempoolId_t mempool_id) override {
    forEachDevice([&](auto& each) { each.emptyCache(mempool_id); });
  }
};

NativeAllocator native_allocator;
REGISTER_ALLOCATOR(kXPU, &native_allocator);

DeviceAllocator& poolsOf(DeviceIndex device) {
  TORCH_CHECK(
      get() == &native_allocator,
      "Only the native XPU allocator has private pools");
  return at(device);
}

} // namespace

std::atomic<XPUAllocator*> allocator{&native_allocator};

DeleterFnPtr XPUAllocator::raw_deleter() const {
  return &XPUCachingAllocator::raw_delete;
}

void set(XPUAllocator* other) {
  TORCH_CHECK(
      get() == &native_allocator && state.load() == nullptr,
      "The XPU allocator is in use: change it before the first use of a device");
  allocator = other;
  SetAllocator(kXPU, other);
}

void init(int device_count) {
  TORCH_CHECK(
      device_count >= 0 && device_count <= xpu::device_count(),
      c10::str("init of the XPU caching allocator for ", device_count),
      c10::str(" devices of ", int{xpu::device_count()}));
  const std::lock_guard<std::mutex> guard(init_mutex);
  if (state != nullptr) {
    return;
  }
  const char* text = std::getenv("PYTORCH_XPU_ALLOC_CONF");
  auto s = std::make_unique<SyclBackend>();
  s->config = impl::AllocatorConfig::parse(text == nullptr ? "" : text);
  for (DeviceIndex i = 0; i < xpu::device_count(); ++i) {
    auto& card = s->cards[get_root_device(i)];
    card.total = get_device_properties(i).global_mem_size;
    s->devices.push_back(std::make_unique<DeviceAllocator>(*s, card, i));
  }
  state = s.release();
  set_pointer_owner_lookup(&ownerOf);
}

bool initialized() {
  return state.load(std::memory_order_acquire) != nullptr;
}

void setTrace(TraceFn trace) {
  impl::trace_fn = trace;
}

void setMemoryFraction(double fraction, int device) {
  TORCH_CHECK(
      fraction >= 0 && fraction <= 1, // false for NaN
      c10::str("The memory fraction for XPU device ", device, " is ", fraction),
      ", but must be from 0 to 1");
  auto& card = at(device).card;
  card.limit = static_cast<size_t>(fraction * static_cast<double>(card.total));
  card.fraction = fraction;
}

double getMemoryFraction(int device) {
  return at(device).card.fraction;
}

void cacheInfo(int device, size_t* cached_and_free, size_t* largest_block) {
  std::vector<SegmentInfo> segments;
  at(device).snapshot(segments);
  if (*largest_block == 0) {
    *largest_block =
        get_free_memory(static_cast<DeviceIndex>(device)).value_or(0);
  }
  for (const auto& segment : segments) {
    for (const auto& block : segment.blocks) {
      const auto size = static_cast<size_t>(block.active ? 0 : block.size);
      *cached_and_free += size;
      *largest_block = std::max(*largest_block, size);
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

std::vector<SegmentInfo> snapshot(const MempoolId_t& mempool_id) {
  std::vector<SegmentInfo> result;
  forEachDevice([&](auto& each) { each.snapshot(result, mempool_id); });
  return result;
}

void attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  const std::lock_guard<std::mutex> guard(observers_mutex);
  out_of_memory_observers.push_back(std::move(observer));
}

void createOrIncrefPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    XPUAllocator* allocator) {
  poolsOf(device).createOrIncrefPool(mempool_id, allocator, false);
}

void beginAllocateToPool(
    DeviceIndex device,
    MempoolId_t mempool_id,
    std::function<bool(sycl::queue*)> filter) {
  poolsOf(device).beginAllocateToPool(mempool_id, [filter](XPUStream stream) {
    return filter(&stream.queue());
  });
}

void endAllocateToPool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).endAllocateToPool(mempool_id);
}

void releasePool(DeviceIndex device, MempoolId_t mempool_id) {
  poolsOf(device).releasePool(mempool_id);
}

int getPoolUseCount(DeviceIndex device, MempoolId_t mempool_id) {
  return poolsOf(device).getPoolUseCount(mempool_id);
}

} // namespace c10::xpu::XPUCachingAllocator

namespace c10::xpu {

MempoolId_t MemPool::graph_pool_handle(bool is_user_created) {
  static std::atomic<CaptureId_t> user_created{0};
  static std::atomic<CaptureId_t> captured{0};
  return is_user_created ? MempoolId_t{0, ++user_created}
                         : MempoolId_t{++captured, 0};
}

MemPool::MemPool(
    XPUCachingAllocator::XPUAllocator* allocator,
    bool is_user_created,
    bool use_on_oom)
    : allocator_(allocator),
      is_user_created_(is_user_created),
      id_(graph_pool_handle(is_user_created)),
      device_(current_device()) {
  auto& device = XPUCachingAllocator::poolsOf(device_);
  device.createOrIncrefPool(id_, allocator_, use_on_oom);
}

MemPool::~MemPool() {
  if (is_in_bad_fork()) {
    return;
  }
  try {
    XPUCachingAllocator::releasePool(device_, id_);
    XPUCachingAllocator::emptyCache(id_);
  } catch (const std::exception& error) {
    TORCH_WARN("A private pool of XPU memory was not released: ", error.what());
  }
}

MempoolId_t MemPool::id() {
  return id_;
}

XPUCachingAllocator::XPUAllocator* MemPool::allocator() {
  return allocator_;
}

int MemPool::use_count() {
  return XPUCachingAllocator::getPoolUseCount(device_, id_);
}

DeviceIndex MemPool::device() {
  return device_;
}

} // namespace c10::xpu
