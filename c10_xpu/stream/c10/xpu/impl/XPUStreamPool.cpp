#include <c10/xpu/impl/XPUStreamPool.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUAsyncErrors.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <sycl/ext/oneapi/weak_object.hpp>
#include <sycl/properties/queue_properties.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace c10 {
namespace xpu {
namespace impl {
namespace {

// See Note [Stream id assignment]
constexpr StreamId kPoolBit = 1;
constexpr int kPriorityShift = 1;
constexpr int kPriorityBits = 3;
constexpr int kIndexShift = kPriorityShift + kPriorityBits;
constexpr StreamId kExternalMask = alignof(sycl::queue) - 1;
constexpr std::array<int, kNumPriorities> kPriorityOfSlot = {0, -1, 1};

static_assert(alignof(sycl::queue) >= 8, "bit 0 must tell ids from addresses");
static_assert(kStreamsPerPool <= 32, "Pool::used has a bit per stream");

int slotOf(int priority) {
  return priority == 0 ? 0 : priority < 0 ? 1 : 2;
}

struct Pool {
  // A deque, since a marker's mutex cannot move.
  std::deque<StreamQueue> streams;
  // Which of them have been asked for, as a queue. Never unset: who has had the
  // reference may submit at any time.
  std::atomic<uint32_t> used{0};
};

/// The streams of a device. What is read all the time and what is written all
/// the time are on cache lines of their own.
struct DeviceStreams {
  alignas(64) std::atomic<StreamQueue*> default_stream{nullptr};
  std::array<std::atomic<Pool*>, kNumPriorities> pools{};
  std::mutex mutex; // while queues are made
  alignas(64) std::array<std::atomic<uint32_t>, kNumPriorities> next{};
};

// Static storage without a constructor or destructor that runs; the queues are
// leaked, see Note [XPU streams].
std::array<DeviceStreams, C10_COMPILE_TIME_MAX_XPUS> gStreams;

DeviceStreams& streamsOf(DeviceIndex device) {
  return gStreams[static_cast<uint8_t>(device)]; // which was checked
}

struct ExternalQueue {
  DeviceIndex device = 0;
  sycl::ext::oneapi::weak_object<sycl::queue> queue;
  std::shared_ptr<Marker> marker;
};

struct ExternalQueues {
  std::mutex mutex;
  std::unordered_map<StreamId, ExternalQueue> by_id;
};

std::atomic<size_t> gNumExternal{0};

ExternalQueues& externals() {
  static auto* queues = new ExternalQueues;
  return *queues;
}

StreamId externalId(const sycl::queue& queue) {
  return static_cast<StreamId>(reinterpret_cast<intptr_t>(&queue));
}

sycl::property_list queueProperties(int priority) {
  namespace ext = sycl::ext::oneapi::property::queue;
  const sycl::property::queue::in_order in_order;
  if (priority < 0) {
    return {in_order, ext::priority_high()};
  }
  if (priority > 0) {
    return {in_order, ext::priority_low()};
  }
  return {in_order, ext::priority_normal()};
}

sycl::queue makeQueue(DeviceIndex device, int priority, StreamId id) {
  const auto properties = queueProperties(priority);
  const auto on_error = [device, id](sycl::exception_list errors) {
    keepStreamErrors(
        std::move(errors),
        device,
        c10::str("stream ", id, " on device xpu:", static_cast<int>(device)));
  };
  return C10_XPU_CHECK(
      sycl::queue(
          get_device_context(), get_raw_device(device), on_error, properties));
}

void traceCreation(const sycl::queue& queue) {
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_stream_creation(reinterpret_cast<uintptr_t>(&queue));
  }
}

C10_NOINLINE StreamQueue* makeDefaultStream(DeviceIndex device) {
  auto& streams = streamsOf(device);
  StreamQueue* made = nullptr;
  {
    std::lock_guard<std::mutex> lock(streams.mutex);
    made = streams.default_stream.load(std::memory_order_relaxed);
    if (made) {
      return made; // another thread came first
    }
    made = std::make_unique<StreamQueue>(makeQueue(device, 0, 0)).release();
    streams.default_stream.store(made, std::memory_order_release);
  }
  traceCreation(made->queue);
  return made;
}

C10_NOINLINE Pool* makePool(DeviceIndex device, int slot) {
  auto& streams = streamsOf(device);
  auto& place = streams.pools[static_cast<size_t>(slot)];
  Pool* made = nullptr;
  {
    std::lock_guard<std::mutex> lock(streams.mutex);
    made = place.load(std::memory_order_relaxed);
    if (made) {
      return made; // another thread came first
    }
    // All or none: if one cannot be made the next request tries again.
    auto pool = std::make_unique<Pool>();
    const int priority = kPriorityOfSlot[slot];
    for (const auto index : c10::irange(kStreamsPerPool)) {
      pool->streams.emplace_back(
          makeQueue(device, priority, poolStreamId(priority, index)));
    }
    made = pool.release();
    place.store(made, std::memory_order_release);
  }
  // Outside of the lock, since the hooks are free to ask for streams.
  for (const auto& stream : made->streams) {
    traceCreation(stream.queue);
  }
  return made;
}

Pool* findPool(DeviceIndex device, int slot) {
  return streamsOf(device).pools[static_cast<size_t>(slot)].load(
      std::memory_order_acquire);
}

Pool& getPool(DeviceIndex device, int slot) {
  Pool* pool = findPool(device, slot);
  return C10_LIKELY(pool != nullptr) ? *pool : *makePool(device, slot);
}

[[noreturn]] C10_NOINLINE void raiseNoStream(DeviceIndex device, StreamId id) {
  TORCH_CHECK(
      false,
      "There is no XPU stream with the id ",
      id,
      " on device xpu:",
      static_cast<int>(device),
      ". Stream ids are not made by hand: use getStreamFromPool, "
      "getStreamFromExternal or getCurrentXPUStream");
}

sycl::queue& externalQueue(StreamId id) {
  return *reinterpret_cast<sycl::queue*>(static_cast<intptr_t>(id));
}

/// The marker of an external queue; one for this call only where the queue is
/// not registered.
std::shared_ptr<Marker> externalMarker(StreamId id) {
  auto& all = externals();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.by_id.find(id);
    if (found != all.by_id.end()) {
      return found->second.marker;
    }
  }
  return std::make_shared<Marker>();
}

/// A default or pool stream whose queue somebody has had, or null.
StreamQueue* findUsedStream(DeviceIndex device, const StreamIdParts& parts) {
  if (parts.kind == StreamKind::Default) {
    return streamsOf(device).default_stream.load(std::memory_order_acquire);
  }
  Pool* pool = findPool(device, slotOf(parts.priority));
  if (!pool ||
      ((pool->used.load(std::memory_order_relaxed) >> parts.index) & 1) == 0) {
    return nullptr;
  }
  return &pool->streams[static_cast<size_t>(parts.index)];
}

// See Note [Asking whether a stream is idle]
bool askIdle(sycl::queue& queue, Marker& marker) {
  if (canAskEmpty(queue)) {
    return C10_XPU_CHECK(queue.ext_oneapi_empty());
  }
  std::lock_guard<std::mutex> lock(marker.mutex);
  if (marker.pending && !isComplete(*marker.pending)) {
    return false;
  }
  marker.pending.reset();
  auto event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  if (isComplete(event)) {
    return true;
  }
  marker.pending = std::move(event);
  return false;
}

StreamIdParts decodeOrRaise(DeviceIndex device, StreamId id) {
  const auto parts = decodeStreamId(id);
  if (C10_UNLIKELY(!parts.has_value())) {
    raiseNoStream(device, id);
  }
  return *parts;
}

} // namespace

