#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <algorithm>
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
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["max_split_size"] = stats.max_split_size;
  dict["oversize_allocations"] = asDict(stats.oversize_allocations);
  dict["oversize_segments"] = asDict(stats.oversize_segments);
  return dict;
}

const char* stateOf(const allocator::BlockInfo& block) {
  return block.allocated ? "active_allocated"
      : block.active     ? "active_pending_free"
                         : "inactive";
}

py::dict asDict(const allocator::SegmentInfo& segment) {
  py::list blocks;
  for (const auto& block : segment.blocks) {
    py::dict entry;
    entry["size"] = block.size;
    entry["state"] = stateOf(block);
    blocks.append(std::move(entry));
  }
  py::dict dict;
  dict["device"] = segment.device;
  dict["address"] = segment.address;
  dict["total_size"] = segment.total_size;
  dict["allocated_size"] = segment.allocated_size;
  dict["active_size"] = segment.active_size;
  dict["stream"] = segment.stream;
  dict["segment_type"] = segment.is_large ? "large" : "small";
  dict["blocks"] = std::move(blocks);
  return dict;
}

py::list memorySnapshot() {
  useXPU();
  py::list segments;
  for (const auto& segment : withoutGil([] { return allocator::snapshot(); })) {
    segments.append(asDict(segment));
  }
  return segments;
}

/// Bytes that are free, and all. A device that cannot tell what is free (the
/// CPU device) is taken to have all that this process has not reserved.
std::pair<uint64_t, uint64_t> memoryInfo(int64_t device) {
  const auto index = useDevice(device);
  return withoutGil([&]() -> std::pair<uint64_t, uint64_t> {
    const auto& properties = c10::xpu::get_device_properties(index);
    const uint64_t total = properties.global_mem_size;
    if (properties.has_ext_intel_free_memory) {
      auto& raw = c10::xpu::get_raw_device(index);
      using Free = sycl::ext::intel::info::device::free_memory;
      return {C10_XPU_CHECK(raw.get_info<Free>()), total};
    }
    constexpr auto kAll = static_cast<size_t>(allocator::StatType::AGGREGATE);
    const auto stats = allocator::getDeviceStats(index);
    const auto reserved =
        static_cast<uint64_t>(stats.reserved_bytes[kAll].current);
    return {total - std::min(reserved, total), total};
  });
}

} // namespace

void bindMemory(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_memoryStats", &memoryStats);
  def("_xpu_memorySnapshot", &memorySnapshot);
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
