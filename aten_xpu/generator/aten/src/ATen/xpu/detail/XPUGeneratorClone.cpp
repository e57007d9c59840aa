#include <ATen/xpu/XPUGeneratorImpl.h>

namespace at {

XPUGeneratorImpl* XPUGeneratorImpl::clone_impl() const {
  auto* made = new XPUGeneratorImpl(device().index(), state_->clone());
  // GeneratorImpl::clone() makes an intrusive_ptr of this by counting one
  // strong reference. An object with strong references also has one weak
  // reference (see Note [Weak references for intrusive refcounting]); without
  // it the copy would never be deleted.
  c10::raw::weak_intrusive_ptr::incref(made);
  return made;
}

} // namespace at