optional<StreamIdParts> decodeStreamId(StreamId id) {
  if (id == 0) {
    return StreamIdParts{StreamKind::Default, 0, 0};
  }
  if ((id & kPoolBit) == 0) {
    if (id < 0 || (id & kExternalMask) != 0) {
      return nullopt;
    }
    return StreamIdParts{StreamKind::External, 0, 0};
  }
  const auto slot = (id >> kPriorityShift) & ((1 << kPriorityBits) - 1);
  const auto index = id >> kIndexShift;
  if (slot >= kNumPriorities || index < 0 || index >= kStreamsPerPool) {
    return nullopt;
  }
  return StreamIdParts{
      StreamKind::Pool, kPriorityOfSlot[slot], static_cast<int>(index)};
}

StreamId poolStreamId(int priority, int index) {
  return (static_cast<StreamId>(index) << kIndexShift) |
      (static_cast<StreamId>(slotOf(priority)) << kPriorityShift) | kPoolBit;
}

sycl::queue& useQueue(DeviceIndex device, StreamId id) {
  check_device_index(device);
  const auto parts = decodeOrRaise(device, id);
  if (parts.kind == StreamKind::Default) {
    StreamQueue* stream =
        streamsOf(device).default_stream.load(std::memory_order_acquire);
    if (C10_UNLIKELY(!stream)) {
      stream = makeDefaultStream(device);
    }
    return stream->queue;
  }
  if (parts.kind == StreamKind::External) {
    return externalQueue(id);
  }
  auto& pool = getPool(device, slotOf(parts.priority));
  const uint32_t bit = uint32_t(1) << parts.index;
  // Read first: a write each time would make the threads fight for the line.
  if (C10_UNLIKELY((pool.used.load(std::memory_order_relaxed) & bit) == 0)) {
    pool.used.fetch_or(bit, std::memory_order_relaxed);
  }
  return pool.streams[static_cast<size_t>(parts.index)].queue;
}

