#include <c10/xpu/XPUStream.h>

#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>
#include <c10/xpu/impl/XPUInternal.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <c10/xpu/impl/XPUStreamPool.h>
#include <c10/xpu/impl/XPUTrace.h>

#include <sycl/ext/oneapi/weak_object.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <iterator>
#include <memory>
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

/// A queue, and what is known of its work. See Note [Work of a stream]
struct Work {
  Work(sycl::queue* of, bool external) : queue(of), handed_out(external) {}

  sycl::queue* const queue;
  std::atomic<bool> handed_out; // always of an external queue
  std::atomic<bool> native{false}; // and the native stream with it
  std::atomic<uint64_t> launched{0}; // counted before it is submitted
  std::atomic<uint64_t> needed{0}; // `launched` when it was no mere marker
  std::atomic<uint64_t> done{0}; // of `launched`, and their errors delivered
  std::mutex mutex; // while work is submitted, and over `last`
  optional<sycl::event> last; // complete when all before it is
};

/// The streams of a device: the default stream, then the pools. A queue is null
/// until it is made.
struct DeviceStreams {
  std::array<std::atomic<Work*>, kNumQueues> queues{};
  std::mutex mutex; // while a queue is made
  std::array<std::atomic<uint32_t>, kPriorities.size()> next{};
};

// Without a constructor or destructor that runs; the queues are leaked, see
// Note [XPU streams].
std::array<DeviceStreams, C10_COMPILE_TIME_MAX_XPUS> gStreams;

struct ExternalQueue {
  sycl::ext::oneapi::weak_object<sycl::queue> queue;
  std::shared_ptr<Work> work;
};

