#include <ATen/xpu/detail/Operators.h>

namespace at::xpu::detail {

TORCH_LIBRARY_IMPL(aten, SparseCsrXPU, m) {
  m.impl("empty.memory_format", dispatchingFunction());
}

} // namespace at::xpu::detail
