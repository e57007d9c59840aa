#include <c10/xpu/impl/XPUMemoryReport.h>

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <c10/xpu/impl/XPUAllocatorConfig.h>
#include <c10/xpu/impl/XPUReserve.h>

namespace c10::xpu::impl {

void throwOutOfMemory(const OutOfMemory& facts) {
  size_t free = facts.free;
  if (free == 0 && facts.total > facts.reserved) {
    free = facts.total - facts.reserved;
  }
  const c10::Device device(
      c10::DeviceType::XPU, static_cast<c10::DeviceIndex>(facts.device));
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(facts.requested),
      static_cast<int64_t>(facts.allocated),
      static_cast<int64_t>(facts.reserved),
      device);
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      false,
      "XPU out of memory. Tried to allocate ",
      formatSize(facts.requested),
      " (",
      device,
      "; ",
      formatSize(facts.total),
      " total capacity; ",
      formatSize(facts.allocated),
      " already allocated; ",
      formatSize(free),
      " free; ",
      facts.limit == Reserve::kNoLimit ? "no limit set"
                                       : formatSize(facts.limit) + " allowed",
      "; ",
      formatSize(facts.reserved),
      " reserved in total by PyTorch). If reserved memory is much larger than"
      " allocated memory, try max_split_size_mb in PYTORCH_XPU_ALLOC_CONF to"
      " avoid fragmentation.");
}

XPUCachingAllocator::SegmentInfo describe(
    const StreamTag& stream,
    const Block* first,
    uint32_t epoch) {
  XPUCachingAllocator::SegmentInfo segment;
  segment.device = stream.device;
  segment.address =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(first->ptr));
  segment.stream = stream.id;
  segment.is_large = first->pool == Pool::Large;
  for (const Block* b = first; b != nullptr; b = b->next) {
    XPUCachingAllocator::BlockInfo block;
    block.size = static_cast<int64_t>(b->size);
    block.allocated = b->state == BlockState::Allocated;
    block.active = b->state != BlockState::Free;
    block.gc_counter = block.active || b->is_split()
        ? 0
        : static_cast<int32_t>(epoch - b->extra->stamp);
    segment.total_size += block.size;
    segment.allocated_size += block.allocated ? block.size : 0;
    segment.active_size += block.active ? block.size : 0;
    segment.blocks.push_back(block);
  }
  return segment;
}

} // namespace c10::xpu::impl
