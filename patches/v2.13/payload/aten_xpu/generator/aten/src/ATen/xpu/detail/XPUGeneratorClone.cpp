#include <ATen/xpu/XPUGeneratorImpl.h>

namespace at {

XPUGeneratorImpl* XPUGeneratorImpl::clone_impl() const {
  // GeneratorImpl::clone() counts the references.
  return new XPUGeneratorImpl(device().index(), state_->clone());
}

} // namespace at
