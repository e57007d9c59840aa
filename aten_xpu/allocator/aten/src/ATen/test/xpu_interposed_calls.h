#pragma once

#include <c10/xpu/XPUException.h>

#include <sycl/event.hpp>
#include <sycl/queue.hpp>
#include <sycl/usm.hpp>

#include <dlfcn.h>

#include <atomic>
#include <functional>

// The functions of SYCL that the allocator of pinned memory calls, defined
// anew. The dynamic linker takes the definitions of the program before those of
// libsycl.so, so that a test can watch the calls and let them fail. To be
// included by one source file of a program.

namespace at::xpu::test {

struct InterposedCalls {
  std::atomic<int> allocations{0};
  std::atomic<size_t> last_allocation{0}; // its size
  std::atomic<int> frees{0};
  std::atomic<int> barriers{0};
  std::atomic<int> queries{0};
  // How many of the next calls give a null pointer.
  std::atomic<int> failing_allocations{0};
  // Called before SYCL is; what they throw is what SYCL is taken to throw.
  std::function<void(void*)> before_free;
  std::function<void()> before_barrier;
  std::function<void()> before_query;
};

inline InterposedCalls& calls() {
  static InterposedCalls all;
  return all;
}

inline void clearHooks() {
  calls().failing_allocations = 0;
  calls().before_free = nullptr;
  calls().before_barrier = nullptr;
  calls().before_query = nullptr;
}

[[noreturn]] inline void throwInjected() {
  throw sycl::exception(sycl::make_error_code(sycl::errc::runtime), "injected");
}

// The definition that `Function` hides.
template <typename Function>
Function* hidden(const char* symbol) {
  void* const found = dlsym(RTLD_NEXT, symbol);
  TORCH_CHECK(found, "libsycl.so has no ", symbol);
  return reinterpret_cast<Function*>(found);
}

} // namespace at::xpu::test

void* sycl::aligned_alloc_host(
    size_t alignment,
    size_t size,
    const context& context,
    const detail::code_location& where) {
  using Function =
      void*(size_t, size_t, const sycl::context&, const detail::code_location&);
  static auto* const next = at::xpu::test::hidden<Function>(
      "_ZN4sycl3_V118aligned_alloc_hostEmmRKNS0_7contextE"
      "RKNS0_6detail13code_locationE");
  auto& calls = at::xpu::test::calls();
  if (calls.failing_allocations > 0) {
    --calls.failing_allocations;
    return nullptr;
  }
  ++calls.allocations;
  calls.last_allocation = size;
  return next(alignment, size, context, where);
}

void sycl::free(
    void* ptr,
    const context& context,
    const detail::code_location& where) {
  using Function =
      void(void*, const sycl::context&, const detail::code_location&);
  static auto* const next = at::xpu::test::hidden<Function>(
      "_ZN4sycl3_V14freeEPvRKNS0_7contextERKNS0_6detail13code_locationE");
  auto& calls = at::xpu::test::calls();
  if (calls.before_free) {
    calls.before_free(ptr);
  }
  ++calls.frees;
  next(ptr, context, where);
}

sycl::event sycl::queue::ext_oneapi_submit_barrier(
    const detail::code_location& where) {
  // A member function takes its object as a first argument.
  using Function = sycl::event(queue*, const detail::code_location&);
  static auto* const next = at::xpu::test::hidden<Function>(
      "_ZN4sycl3_V15queue25ext_oneapi_submit_barrierE"
      "RKNS0_6detail13code_locationE");
  auto& calls = at::xpu::test::calls();
  ++calls.barriers;
  if (calls.before_barrier) {
    calls.before_barrier();
  }
  return next(this, where);
}

template <>
sycl::info::event_command_status sycl::event::get_info<
    sycl::info::event::command_execution_status>() const {
  using Function = sycl::info::event_command_status(const event*);
  static auto* const next = at::xpu::test::hidden<Function>(
      "_ZNK4sycl3_V15event8get_infoINS0_4info5event24command_execution_status"
      "EEENS0_6detail18is_event_info_descIT_E11return_typeEv");
  auto& calls = at::xpu::test::calls();
  ++calls.queries;
  if (calls.before_query) {
    calls.before_query();
  }
  return next(this);
}
