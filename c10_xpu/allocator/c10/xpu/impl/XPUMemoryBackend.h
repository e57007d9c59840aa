#pragma once

#include <c10/xpu/impl/XPUBlock.h>

#include <sycl/event.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace c10::xpu::impl {

/// What the caching allocator asks of the SYCL runtime, see Arena. Errors are
/// c10::Error.
struct MemoryBackend {
  using Event = sycl::event;

  void* allocate(int device, size_t size);
  void deallocate(int device, void* ptr);
  /// Whether the queue of the stream exists until the process ends.
  bool lasting(const StreamTag& stream);
  /// See Note [What the host has seen complete]
  uint64_t progress();
  std::optional<Event> fence(const StreamTag& stream, bool ask);
  bool complete(const Event& event);
  void wait(const Event& event);
  size_t totalMemory(int device);
  size_t freeMemory(int device);
};

} // namespace c10::xpu::impl