sycl::queue* findUsedQueue(DeviceIndex device, StreamId id) {
  check_device_index(device);
  const auto parts = decodeOrRaise(device, id);
  if (parts.kind == StreamKind::External) {
    return &externalQueue(id);
  }
  StreamQueue* stream = findUsedStream(device, parts);
  return stream ? &stream->queue : nullptr;
}

bool canAskEmpty(const sycl::queue& queue) {
  // All queues are on the one context, and so of one backend.
  static const bool can = queue.get_backend() != sycl::backend::opencl;
  return can;
}

bool isIdle(DeviceIndex device, StreamId id) {
  check_device_index(device);
  const auto parts = decodeOrRaise(device, id);
  if (parts.kind == StreamKind::External) {
    const auto marker = externalMarker(id);
    return askIdle(externalQueue(id), *marker);
  }
  StreamQueue* stream = findUsedStream(device, parts);
  return !stream || askIdle(stream->queue, stream->marker);
}

int nextPoolIndex(DeviceIndex device, int priority) {
  const int slot = slotOf(priority);
  getPool(device, slot);
  // The number of streams divides 2^32, so that wrapping around is harmless.
  const uint32_t n =
      streamsOf(device).next[static_cast<size_t>(slot)].fetch_add(
          1, std::memory_order_relaxed);
  return static_cast<int>(n % kStreamsPerPool);
}

void forEachUsedQueue(
    DeviceIndex device,
    function_ref<void(sycl::queue&)> visit) {
  auto& streams = streamsOf(device);
  if (auto* stream = streams.default_stream.load(std::memory_order_acquire)) {
    visit(stream->queue);
  }
  for (const auto slot : c10::irange(kNumPriorities)) {
    Pool* pool = findPool(device, slot);
    uint32_t used = pool ? pool->used.load(std::memory_order_relaxed) : 0;
    for (size_t index = 0; used != 0; used >>= 1, ++index) {
      if (used & 1) {
        visit(pool->streams[index].queue);
      }
    }
  }
}

void addExternalQueue(DeviceIndex device, const sycl::queue& queue) {
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.by_id.begin(); it != all.by_id.end();) {
    it = it->second.queue.try_lock() ? std::next(it) : all.by_id.erase(it);
  }
  all.by_id[externalId(queue)] = {device, queue, std::make_shared<Marker>()};
  gNumExternal.store(all.by_id.size(), std::memory_order_relaxed);
}

bool isExternalQueue(DeviceIndex device, StreamId id) {
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_id.find(id);
  return found != all.by_id.end() && found->second.device == device &&
      found->second.queue.try_lock().has_value();
}

std::vector<sycl::queue> externalQueues(DeviceIndex device) {
  std::vector<sycl::queue> queues;
  if (gNumExternal.load(std::memory_order_relaxed) == 0) {
    return queues;
  }
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& entry : all.by_id) {
    if (entry.second.device == device) {
      if (auto queue = entry.second.queue.try_lock()) {
        queues.push_back(std::move(*queue));
      }
    }
  }
  return queues;
}

} // namespace impl
} // namespace xpu
} // namespace c10
