#include <c10/xpu/XPUStream.h>

#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUInternal.h>
#include <c10/xpu/impl/XPUStreamPool.h>
#include <c10/xpu/impl/XPUTrace.h>

#include <sycl/ext/oneapi/weak_object.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10::xpu {
namespace {

constexpr int kStreamsPerPool = 32;
constexpr std::array<int, 3> kPriorities{0, -1, 1}; // by the number in an id

// Trivially destructible, so that it can be used to the very end of a thread.
using ThreadStreams = std::array<StreamId, C10_COMPILE_TIME_MAX_XPUS>;
thread_local ThreadStreams thread_streams{};
// The same array, reached by one instruction. initial-exec takes its space from
// a small block that all libraries share, so only the pointer does.
thread_local StreamId* thread_streams_ptr
    __attribute__((tls_model("initial-exec"))) = nullptr;

inline StreamId& threadStream(DeviceIndex device) {
  if (C10_UNLIKELY(!thread_streams_ptr)) {
    thread_streams_ptr = thread_streams.data();
  }
  return thread_streams_ptr[device];
}

/// `device` after a check; for -1 the current device.
inline DeviceIndex deviceOrCurrent(DeviceIndex device) {
  if (C10_LIKELY(device == -1 && impl::known_count > 0)) {
    return impl::thread_device; // checked when it was set
  }
  device = device == -1 ? impl::thread_device : device;
  impl::checkIndex(device);
  return device;
}

XPUStream streamOf(DeviceIndex device, StreamId id) {
  return XPUStream(
      XPUStream::UNCHECKED, Stream(Stream::UNSAFE, Device(kXPU, device), id));
}

constexpr size_t kNumQueues = 1 + kPriorities.size() * kStreamsPerPool;

/// The streams of a device: the default stream, then the pools. A queue is null
/// until it is made.
struct DeviceStreams {
  std::array<std::atomic<sycl::queue*>, kNumQueues> queues{};
  std::mutex mutex; // while a queue is made
  std::array<std::atomic<uint32_t>, kPriorities.size()> next{};
};

// Without a constructor or destructor that runs; the queues are leaked, see
// Note [XPU streams].
std::array<DeviceStreams, C10_COMPILE_TIME_MAX_XPUS> gStreams;

using WeakQueue = sycl::ext::oneapi::weak_object<sycl::queue>;

std::mutex gMutex; // over the two maps, which are never destroyed
auto& gExternal = *new std::unordered_map<XPUStream, WeakQueue>;
// See Note [Asking whether a queue is idle]
auto& gMarkers = *new std::unordered_map<XPUStream, sycl::event>;
std::atomic<bool> gAnyExternal{false};

sycl::queue& externalQueue(StreamId id) {
  return *reinterpret_cast<sycl::queue*>(static_cast<intptr_t>(id));
}

constexpr int kExternal = -1;
constexpr int kNoStream = -2;

/// The index of a stream's queue in DeviceStreams::queues, or one of the two
/// above. See Note [Stream id assignment]
inline int placeOf(StreamId id) {
  if (id & 1) {
    const auto slot = static_cast<size_t>(id >> 1) & 7;
    const auto index = static_cast<size_t>(id) >> 4;
    return slot < kPriorities.size() && index < kStreamsPerPool
        ? static_cast<int>(1 + slot * kStreamsPerPool + index)
        : kNoStream;
  }
  return id == 0                                 ? 0
      : id > 0 && id % alignof(sycl::queue) == 0 ? kExternal
                                                 : kNoStream;
}

int priorityAt(int place) {
  return place == 0 ? 0 : kPriorities[(place - 1) / kStreamsPerPool];
}

[[noreturn]] C10_NOINLINE void raiseNoStream(StreamId id) {
  TORCH_CHECK(
      false,
      c10::str("There is no XPU stream with the id ", id, ". Ids come from "),
      "getStreamFromPool, getStreamFromExternal or getCurrentXPUStream");
}

/// Where the queue of a stream is kept; null for an external stream.
inline std::atomic<sycl::queue*>* findPlace(DeviceIndex device, StreamId id) {
  impl::checkIndex(device);
  const int place = placeOf(id);
  if (C10_UNLIKELY(place == kNoStream)) {
    raiseNoStream(id);
  }
  return place == kExternal ? nullptr : &gStreams[device].queues[place];
}

sycl::queue makeQueue(DeviceIndex device, StreamId id) {
  namespace ext = sycl::ext::oneapi::property::queue;
  const int priority = priorityAt(placeOf(id));
  const sycl::property::queue::in_order in_order;
  const auto properties = priority < 0
      ? sycl::property_list{in_order, ext::priority_high()}
      : priority > 0 ? sycl::property_list{in_order, ext::priority_low()}
                     : sycl::property_list{in_order, ext::priority_normal()};
  const auto on_error = [device, id](const sycl::exception_list& errors) {
    impl::keepAsyncErrors(errors, streamOf(device, id));
  };
  return C10_XPU_CHECK(
      sycl::queue(
          get_device_context(), get_raw_device(device), on_error, properties));
}

C10_NOINLINE sycl::queue* makeQueueOnce(DeviceIndex device, StreamId id) {
  auto& place = *findPlace(device, id);
  std::unique_lock<std::mutex> lock(gStreams[device].mutex);
  sycl::queue* made = place.load(std::memory_order_relaxed);
  if (made) {
    return made; // another thread came first
  }
  made = new sycl::queue(makeQueue(device, id));
  place.store(made, std::memory_order_release);
  lock.unlock(); // the hooks may ask for streams
  impl::trace(
      &impl::TraceHooks::trace_gpu_stream_creation,
      reinterpret_cast<uintptr_t>(made));
  return made;
}

/// The queue of a stream; null where it has not been made.
inline sycl::queue* usedQueue(DeviceIndex device, StreamId id) {
  auto* place = findPlace(device, id);
  return place ? place->load(std::memory_order_acquire) : &externalQueue(id);
}

/// Copies of the external queues of a device that still exist.
std::vector<sycl::queue> externalQueues(DeviceIndex device) {
  std::vector<sycl::queue> queues;
  if (gAnyExternal.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> lock(gMutex);
    for (const auto& [stream, weak] : gExternal) {
      auto queue = weak.try_lock();
      if (queue && stream.device_index() == device) {
        queues.push_back(std::move(*queue));
      }
    }
  }
  return queues;
}

/// Waits for the work of a queue and has its errors delivered. `one_of_many`:
/// other queues are waited for before and after, where OpenCL's wait() for an
/// idle queue takes longer than a marker.
void waitFor(sycl::queue& queue, bool one_of_many) {
  const bool ask = one_of_many && !impl::canAskEmpty(queue);
  if (!ask ||
      !impl::isComplete(C10_XPU_CHECK(queue.ext_oneapi_submit_barrier()))) {
    C10_XPU_CHECK(queue.wait());
  }
  C10_XPU_CHECK(queue.throw_asynchronous());
}

XPUStream nextFromPool(DeviceIndex device, size_t slot) {
  device = deviceOrCurrent(device);
  // The number of streams divides 2^32, so that wrapping around is harmless.
  const StreamId n =
      gStreams[device].next[slot].fetch_add(1, std::memory_order_relaxed) %
      kStreamsPerPool;
  return streamOf(device, (n << 4) | static_cast<StreamId>(slot << 1) | 1);
}

} // namespace

