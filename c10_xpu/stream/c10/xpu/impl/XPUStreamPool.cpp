#include <c10/xpu/impl/XPUStreamPool.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/Exception.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <sycl/ext/oneapi/weak_object.hpp>
#include <sycl/properties/queue_properties.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace c10::xpu::impl {
namespace {

// See Note [Stream id assignment]
constexpr int kPriorityShift = 1;
constexpr int kIndexShift = 4;
constexpr std::array<int, kNumPriorities> kPriorityOfSlot = {0, -1, 1};

int slotOf(int priority) {
  return priority == 0 ? 0 : priority < 0 ? 1 : 2;
}

struct StreamQueue {
  explicit StreamQueue(sycl::queue q) : queue(std::move(q)) {}

  sycl::queue queue;
  std::mutex marker_mutex;
  optional<sycl::event> marker; // see Note [Asking whether a queue is idle]
};

/// The streams of a device: the default stream, then the pools. Null where the
/// queue has not been made.
struct DeviceStreams {
  std::array<std::atomic<StreamQueue*>, 1 + kNumPriorities * kStreamsPerPool>
      queues{};
  std::mutex mutex; // while a queue is made
  std::array<std::atomic<uint32_t>, kNumPriorities> next{};
};

// Without a constructor or destructor that runs; the queues are leaked, see
// Note [XPU streams].
std::array<DeviceStreams, C10_COMPILE_TIME_MAX_XPUS> gStreams;

DeviceStreams& streamsOf(DeviceIndex device) {
  return gStreams[static_cast<size_t>(device)];
}

struct ExternalQueue {
  DeviceIndex device = 0;
  sycl::ext::oneapi::weak_object<sycl::queue> queue;
  optional<sycl::event> marker; // see Note [Asking whether a queue is idle]
};

struct ExternalQueues {
  std::mutex mutex;
  std::unordered_map<StreamId, ExternalQueue> by_id;
  std::atomic<size_t> size{0};
};

ExternalQueues& externals() {
  static auto* queues = new ExternalQueues;
  return *queues;
}

sycl::queue& externalQueue(StreamId id) {
  return *reinterpret_cast<sycl::queue*>(static_cast<intptr_t>(id));
}

sycl::queue makeQueue(DeviceIndex device, int priority, StreamId id) {
  namespace ext = sycl::ext::oneapi::property::queue;
  const sycl::property::queue::in_order in_order;
  const auto properties = priority < 0
      ? sycl::property_list{in_order, ext::priority_high()}
      : priority > 0 ? sycl::property_list{in_order, ext::priority_low()}
                     : sycl::property_list{in_order, ext::priority_normal()};
  const auto on_error = [device, id](const sycl::exception_list& errors) {
    keepAsyncErrors(errors, device, id);
  };
  return C10_XPU_CHECK(
      sycl::queue(
          get_device_context(), get_raw_device(device), on_error, properties));
}

/// Where a default or pool stream is kept; null for an external stream. Raises
/// for a number that is not a stream's.
std::atomic<StreamQueue*>* placeOf(DeviceIndex device, StreamId id) {
  check_device_index(device);
  auto& queues = streamsOf(device).queues;
  if (id == 0) {
    return queues.data();
  }
  const auto parts = decodeStreamId(id);
  TORCH_CHECK(
      parts,
      c10::str("There is no XPU stream with the id ", id, " on device xpu:"),
      c10::str(int(device), ". Stream ids are not made by hand: use "),
      "getStreamFromPool, getStreamFromExternal or getCurrentXPUStream");
  if (parts->kind == StreamKind::External) {
    return nullptr;
  }
  const int place =
      1 + slotOf(parts->priority) * kStreamsPerPool + parts->index;
  return &queues[static_cast<size_t>(place)];
}

C10_NOINLINE StreamQueue* makeStream(
    DeviceIndex device,
    StreamId id,
    std::atomic<StreamQueue*>& place) {
  StreamQueue* made = nullptr;
  {
    std::lock_guard<std::mutex> lock(streamsOf(device).mutex);
    made = place.load(std::memory_order_relaxed);
    if (made) {
      return made; // another thread came first
    }
    const int priority = decodeStreamId(id)->priority;
    made = std::make_unique<StreamQueue>(makeQueue(device, priority, id))
               .release();
    place.store(made, std::memory_order_release);
  }
  // Outside of the lock, since the hooks may ask for streams.
  const c10::impl::PyInterpreter* interp = c10::impl::GPUTrace::get_trace();
  if (C10_UNLIKELY(interp)) {
    (*interp)->trace_gpu_stream_creation(
        reinterpret_cast<uintptr_t>(&made->queue));
  }
  return made;
}

} // namespace