std::mutex gExternalMutex; // over the map, which is never destroyed
auto& gExternal = *new std::unordered_map<XPUStream, ExternalQueue>;
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
inline std::atomic<Work*>* findPlace(DeviceIndex device, StreamId id) {
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

C10_NOINLINE Work* makeQueueOnce(DeviceIndex device, StreamId id) {
  auto& place = *findPlace(device, id);
  std::unique_lock<std::mutex> lock(gStreams[device].mutex);
  Work* made = place.load(std::memory_order_relaxed);
  if (made) {
    return made; // another thread came first
  }
  made = new Work(new sycl::queue(makeQueue(device, id)), /*external=*/false);
  place.store(made, std::memory_order_release);
  lock.unlock(); // the hooks may ask for streams
  impl::trace(
      &impl::TraceHooks::trace_gpu_stream_creation,
      reinterpret_cast<uintptr_t>(made->queue));
  return made;
}

/// The queue of a stream, made if need be; null for an external stream.
inline Work* ownWork(DeviceIndex device, StreamId id) {
  auto* place = findPlace(device, id);
  if (C10_UNLIKELY(!place)) {
    return nullptr;
  }
  Work* own = place->load(std::memory_order_acquire);
  return C10_LIKELY(own != nullptr) ? own : makeQueueOnce(device, id);
}

std::shared_ptr<Work> externalWork(StreamId id) {
  return std::make_shared<Work>(&externalQueue(id), /*external=*/true);
}

/// The external queues of a device that still exist.
std::vector<std::pair<sycl::queue, std::shared_ptr<Work>>> externalQueues(
    DeviceIndex device) {
  std::vector<std::pair<sycl::queue, std::shared_ptr<Work>>> queues;
  if (gAnyExternal.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> lock(gExternalMutex);
    for (const auto& [stream, external] : gExternal) {
      auto queue = external.queue.try_lock();
      if (queue && stream.device_index() == device) {
        queues.emplace_back(std::move(*queue), external.work);
      }
    }
  }
  return queues;
}

/// Null where the queue of the stream has not been made.
std::shared_ptr<Work> usedWork(DeviceIndex device, StreamId id) {
  if (auto* place = findPlace(device, id)) {
    // an own queue is never destroyed, so that this counts no reference
    return {std::shared_ptr<Work>(), place->load(std::memory_order_acquire)};
  }
  std::lock_guard<std::mutex> lock(gExternalMutex);
  const auto found = gExternal.find(streamOf(device, id));
  return found != gExternal.end() ? found->second.work : externalWork(id);
}

/// Whether the first `wanted` of what was launched is complete, and where the
/// queue was handed out, all of its work; then its errors are delivered. False,
/// too, while another thread submits or asks.
bool isComplete(sycl::queue& queue, Work& work, uint64_t wanted) {
  const bool handed_out = work.handed_out.load(std::memory_order_acquire);
  if (C10_LIKELY(
          !handed_out && wanted <= work.done.load(std::memory_order_acquire))) {
    return true;
  }
  std::unique_lock<std::mutex> lock(work.mutex, std::try_to_lock);
  if (!lock || (work.last && !impl::isComplete(*work.last))) {
    return false;
  }
  if (handed_out || !work.last) {
    if (const auto idle = impl::isIdle(queue, work.native)) {
      if (!*idle) {
        return false;
      }
    } else {
      work.last = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
      if (!impl::isComplete(*work.last)) {
        return false;
      }
    }
  }
  work.last.reset();
  const auto launched = work.launched.load(std::memory_order_relaxed);
  lock.unlock(); // an external queue's handler may use the stream
  impl::deliverErrors(queue);
  work.done.store(launched, std::memory_order_release);
  return true;
}

/// Waits until isComplete.
void waitFor(sycl::queue& queue, Work& work, uint64_t wanted) {
  if (isComplete(queue, work, wanted)) {
    return;
  }
  std::unique_lock<std::mutex> lock(work.mutex);
  const auto launched = work.launched.load(std::memory_order_relaxed);
  lock.unlock();
  if (C10_UNLIKELY(work.native)) { // wait() does not know of all
    C10_XPU_CHECK(queue.ext_oneapi_submit_barrier().wait());
  }
  // After a barrier as well: OpenCL's queue may be busy for a moment longer.
  C10_XPU_CHECK(queue.wait());
  impl::deliverErrors(queue);
  work.done.store(launched, std::memory_order_release);
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
  const auto work = usedWork(device, id);
  return work ? work->queue : nullptr;
}

bool hasNativeWork(DeviceIndex device, StreamId id) {
  const auto work = usedWork(device, id);
  return work && work->native;
}

sycl::queue& queueOf(const XPUStream& stream) {
  Work* own = ownWork(stream.device_index(), stream.id());
  return C10_LIKELY(own != nullptr) ? *own->queue : externalQueue(stream.id());
}

void waitFor(const XPUStream& stream) {
  if (const auto work = usedWork(stream.device_index(), stream.id())) {
    xpu::waitFor(
        *work->queue, *work, work->needed.load(std::memory_order_acquire));
  }
  raiseErrorsOf(stream.device_index(), stream.id());
}

std::atomic<void (*)(DeviceIndex)> raise_kernel_errors{nullptr};

static void raiseKernelErrors(DeviceIndex device) {
  if (auto* const raise = raise_kernel_errors.load(std::memory_order_acquire)) {
    raise(device);
  }
}

void raiseErrorsOf(DeviceIndex device, StreamId id) {
  raiseAsyncErrors(device, id);
  if (C10_UNLIKELY(isExternalStream(id))) {
    raiseAsyncErrors(kUnknownDevice);
  }
  raiseKernelErrors(device);
}

static bool isRecording(const sycl::queue& queue) {
  return C10_XPU_CHECK(queue.ext_oneapi_get_state()) ==
      sycl::ext::oneapi::experimental::queue_state::recording;
}

sycl::event launch(
    const XPUStream& stream,
    c10::function_ref<sycl::event(sycl::queue&)> submit,
    Submitted what) {
  Work* own = ownWork(stream.device_index(), stream.id());
  sycl::queue& queue = own ? *own->queue : externalQueue(stream.id());
  std::unique_lock<std::mutex> lock;
  if (own && !own->handed_out.load(std::memory_order_acquire)) {
    lock = std::unique_lock<std::mutex>(own->mutex);
    own->last.reset(); // there is none if `submit` raises
    // Before it is submitted, since the work itself may let others ask.
    const auto launched = ++own->launched;
    if (what != Submitted::Marker) {
      own->needed.store(launched, std::memory_order_release);
    }
  }
  auto event = submit(queue);
  if (lock) {
    if (what != Submitted::WaitForEvent &&
        C10_LIKELY(!isRecording(queue))) { // that event is never complete
      own->last = event;
    }
    lock.unlock();
  }
  waitIfBlocking(stream, event);
  return event;
}

bool isRecording(const XPUStream& stream) {
  const auto* queue = findUsedQueue(stream.device_index(), stream.id());
  return queue && isRecording(*queue);
}

StreamId exchangeThreadStream(DeviceIndex device, StreamId id) noexcept {
  return std::exchange(threadStream(device), id);
}

} // namespace impl

