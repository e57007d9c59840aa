#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUMemoryTools.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Stream.h>

#include <cstdint>
#include <memory>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

uintptr_t allocate(size_t size, py::handle stream) {
  const auto on = streamOf(stream.ptr());
  return withoutGil([&] {
    return reinterpret_cast<uintptr_t>(
        allocator::raw_alloc_with_stream(size, on));
  });
}

/// `alloc` and `free` are addresses of functions of these types.
std::shared_ptr<allocator::XPUAllocator> customAllocator(
    uintptr_t alloc,
    uintptr_t free) {
  TORCH_CHECK(alloc && free, "An XPU allocator was given a null function");
  return std::make_shared<allocator::PluggableAllocator>(
      reinterpret_cast<allocator::AllocFn*>(alloc),
      reinterpret_cast<allocator::FreeFn*>(free));
}

} // namespace

void bindPluggableAllocator(py::module& module) {
  using allocator::XPUAllocator;
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_cachingAllocator_raw_alloc", &allocate);
  def("_xpu_cachingAllocator_raw_delete", [](uintptr_t address) {
    withoutGil(
        [&] { allocator::raw_delete(reinterpret_cast<void*>(address)); });
  });
  // NOLINTNEXTLINE(bugprone-unused-raii): it registers the type
  py::class_<XPUAllocator, std::shared_ptr<XPUAllocator>>(
      module, "_xpu_XPUAllocator");
  def("_xpu_customAllocator", &customAllocator);
  def("_xpu_changeCurrentAllocator",
      [](const std::shared_ptr<XPUAllocator>& chosen) {
        withoutGil([&] { allocator::changeCurrentAllocator(chosen); });
      });
}

} // namespace xpu
} // namespace torch
