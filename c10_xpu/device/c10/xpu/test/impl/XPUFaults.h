#pragma once

#include <c10/util/Exception.h>

#include <sycl/context.hpp>
#include <sycl/device.hpp>
#include <sycl/event.hpp>
#include <sycl/exception.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <dlfcn.h>

#include <atomic>
#include <limits>
#include <string>
#include <vector>

// Errors of SYCL on demand. A test program of one source that includes this
// defines the functions of libsycl.so below. The loader finds the program's
// definitions first, for the calls of libc10_xpu.so too. Each passes its name
// to a hook, which may throw, and then calls the definition in libsycl.so.

namespace c10::xpu::test {

/// Called with the name of each function below before it is called.
using SYCLHook = void (*)(const char* call);
inline std::atomic<SYCLHook> sycl_hook{nullptr};

inline void onCall(const char* call) {
  if (SYCLHook hook = sycl_hook.load()) {
    hook(call);
  }
}

/// While set, SYCL has these devices, and all memory is of this one.
inline const std::vector<sycl::device>* seen_devices = nullptr;
inline const sycl::device* seen_owner = nullptr;

template <typename Function>
Function* nextDefinition(const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  TORCH_CHECK(found, symbol, " is not in this release of libsycl.so");
  return reinterpret_cast<Function*>(found);
}

[[noreturn]] inline void throwInjected() {
  throw sycl::exception(sycl::make_error_code(sycl::errc::runtime), "injected");
}

/// While it lives, calls whose name contains `call` fail as if SYCL had raised:
/// `times` of them, from the `from`-th on, counted from 0.
class Fault {
 public:
  explicit Fault(
      const char* call,
      int from = 0,
      int times = std::numeric_limits<int>::max()) {
    wanted = call;
    passing = from;
    failing = times;
    sycl_hook = [](const char* name) {
      if (std::string(name).find(wanted) != std::string::npos &&
          passing-- <= 0 && failing-- > 0) {
        throwInjected();
      }
    };
  }
  ~Fault() {
    sycl_hook = nullptr;
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
  Fault(Fault&&) = delete;
  Fault& operator=(Fault&&) = delete;

 private:
  static inline std::string wanted;
  static inline std::atomic<int> passing{0};
  static inline std::atomic<int> failing{0};
};

} // namespace c10::xpu::test

#define C10_XPU_FORWARD(symbol, name, type, ...)                          \
  c10::xpu::test::onCall("sycl::" name);                                  \
  static auto* const next = c10::xpu::test::nextDefinition<type>(symbol); \
  return next(__VA_ARGS__)

namespace sycl {
inline namespace _V1 {

using Location = detail::code_location;

std::vector<device> device::get_devices(info::device_type type) {
  if (c10::xpu::test::seen_devices) {
    return *c10::xpu::test::seen_devices;
  }
  C10_XPU_FORWARD(
      "_ZN4sycl3_V16device11get_devicesENS0_4info11device_typeE",
      "device::get_devices",
      std::vector<device>(info::device_type),
      type);
}

bool device::has(aspect a) const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V16device3hasENS0_6aspectE",
      "device::has",
      bool(const device*, aspect),
      this,
      a);
}

queue::queue(
    const context& c,
    const device& d,
    const async_handler& handler,
    const property_list& properties) {
  using c10::xpu::test::nextDefinition;
  using Constructor = void(
      queue*,
      const context&,
      const device&,
      const async_handler&,
      const property_list&);
  c10::xpu::test::onCall("sycl::queue::queue");
  // Constructs the members again, which are null pointers by now.
  nextDefinition<Constructor>(
      "_ZN4sycl3_V15queueC1ERKNS0_7contextERKNS0_6deviceERKSt8functionIFvNS0_"
      "14exception_listEEERKNS0_13property_listE")(
      this, c, d, handler, properties);
}

bool queue::is_in_order() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15queue11is_in_orderEv",
      "queue::is_in_order",
      bool(const queue*),
      this);
}

context queue::get_context() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15queue11get_contextEv",
      "queue::get_context",
      context(const queue*),
      this);
}

device queue::get_device() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15queue10get_deviceEv",
      "queue::get_device",
      device(const queue*),
      this);
}

