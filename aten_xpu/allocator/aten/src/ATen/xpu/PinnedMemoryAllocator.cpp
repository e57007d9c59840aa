#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/PinnedMemoryAllocator.h>

namespace at {
namespace xpu {

c10::Allocator* getPinnedMemoryAllocator() {
  return getCachingHostAllocator();
}

} // namespace xpu
} // namespace at
