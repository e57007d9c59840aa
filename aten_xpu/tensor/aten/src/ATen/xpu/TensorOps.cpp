#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/Quantizer.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/FillUninitialized.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/core/TensorOptions.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUStreamPool.h>

#if __has_include(<ATen/NamedTensorUtils.h>)
#include <ATen/NamedTensorUtils.h>
#define XPU_HAS_NAMED_TENSORS
#endif

#include <optional>
#include <utility>

// The operators that are about memory and its layout.

namespace at::xpu {

namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::XPU);

/// The device that a factory function is asked for; -1 for the current one. The
/// first of all brings XPU up.
DeviceIndex deviceFor(
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory) {
  TORCH_CHECK(
      c10::layout_or_default(layout) == kStrided,
      "Expected a strided layout, got ",
      c10::layout_or_default(layout));
  TORCH_CHECK(
      !c10::pinned_memory_or_default(pin_memory),
      "Only dense CPU tensors can be pinned");
  static const bool initialized = [] {
    allocator::init(c10::xpu::device_count_ensure_non_zero());
    detail::registerFallbacks();
    return true;
  }();
  (void)initialized;
  return device ? device->index() : -1;
}

Tensor empty(
    IntArrayRef size,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    c10::optional<MemoryFormat> format) {
  const c10::xpu::XPUGuard guard(deviceFor(layout, device, pin_memory));
  Tensor tensor = at::detail::empty_generic(
      size, allocator::get(), kKeys, c10::dtype_or_default(dtype), format);
  detail::fillEmpty(tensor);
  return tensor;
}

Tensor empty_strided(
    IntArrayRef size,
    IntArrayRef stride,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory) {
  const c10::xpu::XPUGuard guard(deviceFor(layout, device, pin_memory));
  Tensor tensor = at::detail::empty_strided_generic(
      size, stride, allocator::get(), kKeys, c10::dtype_or_default(dtype));
  detail::fillEmpty(tensor);
  return tensor;
}

/// Makes the tensor's storage large enough, and keeps what is in it.
void growStorage(const Tensor& tensor, size_t nbytes) {
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  const size_t old_nbytes = storage->nbytes();
  if (nbytes <= old_nbytes) {
    return;
  }
  TORCH_CHECK(
      storage->resizable(), "Trying to resize storage that is not resizable");
  const auto device = storage->device();
  const c10::xpu::XPUGuard guard(device);
  const auto stream = c10::xpu::getCurrentXPUStream();
  if (old_nbytes > 0) {
    checkNotRecording(stream, "aten::resize_");
    c10::xpu::warn_or_error_on_sync();
  }
  auto data = allocator::get()->allocate(nbytes);
  if (old_nbytes > 0) {
    detail::launch(stream, "Memcpy", old_nbytes, [&](sycl::queue& queue) {
      return C10_XPU_CHECK(
          queue.memcpy(data.get(), storage->data_ptr().get(), old_nbytes));
    });
    c10::xpu::impl::waitFor(stream);
  }
  storage->set_data_ptr(std::move(data));
  storage->set_nbytes(nbytes);
}

const Tensor& resize_(
    const Tensor& self,
    IntArrayRef size,
    c10::optional<MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto old_nbytes = self.storage().nbytes();
  if (self.sizes() != size) {
    growStorage(
        self,
        at::detail::computeStorageNbytesContiguous(
            size, self.dtype().itemsize(), self.storage_offset()));
    impl->set_sizes_contiguous(size);
  }
  if (format) {
    TORCH_CHECK(
        *format != MemoryFormat::Preserve,
        "Unsupported memory format",
        *format);
    impl->empty_tensor_restride(*format);
  }
  detail::fillResized(self, old_nbytes);
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): the schema's
  return self;
}

