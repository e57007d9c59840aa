#include <ATen/xpu/detail/EventTiming.h>

#include <c10/util/Optional.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPUBarrier.h>

#include <sycl/ext/oneapi/experimental/profiling_tag.hpp>
#include <sycl/properties/queue_properties.hpp>

#include <mutex>
#include <unordered_map>

namespace at {
namespace xpu {
namespace detail {

// See Note [Timing of events]
namespace {

struct Companions {
  std::mutex mutex;
  // Nothing for a stream that does not need one. References stay valid when
  // others are added. An external stream is known by the address of its queue;
  // where another queue follows at that address, it gets the same companion,
  // which does it no harm.
  std::unordered_map<c10::xpu::XPUStream, c10::optional<sycl::queue>> queues;
};

c10::optional<sycl::queue> makeCompanion(c10::DeviceIndex index) {
  const auto& device = c10::xpu::get_raw_device(index);
  if (C10_XPU_CHECK(device.has(sycl::aspect::ext_oneapi_queue_profiling_tag))) {
    return c10::nullopt;
  }
  const sycl::property_list properties{
      sycl::property::queue::in_order(),
      sycl::property::queue::enable_profiling()};
  return C10_XPU_CHECK(
      sycl::queue(
          c10::xpu::get_device_context(),
          device,
          c10::xpu::asyncHandler,
          properties));
}

/// The companion of a stream, or null where the device has profiling tags.
sycl::queue* companionOf(const c10::xpu::XPUStream& stream) {
  // Never destroyed, like the streams' own queues.
  static auto* companions = new Companions;
  std::lock_guard<std::mutex> lock(companions->mutex);
  auto found = companions->queues.find(stream);
  if (found == companions->queues.end()) {
    found =
        companions->queues.emplace(stream, makeCompanion(stream.device_index()))
            .first;
  }
  return found->second ? &*found->second : nullptr;
}

} // namespace

TimedEvent submitTimedEvent(const c10::xpu::XPUStream& stream) {
  sycl::queue& queue = stream.queue();
  if (queue.has_property<sycl::property::queue::enable_profiling>()) {
    auto event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
    return {event, event};
  }
  sycl::queue* companion = companionOf(stream);
  if (!companion) {
    auto event = C10_XPU_CHECK(
        sycl::ext::oneapi::experimental::submit_profiling_tag(queue));
    return {event, event};
  }
  auto event = C10_XPU_CHECK(queue.ext_oneapi_submit_barrier());
  auto time = c10::xpu::impl::submitBarrierAfter(*companion, event);
  return {std::move(event), std::move(time)};
}

} // namespace detail
} // namespace xpu
} // namespace at
