#include <ATen/xpu/XPUGeneratorImpl.h>

namespace at {

XPUGeneratorImpl* XPUGeneratorImpl::clone_impl() const {
  return copy().release(); // GeneratorImpl::clone() counts the references
}

} // namespace at