Tensor& set_storage(
    Tensor& self,
    Storage source,
    int64_t offset,
    IntArrayRef size,
    IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data()) {
    impl->set_sizes_and_strides(size, stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  growStorage(
      self,
      at::detail::computeStorageNbytes(
          self.sizes(), self.strides(), self.dtype().itemsize(), offset));
  return self;
}

Tensor& set_whole_storage(Tensor& self, Storage source) {
  const auto count =
      static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  return self.is_same(source) ? self
                              : set_storage(
                                    self,
                                    source.storage(),
                                    source.storage_offset(),
                                    source.sizes(),
                                    source.strides());
}

Tensor& set_empty(Tensor& self) {
  const c10::xpu::XPUGuard guard(self.device());
  return set_whole_storage(
      self, Storage(Storage::use_byte_size_t(), 0, allocator::get(), true));
}

constexpr const char* kCopy = "aten::copy_";

/// Whether a copy of bytes, from the first to the last, is a copy.
bool sameLayout(const Tensor& a, const Tensor& b) {
  return !a._is_zerotensor() && !b._is_zerotensor() && a.dtype() == b.dtype() &&
      a.sizes() == b.sizes() && a.strides() == b.strides() &&
      a.is_non_overlapping_and_dense() && a.is_conj() == b.is_conj() &&
      a.is_neg() == b.is_neg();
}

/// Whether the work of the stream is waited for together with the tensor's
/// memory: it is that of a device, or pinned by the caching allocator.
bool staysUntil(const Tensor& tensor, c10::xpu::XPUStream stream) {
  return tensor.is_xpu() ||
      CachingHostAllocator_recordEvent(
             tensor.data_ptr(),
             tensor.storage().data_ptr().get_context(),
             stream);
}

void copyBytes(
    const Tensor& to,
    const Tensor& from,
    c10::xpu::XPUStream stream) {
  // Not in the launch: what is copied on write takes the stream.
  void* const out = to.data_ptr();
  const void* const in = from.data_ptr();
  detail::launch(stream, "Memcpy", to.nbytes(), [&](sycl::queue& queue) {
    return C10_XPU_CHECK(queue.memcpy(out, in, to.nbytes()));
  });
}

/// Copies bytes to a device whose memory that of the source reaches, on the
/// current stream of the source, as with CUDA. That of the other device waits
/// for it. False where it does not reach it, or where the host copies at once.
bool copyToPeer(const Tensor& self, const Tensor& src) {
  const auto device = src.device().index();
  const auto peer = self.device().index();
  const auto stream = c10::xpu::getCurrentXPUStream(device);
  const auto theirs = c10::xpu::getCurrentXPUStream(peer);
  if (isHostMemory(device)) {
    checkNotRecording(stream, kCopy);
    checkNotRecording(theirs, kCopy);
  }
  if ((isHostMemory(device) && stream.query() && theirs.query()) ||
      !c10::xpu::enable_peer_access(device, peer)) {
    return false;
  }
  const auto wait = [](c10::xpu::XPUStream one, c10::xpu::XPUStream other) {
    c10::xpu::XPUEvent event;
    event.record(other);
    event.block(one);
  };
  wait(stream, theirs);
  copyBytes(self, src, stream);
  wait(theirs, stream);
  return true;
}

/// copy_ without names. What is not a copy of bytes is left to the CPU's copy_,
/// with its checks.
void copyElements(Tensor& self, const Tensor& src, bool non_blocking) {
  const bool same_layout = sameLayout(self, src);
  if (same_layout && (self.numel() == 0 || self.data_ptr() == src.data_ptr())) {
    return;
  }
  const auto device = (self.is_xpu() ? self : src).device().index();
  if (self.is_xpu() && src.is_xpu() && self.device() != src.device()) {
    if (same_layout && copyToPeer(self, src)) {
      return;
    }
    c10::xpu::warn_or_error_on_sync();
    HostCall from(src.device().index(), kCopy);
    copyElements(self, from.toHost(src), /*non_blocking=*/false);
    return;
  }
  const c10::xpu::XPUGuard guard(device);
  if (!same_layout && self.is_xpu() && src.is_xpu()) {
    const auto copy = detail::kernelHooks().copy;
    if (copy && copy(self, src)) {
      return;
    }
  }
  const auto stream = c10::xpu::getCurrentXPUStream();
  const bool asynchronous = non_blocking || (self.is_xpu() && src.is_xpu());
  const bool recording = c10::xpu::impl::isRecording(stream);
  if (same_layout &&
      (!isHostMemory(device) ||
       (asynchronous && (recording || !stream.query())))) {
    // Both are asked again: what is recorded now may be forgotten by then.
    const auto stay = [&] {
      return staysUntil(self, stream) && staysUntil(src, stream);
    };
    const bool waits = !asynchronous || !stay();
    if (waits) {
      checkNotRecording(stream, kCopy);
      c10::xpu::warn_or_error_on_sync();
    }
    at::assert_no_partial_overlap(self, src);
    copyBytes(self, src, stream);
    if (waits || !stay()) {
      c10::xpu::impl::waitFor(stream);
    }
    return;
  }
  if (!asynchronous || !same_layout) {
    c10::xpu::warn_or_error_on_sync();
  } // else the stream is idle
  HostCall call(device, kCopy);
  call.expect(self);
  call.expect(src);
  const auto to = call.toHost(self, /*written=*/true);
  const auto from = call.toHost(src);
  std::optional<detail::RecordWork> record;
  if (isHostMemory(device)) {
    record.emplace(
        detail::RecordWork::By::Host, "Memcpy", stream, self.nbytes());
  }
  to.copy_(from);
  record.reset();
  call.finish();
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
#ifdef XPU_HAS_NAMED_TENSORS
  const auto names = namedinference::compute_broadcast_outnames(self, src);
  {
    const NoNamesGuard guard;
    copyElements(self, src, non_blocking);
  }
  namedinference::propagate_names_if_nonempty(self, names);
#else
  copyElements(self, src, non_blocking);
#endif
  return self;
}

/// PyTorch's makes the result on the device of the scales.
Tensor emptyQuantized(
    IntArrayRef size,
    const Tensor& like,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    c10::optional<MemoryFormat> format) {
  if (like.qscheme() == kPerTensorAffine) {
    return at::native::empty_quantized(
        size, like, dtype, layout, device, pin_memory, format);
  }
  const auto to = device.value_or(like.device());
  return at::_empty_per_channel_affine_quantized(
      size,
      like.q_per_channel_scales().to(to),
      like.q_per_channel_zero_points().to(to),
      like.q_per_channel_axis(),
      dtype.value_or(like.scalar_type()),
      layout,
      to,
      pin_memory,
      format);
}

/// Copies the elements and the quantizer.
Tensor& copyQuantized(Tensor& self, const Tensor& src, bool /*non_blocking*/) {
  c10::xpu::warn_or_error_on_sync();
  const auto device = (self.is_xpu() ? self : src).device();
  if (self.is_xpu() && src.is_xpu() && src.device() != device) {
    HostCall from(src.device().index(), kCopy);
    return copyQuantized(self, from.toHost(src), /*non_blocking=*/false);
  }
  HostCall call(device.index(), kCopy);
  call.expect(self);
  call.expect(src);
  const auto to = call.toHost(self, /*written=*/true);
  to.copy_(call.toHost(src));
  call.finish();
  if (src.is_quantized()) {
    set_quantizer_(self, quantizerOn(src.quantizer(), self.device()));
  }
  return self;
}

Tensor _copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  auto to = dst;
  return copy_(to, self, non_blocking);
}

Tensor _copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  auto to = dst.resize_(self.sizes());
  return copy_(to, self, /*non_blocking=*/false);
}

Scalar localScalar(const Tensor& self) {
  constexpr const char* kName = "aten::_local_scalar_dense";
  const c10::xpu::XPUGuard guard(self.device());
  if (!isHostMemory(guard.current_device().index())) {
    checkNotRecording(c10::xpu::getCurrentXPUStream(), kName);
    return self.cpu().item();
  }
  c10::xpu::warn_or_error_on_sync();
  const HostCall call(guard.current_device().index(), kName); // waits
  return HostCall::borrow(self).item();
}

void record_stream(Tensor& self, c10::Stream stream) {
  allocator::recordStream(
      ownedMemory(self.storage()), c10::xpu::XPUStream(stream));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(_copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(_copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(localScalar));
  m.impl("record_stream", TORCH_FN(record_stream));
}

TORCH_LIBRARY_IMPL(aten, QuantizedXPU, m) {
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("copy_", TORCH_FN(copyQuantized));
  m.impl("empty_quantized", TORCH_FN(emptyQuantized));
}

} // namespace at::xpu