namespace impl {

bool isExternalStream(StreamId id) {
  return placeOf(id) == kExternal;
}

sycl::queue* findUsedQueue(DeviceIndex device, StreamId id) {
  return usedQueue(device, id);
}

bool isRecording(const XPUStream& stream) {
  using sycl::ext::oneapi::experimental::queue_state;
  const auto* queue = usedQueue(stream.device_index(), stream.id());
  return queue &&
      C10_XPU_CHECK(queue->ext_oneapi_get_state()) == queue_state::recording;
}

StreamId exchangeThreadStream(DeviceIndex device, StreamId id) noexcept {
  return std::exchange(threadStream(device), id);
}

} // namespace impl

sycl::queue& XPUStream::queue() const {
  sycl::queue* queue = usedQueue(device_index(), id());
  if (C10_UNLIKELY(!queue)) {
    queue = makeQueueOnce(device_index(), id());
  }
  return *queue;
}

bool XPUStream::query() const {
  sycl::queue* queue = usedQueue(device_index(), id());
  if (!queue || impl::canAskEmpty(*queue)) {
    return !queue || C10_XPU_CHECK(queue->ext_oneapi_empty());
  }
  std::unique_lock<std::mutex> lock(gMutex);
  const auto pending = gMarkers.find(*this);
  if (pending != gMarkers.end() && !impl::isComplete(pending->second)) {
    return false;
  }
  gMarkers.erase(*this);
  lock.unlock();
  const auto marker = C10_XPU_CHECK(queue->ext_oneapi_submit_barrier());
  if (impl::isComplete(marker)) {
    return true;
  }
  lock.lock();
  gMarkers.insert_or_assign(*this, marker);
  return false;
}

void XPUStream::synchronize() const {
  sycl::queue* queue = usedQueue(device_index(), id());
  impl::trace(
      &impl::TraceHooks::trace_gpu_stream_synchronization,
      reinterpret_cast<uintptr_t>(queue));
  warn_or_error_on_sync();
  if (queue) {
    waitFor(*queue, /*one_of_many=*/false);
  }
  impl::raiseAsyncErrors(device_index(), id());
  if (C10_UNLIKELY(impl::isExternalStream(id()))) {
    impl::raiseAsyncErrors(impl::kUnknownDevice);
  }
}

