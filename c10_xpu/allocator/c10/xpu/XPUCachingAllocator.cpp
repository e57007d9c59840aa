#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/util/llvmMathExtras.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>
#include <c10/xpu/impl/XPUInternal.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#include <sycl/usm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <sstream>

namespace c10::xpu::XPUCachingAllocator {

namespace {

using impl::DeviceAllocator;
using impl::deviceAllocator;

std::mutex mutex; // for init, and of the observers
auto& out_of_memory_observers = *new std::vector<OutOfMemoryObserver>;

// What `init` makes. It is never destroyed: memory may be freed while the
// process ends, when the SYCL runtime is gone already.
struct SyclBackend final : impl::MemoryBackend {
  std::array<impl::Card, C10_COMPILE_TIME_MAX_XPUS> cards; // by first ordinal
  std::vector<std::unique_ptr<DeviceAllocator>> devices;

  void* allocate(DeviceIndex device, size_t size) override {
    constexpr size_t align = impl::kMinBlockSize;
    void* ptr = nullptr;
    try {
      ptr = sycl::aligned_alloc_device(
          align, size, get_raw_device(device), get_device_context());
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
    const bool native = impl::hasNativeWork(stream.device_index(), stream.id());
    const auto idle = impl::isIdle(queue, native);
    if (idle && *idle) {
      return nullptr;
    }
    auto event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
    if (!idle && impl::isComplete(event)) {
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

  void makeQueue(XPUStream stream) override {
    impl::queueOf(stream);
    impl::queueOf(getDefaultXPUStream(stream.device_index())); // for external
  }

  optional<sycl::queue> externalQueue(XPUStream stream) override {
    const bool external = impl::isExternalStream(stream.id());
    return external ? optional<sycl::queue>(stream.queue()) : nullopt;
  }

  std::string outOfMemory(DeviceAllocator& device, size_t size) override {
    const size_t total = device.card.total;
    const auto free = get_free_memory(device.device);
    std::unique_lock<std::mutex> lock(mutex);
    const auto observers = out_of_memory_observers;
    lock.unlock();
    for (const auto& observer : observers) {
      observer(device.device, size, total, free.value_or(0));
    }
    const DeviceStats now = device.stats();
    const auto mib = [](size_t bytes) { return double(bytes) / (1 << 20); };
    std::ostringstream text;
    text << std::fixed << std::setprecision(2)
         << "XPU out of memory. Tried to allocate " << mib(size)
         << " MiB (xpu:" << int{device.device} << "; " << mib(total)
         << " MiB total capacity; "
         << mib(now.allocated_bytes[impl::kAggregate].current)
         << " MiB already allocated; ";
    free ? text << mib(*free) << " MiB free; " : text << "unknown free; ";
    text
        << mib(now.reserved_bytes[impl::kAggregate].current)
        << " MiB reserved in total by PyTorch; limit "
        << mib(std::min(total, device.card.limit.load()))
        << " MiB). If much more is reserved than allocated, try max_split_size_mb "
           "in PYTORCH_XPU_ALLOC_CONF";
    return text.str();
  }
};

std::atomic<SyclBackend*> state{nullptr};

// Raises an error that names the allowed keys and values.
impl::AllocatorConfig parseConfig(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  impl::AllocatorConfig config;
  std::istringstream options(text);
  for (std::string option; std::getline(options, option, ',');) {
    TORCH_CHECK(
        option.empty() || config.set(option),
        c10::str("PYTORCH_XPU_ALLOC_CONF: '", option, "' is none of "),
        impl::kAllocatorOptions);
  }
  return config;
}

// None before init, and in a forked child.
auto allDevices() {
  auto* const s = state.load(std::memory_order_acquire);
  using Devices = c10::ArrayRef<std::unique_ptr<DeviceAllocator>>;
  return s == nullptr || is_in_bad_fork() ? Devices() : Devices(s->devices);
}

impl::Block* findBlock(const void* ptr) {
  const auto* const s = state.load(std::memory_order_acquire);
  auto* const block = s == nullptr ? nullptr : s->table.find(ptr);
  impl::checkAllocated(block != nullptr, ptr);
  return block;
}

DeviceIndex ownerOf(void* ptr) {
  for (const auto& each : allDevices()) {
    if (each->owns(ptr)) {
      return each->device;
    }
  }
  return -1;
}

struct NativeAllocator final : XPUAllocator {
  void* raw_alloc_with_stream(size_t size, XPUStream stream) override {
    if (size == 0) {
      return nullptr;
    }
    return deviceAllocator(stream.device_index()).allocate(size, stream);
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
    for (const auto& each : allDevices()) {
      each->emptyCache(mempool_id);
    }
  }
};

NativeAllocator native_allocator;
REGISTER_ALLOCATOR(kXPU, &native_allocator);

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
  const std::lock_guard<std::mutex> guard(mutex);
  if (state != nullptr) {
    return;
  }
  const char* text = std::getenv("PYTORCH_XPU_ALLOC_CONF");
  auto s = std::make_unique<SyclBackend>();
  s->config = text == nullptr && impl::common_config != nullptr
      ? impl::common_config()
      : parseConfig(text == nullptr ? "" : text);
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
  auto& card = deviceAllocator(device).card;
  card.limit = static_cast<size_t>(fraction * static_cast<double>(card.total));
  card.fraction = fraction;
}

double getMemoryFraction(int device) {
  return deviceAllocator(device).card.fraction;
}

void cacheInfo(int device, size_t* cached_and_free, size_t* largest_block) {
  std::vector<SegmentInfo> segments;
  deviceAllocator(device).snapshot(segments);
  if (*largest_block == 0) {
    *largest_block = get_free_memory(DeviceIndex(device)).value_or(0);
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
  return deviceAllocator(device).stats();
}

void resetPeakStats(int device) {
  deviceAllocator(device).resetPeakStats();
}

void resetAccumulatedStats(int device) {
  deviceAllocator(device).resetAccumulatedStats();
}

std::vector<SegmentInfo> snapshot(const MempoolId_t& mempool_id) {
  std::vector<SegmentInfo> result;
  for (const auto& each : allDevices()) {
    each->snapshot(result, mempool_id);
  }
  return result;
}

void attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  const std::lock_guard<std::mutex> guard(mutex);
  out_of_memory_observers.push_back(std::move(observer));
}

} // namespace c10::xpu::XPUCachingAllocator

namespace c10::xpu::impl {

using namespace XPUCachingAllocator;

bool AllocatorConfig::set(const std::string& option) {
  std::istringstream pair(option);
  std::string key;
  double number = 0; // which is wrong for all keys
  std::getline(pair, key, ':');
  pair >> number;
  number = pair.eof() && number > 0 && number < 1e12 ? number : 0;
  const size_t whole = number == std::trunc(number) ? size_t(number) : 0;
  if (key == "max_split_size_mb" && whole > kLargeBuffer >> 20) {
    max_split_size = whole << 20;
  } else if (key == "roundup_power2_divisions" && llvm::isPowerOf2_64(whole)) {
    roundup_power2_divisions = whole;
  } else if (
      key == "garbage_collection_threshold" && number > 0 && number < 1) {
    garbage_collection_threshold = number;
  } else {
    return false;
  }
  return true;
}

bool isNative(const Allocator* allocator) {
  return allocator == &native_allocator;
}

DeviceAllocator& deviceAllocator(int device) {
  auto* const s = state.load(std::memory_order_acquire);
  TORCH_CHECK(
      s, "Call c10::xpu::XPUCachingAllocator::init(device_count) first");
  const auto index = static_cast<DeviceIndex>(device);
  impl::checkIndex(index == device ? index : DeviceIndex(-1)); // or forked
  return *s->devices[device];
}

} // namespace c10::xpu::impl