sycl::queue& XPUStream::queue() const {
  Work* own = ownWork(device_index(), id());
  if (C10_UNLIKELY(!own)) {
    return externalQueue(id());
  }
  own->handed_out.store(true, std::memory_order_release);
  return *own->queue;
}

void* XPUStream::native_stream() const {
  void* const native = impl::nativeStream(queue()); // which makes the queue
  usedWork(device_index(), id())->native = true;
  return native;
}

bool XPUStream::query() const {
  const auto work = usedWork(device_index(), id());
  if (work && !isComplete(*work->queue, *work, work->launched)) {
    return false;
  }
  impl::raiseErrorsOf(device_index(), id());
  return true;
}

void XPUStream::synchronize() const {
  const auto work = usedWork(device_index(), id());
  impl::trace(
      &impl::TraceHooks::trace_gpu_stream_synchronization,
      reinterpret_cast<uintptr_t>(work ? work->queue : nullptr));
  warn_or_error_on_sync();
  if (work) {
    waitFor(*work->queue, *work, work->launched);
  }
  impl::raiseErrorsOf(device_index(), id());
}

int XPUStream::priority() const {
  const int place = placeOf(id());
  if (place >= 0) {
    return priorityAt(place);
  }
  namespace ext = sycl::ext::oneapi::property::queue;
  const auto& external = queue(); // raises if no stream has the id
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
    std::lock_guard<std::mutex> lock(gExternalMutex);
    const auto found = gExternal.find(stream);
    TORCH_CHECK(
        found != gExternal.end() && found->second.queue.try_lock(),
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
  std::lock_guard<std::mutex> lock(gExternalMutex);
  auto work = externalWork(id);
  // Of all queues that were at an address, only the latest is a stream.
  for (auto it = gExternal.begin(); it != gExternal.end();) {
    const auto known = it->second.queue.try_lock();
    work = known == *queue ? it->second.work : work; // as it is known already
    const bool stays = it->first.id() != id && known;
    it = stays ? std::next(it) : gExternal.erase(it);
  }
  gExternal.emplace(stream, ExternalQueue{*queue, std::move(work)});
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
  const auto wait = [&error](sycl::queue& queue, Work& work) {
    try {
      waitFor(queue, work, work.launched);
    } catch (...) {
      error = error ? error : std::current_exception();
    }
  };
  for (auto& place : gStreams[device].queues) {
    if (auto* own = place.load(std::memory_order_acquire)) {
      wait(*own->queue, *own);
    }
  }
  for (auto& [queue, work] : externalQueues(device)) {
    wait(queue, *work);
  }
  if (C10_UNLIKELY(error != nullptr)) {
    std::rethrow_exception(error);
  }
  impl::raiseAsyncErrors(device);
  impl::raiseKernelErrors(device);
}

} // namespace c10::xpu