optional<StreamIdParts> decodeStreamId(StreamId id) {
  if (id == 0) {
    return StreamIdParts{StreamKind::Default, 0, 0};
  }
  if ((id & 1) == 0) {
    const bool aligned = (id & StreamId(alignof(sycl::queue) - 1)) == 0;
    return id > 0 && aligned
        ? make_optional(StreamIdParts{StreamKind::External, 0, 0})
        : nullopt;
  }
  const auto slot = (id >> kPriorityShift) & 7;
  const auto index = id >> kIndexShift;
  if (slot >= kNumPriorities || index < 0 || index >= kStreamsPerPool) {
    return nullopt;
  }
  return StreamIdParts{
      StreamKind::Pool, kPriorityOfSlot[slot], static_cast<int>(index)};
}

StreamId poolStreamId(int priority, int index) {
  return (static_cast<StreamId>(index) << kIndexShift) |
      (static_cast<StreamId>(slotOf(priority)) << kPriorityShift) | 1;
}

bool isExternalStream(StreamId id) {
  const auto parts = decodeStreamId(id);
  return parts && parts->kind == StreamKind::External;
}

sycl::queue& useQueue(DeviceIndex device, StreamId id) {
  auto* place = placeOf(device, id);
  if (C10_UNLIKELY(!place)) {
    return externalQueue(id);
  }
  StreamQueue* stream = place->load(std::memory_order_acquire);
  return C10_LIKELY(stream != nullptr) ? stream->queue
                                       : makeStream(device, id, *place)->queue;
}

sycl::queue* findUsedQueue(DeviceIndex device, StreamId id) {
  auto* place = placeOf(device, id);
  if (!place) {
    return &externalQueue(id);
  }
  StreamQueue* stream = place->load(std::memory_order_acquire);
  return stream ? &stream->queue : nullptr;
}

bool isIdle(DeviceIndex device, StreamId id) {
  if (auto* place = placeOf(device, id)) {
    StreamQueue* stream = place->load(std::memory_order_acquire);
    if (!stream) {
      return true;
    }
    if (canAskEmpty(stream->queue)) {
      return C10_XPU_CHECK(stream->queue.ext_oneapi_empty());
    }
    std::lock_guard<std::mutex> lock(stream->marker_mutex);
    return isIdle(stream->queue, stream->marker);
  }
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_id.find(id);
  optional<sycl::event> unregistered;
  return isIdle(
      externalQueue(id),
      found == all.by_id.end() ? unregistered : found->second.marker);
}

StreamId nextPoolStream(DeviceIndex device, int priority) {
  // The number of streams divides 2^32, so that wrapping around is harmless.
  auto& next = streamsOf(device).next[static_cast<size_t>(slotOf(priority))];
  const uint32_t n = next.fetch_add(1, std::memory_order_relaxed);
  return poolStreamId(priority, static_cast<int>(n % kStreamsPerPool));
}

void forEachUsedQueue(
    DeviceIndex device,
    function_ref<void(sycl::queue&)> visit) {
  for (auto& place : streamsOf(device).queues) {
    if (auto* stream = place.load(std::memory_order_acquire)) {
      visit(stream->queue);
    }
  }
  auto& all = externals();
  if (all.size.load(std::memory_order_relaxed) == 0) {
    return;
  }
  std::vector<sycl::queue> queues; // to visit them without the lock
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& entry : all.by_id) {
      auto queue = entry.second.queue.try_lock();
      if (queue && entry.second.device == device) {
        queues.push_back(std::move(*queue));
      }
    }
  }
  for (auto& queue : queues) {
    visit(queue);
  }
}

void addExternalQueue(DeviceIndex device, const sycl::queue& queue) {
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.by_id.begin(); it != all.by_id.end();) {
    it = it->second.queue.try_lock() ? std::next(it) : all.by_id.erase(it);
  }
  const auto id = static_cast<StreamId>(reinterpret_cast<intptr_t>(&queue));
  all.by_id[id] = {device, queue, nullopt};
  all.size.store(all.by_id.size(), std::memory_order_relaxed);
}

bool isExternalQueue(DeviceIndex device, StreamId id) {
  auto& all = externals();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_id.find(id);
  return found != all.by_id.end() && found->second.device == device &&
      found->second.queue.try_lock().has_value();
}

} // namespace c10::xpu::impl