void queue::wait_proxy(const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15queue10wait_proxyERKNS0_6detail13code_locationE",
      "queue::wait",
      void(queue*, const Location&),
      this,
      where);
}

void queue::throw_asynchronous() {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15queue18throw_asynchronousEv",
      "queue::throw_asynchronous",
      void(queue*),
      this);
}

bool queue::ext_oneapi_empty() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15queue16ext_oneapi_emptyEv",
      "queue::ext_oneapi_empty",
      bool(const queue*),
      this);
}

event queue::ext_oneapi_submit_barrier(const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15queue25ext_oneapi_submit_barrierERKNS0_6detail13code_"
      "locationE",
      "queue::ext_oneapi_submit_barrier",
      event(queue*, const Location&),
      this,
      where);
}

event queue::ext_oneapi_submit_barrier(
    const std::vector<event>& events,
    const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15queue25ext_oneapi_submit_barrierERKSt6vectorINS0_5eventESa"
      "IS3_EERKNS0_6detail13code_locationE",
      "queue::ext_oneapi_submit_barrier",
      event(queue*, const std::vector<event>&, const Location&),
      this,
      events,
      where);
}

void event::wait() {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15event4waitEv", "event::wait", void(event*), this);
}

void event::wait_and_throw() {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15event14wait_and_throwEv",
      "event::wait_and_throw",
      void(event*),
      this);
}

std::vector<event> event::get_wait_list() {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V15event13get_wait_listEv",
      "event::get_wait_list",
      std::vector<event>(event*),
      this);
}

template <>
info::event_command_status event::get_info<
    info::event::command_execution_status>() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15event8get_infoINS0_4info5event24command_execution_"
      "statusEEENS0_6detail18is_event_info_descIT_E11return_typeEv",
      "event::get_info",
      info::event_command_status(const event*),
      this);
}

template <>
uint64_t event::get_profiling_info<info::event_profiling::command_end>() const {
  C10_XPU_FORWARD(
      "_ZNK4sycl3_V15event18get_profiling_infoINS0_4info15event_profiling11"
      "command_endEEENS0_6detail28is_event_profiling_info_descIT_E11return_"
      "typeEv",
      "event::get_profiling_info",
      uint64_t(const event*),
      this);
}

void* malloc_device(
    size_t size,
    const device& d,
    const context& c,
    const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V113malloc_deviceEmRKNS0_6deviceERKNS0_7contextERKNS0_"
      "6detail13code_locationE",
      "malloc_device",
      void*(size_t, const device&, const context&, const Location&),
      size,
      d,
      c,
      where);
}

void* aligned_alloc_device(
    size_t alignment,
    size_t size,
    const device& d,
    const context& c,
    const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V120aligned_alloc_deviceEmmRKNS0_6deviceERKNS0_7contextERKNS0_"
      "6detail13code_locationE",
      "aligned_alloc_device",
      void*(size_t, size_t, const device&, const context&, const Location&),
      alignment,
      size,
      d,
      c,
      where);
}

void* aligned_alloc_host(
    size_t alignment,
    size_t size,
    const context& c,
    const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V118aligned_alloc_hostEmmRKNS0_7contextERKNS0_6detail13code_"
      "locationE",
      "aligned_alloc_host",
      void*(size_t, size_t, const context&, const Location&),
      alignment,
      size,
      c,
      where);
}

void free(void* ptr, const context& c, const Location& where) {
  C10_XPU_FORWARD(
      "_ZN4sycl3_V14freeEPvRKNS0_7contextERKNS0_6detail13code_locationE",
      "free",
      void(void*, const context&, const Location&),
      ptr,
      c,
      where);
}

device get_pointer_device(const void* ptr, const context& c) {
  if (c10::xpu::test::seen_owner) {
    return *c10::xpu::test::seen_owner;
  }
  C10_XPU_FORWARD(
      "_ZN4sycl3_V118get_pointer_deviceEPKvRKNS0_7contextE",
      "get_pointer_device",
      device(const void*, const context&),
      ptr,
      c);
}

} // namespace _V1
} // namespace sycl

#undef C10_XPU_FORWARD
