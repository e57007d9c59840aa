#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <cstdint>
#include <utility>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

py::dict asDict(const allocator::Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict asDict(const allocator::StatArray& stats) {
  const auto of = [&stats](allocator::StatType type) {
    return asDict(stats[static_cast<size_t>(type)]);
  };
  py::dict dict;
  dict["all"] = of(allocator::StatType::AGGREGATE);
  dict["small_pool"] = of(allocator::StatType::SMALL_POOL);
  dict["large_pool"] = of(allocator::StatType::LARGE_POOL);
  return dict;
}

/// The keys are those of torch.cuda.memory_stats.
py::dict memoryStats(int64_t device) {
  const auto index = useDevice(device);
  const auto stats =
      withoutGil([&] { return allocator::getDeviceStats(index); });
  py::dict dict;
  dict["allocation"] = asDict(stats.allocation);
  dict["segment"] = asDict(stats.segment);
  dict["active"] = asDict(stats.active);
  dict["inactive_split"] = asDict(stats.inactive_split);
  dict["allocated_bytes"] = asDict(stats.allocated_bytes);
  dict["reserved_bytes"] = asDict(stats.reserved_bytes);
  dict["active_bytes"] = asDict(stats.active_bytes);
  dict["inactive_split_bytes"] = asDict(stats.inactive_split_bytes);
  dict["requested_bytes"] = asDict(stats.requested_bytes);
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["max_split_size"] = stats.max_split_size;
  dict["oversize_allocations"] = asDict(stats.oversize_allocations);
  dict["oversize_segments"] = asDict(stats.oversize_segments);
  return dict;
}

/// Bytes that are free, and all.
std::pair<uint64_t, uint64_t> memoryInfo(int64_t device) {
  const auto index = useDevice(device);
  return withoutGil([&]() -> std::pair<uint64_t, uint64_t> {
    const auto free = c10::xpu::get_free_memory(index);
    TORCH_CHECK(
        free.has_value(),
        "SYCL does not tell how much memory of xpu:",
        static_cast<int>(index),
        " (",
        c10::xpu::get_device_properties(index).name,
        ") is free. What it has in all is total_memory of "
        "torch.xpu.get_device_properties; what this process holds of it is "
        "torch.xpu.memory_reserved");
    return {*free, c10::xpu::get_device_properties(index).global_mem_size};
  });
}

} // namespace

void bindMemory(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_memoryStats", &memoryStats);
  def("_xpu_getMemoryInfo", &memoryInfo);
  def("_xpu_resetPeakMemoryStats", [](int64_t device) {
    const auto index = useDevice(device);
    withoutGil([&] { allocator::resetPeakStats(index); });
  });
  def("_xpu_resetAccumulatedMemoryStats", [](int64_t device) {
    const auto index = useDevice(device);
    withoutGil([&] { allocator::resetAccumulatedStats(index); });
  });
  def("_xpu_setMemoryFraction", [](double fraction, int64_t device) {
    const auto index = useDevice(device);
    withoutGil([&] { allocator::setMemoryFraction(fraction, index); });
  });
  def("_xpu_emptyCache", [] {
    useXPU();
    withoutGil([] { allocator::emptyCache(); });
  });
}

} // namespace xpu
} // namespace torch