int XPUStream::priority() const {
  const int place = placeOf(id());
  if (place >= 0) {
    return priorityAt(place);
  }
  namespace ext = sycl::ext::oneapi::property::queue;
  const auto& external = queue(); // raises for an id that is no stream's
  return external.has_property<ext::priority_high>() ? -1
      : external.has_property<ext::priority_low>()   ? 1
                                                     : 0;
}

std::ostream& operator<<(std::ostream& stream, const XPUStream& s) {
  return stream << s.unwrap();
}

XPUStream XPUStream::unpack3(
    StreamId stream_id,
    DeviceIndex device_index,
    DeviceType device_type) {
  TORCH_CHECK(
      device_type == kXPU,
      c10::str("An XPUStream was given the device type ", device_type),
      ": it must be xpu");
  const XPUStream stream = streamOf(device_index, stream_id);
  if (!findPlace(device_index, stream_id)) {
    std::lock_guard<std::mutex> lock(gMutex);
    const auto found = gExternal.find(stream);
    TORCH_CHECK(
        found != gExternal.end() && found->second.try_lock(),
        c10::str("The stream id ", stream_id, " names an external queue, but "),
        c10::str("on device xpu:", int(device_index), " there is none at "),
        "this address: it was not given to getStreamFromExternal, or is gone");
  }
  return stream;
}

XPUStream getStreamFromPool(const bool isHighPriority, DeviceIndex device) {
  return nextFromPool(device, isHighPriority ? 1 : 0);
}

XPUStream getStreamFromPool(const int priority, DeviceIndex device) {
  TORCH_CHECK(
      priority <= 1,
      c10::str("The stream priority ", priority, " is out of range: it must "),
      "be from -1 (high) to 1 (low)");
  return nextFromPool(device, priority == 0 ? 0 : priority < 0 ? 1 : 2);
}

XPUStream getStreamFromExternal(sycl::queue* queue, DeviceIndex device) {
  TORCH_CHECK(queue, "getStreamFromExternal was given a null queue");
  device = deviceOrCurrent(device);
  TORCH_CHECK(
      C10_XPU_CHECK(queue->is_in_order()),
      "The external queue is out of order, but a stream runs its work in the "
      "order of submission: make it with sycl::property::queue::in_order");
  TORCH_CHECK(
      C10_XPU_CHECK(queue->get_context()) == get_device_context(),
      "The external queue is on a context of its own, where neither the memory "
      "nor the events of other streams can be used: make it on "
      "c10::xpu::get_device_context()");
  TORCH_CHECK(
      C10_XPU_CHECK(queue->get_device()) == get_raw_device(device),
      c10::str("The external queue is not on xpu:", int(device), ". Give the "),
      "ordinal of its device, or make it on c10::xpu::get_raw_device(ordinal)");
  const auto id = static_cast<StreamId>(reinterpret_cast<intptr_t>(queue));
  const XPUStream stream = streamOf(device, id);
  std::lock_guard<std::mutex> lock(gMutex);
  // Of all queues that were at an address, only the latest is a stream.
  for (auto it = gExternal.begin(); it != gExternal.end();) {
    if (it->first.id() != id && it->second.try_lock()) {
      ++it;
    } else {
      gMarkers.erase(it->first);
      it = gExternal.erase(it);
    }
  }
  gExternal.emplace(stream, *queue);
  gAnyExternal = true;
  return stream;
}

XPUStream getDefaultXPUStream(DeviceIndex device) {
  return streamOf(deviceOrCurrent(device), 0);
}

XPUStream getCurrentXPUStream(DeviceIndex device) {
  device = deviceOrCurrent(device);
  return streamOf(device, threadStream(device));
}

void setCurrentXPUStream(XPUStream stream) {
  impl::checkIndex(stream.device_index());
  threadStream(stream.device_index()) = stream.id();
}

void syncStreamsOnDevice(DeviceIndex device) {
  device = deviceOrCurrent(device);
  impl::trace(&impl::TraceHooks::trace_gpu_device_synchronization);
  warn_or_error_on_sync();
  // An error of one queue must not keep the others from being waited for.
  std::exception_ptr error;
  const auto wait = [&error](sycl::queue& queue) {
    try {
      waitFor(queue, /*one_of_many=*/true);
    } catch (...) {
      error = error ? error : std::current_exception();
    }
  };
  for (auto& place : gStreams[device].queues) {
    if (auto* queue = place.load(std::memory_order_acquire)) {
      wait(*queue);
    }
  }
  for (auto& queue : externalQueues(device)) {
    wait(queue);
  }
  if (C10_UNLIKELY(error != nullptr)) {
    std::rethrow_exception(error);
  }
  impl::raiseAsyncErrors(device);
}

} // namespace c10::xpu
