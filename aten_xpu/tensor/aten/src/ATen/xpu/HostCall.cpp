#include <ATen/xpu/HostCall.h>

#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <ATen/xpu/CachingHostAllocator.h>
#include <ATen/xpu/detail/NestedTensor.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <ATen/xpu/detail/SparseCsr.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUCachingAllocator.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUStreamPool.h>
#include <sycl/ext/oneapi/memcpy2d.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace at::xpu {

namespace {

namespace allocator = c10::xpu::XPUCachingAllocator;

void* bytesOf(const Storage& storage) {
  return storage.unsafeGetStorageImpl()->data_ptr().get();
}

void dropOwner(void* owner) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(owner));
}

/// The bytes of a storage, for a storage of another device.
DataPtr share(const Storage& storage, Device device) {
  auto* owner = storage.unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(owner);
  return {bytesOf(storage), owner, &dropOwner, device};
}

Storage newStorage(
    size_t nbytes,
    DataPtr data,
    c10::Allocator* allocator,
    bool resizable) {
  return Storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(),
          nbytes,
          std::move(data),
          allocator,
          resizable));
}

Storage newDeviceStorage(size_t nbytes, DataPtr data, DeviceIndex device) {
  data.unsafe_set_device(Device(kXPU, device));
  return newStorage(
      nbytes, std::move(data), allocator::get(), /*resizable=*/true);
}

Storage aliasOnHost(const Storage& storage) {
  return newStorage(
      storage.nbytes(),
      share(storage, Device(kCPU)),
      c10::GetCPUAllocator(),
      storage.resizable());
}

/// Copies `nbytes` in all on the current stream, and waits for that.
template <typename Submit>
void copyNow(uint64_t nbytes, const Submit& submit) {
  const auto stream = c10::xpu::getCurrentXPUStream();
  const detail::RecordWork record(
      detail::RecordWork::By::Host, "Memcpy", stream, nbytes);
  c10::xpu::impl::launch(stream, submit);
  c10::xpu::impl::waitFor(stream);
}

/// Whether one byte has several elements.
bool isPacked(const Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return type == kQUInt4x2 || type == kQUInt2x4;
}

/// The bytes of its storage that a tensor uses, from the first to the last, and
/// those before it that a larger type needs to begin there too.
std::pair<int64_t, int64_t> spanOf(const Tensor& tensor) {
  if (tensor.is_nested() || isPacked(tensor)) {
    return {0, static_cast<int64_t>(tensor.storage().nbytes())};
  }
  const auto itemsize = static_cast<int64_t>(tensor.dtype().itemsize());
  constexpr int64_t kLargest = 16; // item, of complex double
  const int64_t first = tensor.storage_offset() * itemsize;
  const auto begin = first / kLargest * kLargest;
  if (tensor.numel() == 0) { // it may be behind the end
    const auto nbytes = static_cast<int64_t>(tensor.storage().nbytes());
    const auto inside = std::min(begin, nbytes / kLargest * kLargest);
    return {inside, inside};
  }
  int64_t last = 0;
  for (const auto i : c10::irange(tensor.dim())) {
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return {begin, first + (last + 1) * itemsize};
}

/// Where the elements of a tensor are, in bytes from the first: at each offset
/// there are `rows` of `width`, `pitch` apart.
struct Pieces {
  int64_t width;
  int64_t rows = 1;
  int64_t pitch = 0;
  std::vector<int64_t> offsets{0};
};

Pieces piecesOf(const Tensor& tensor) {
  if (isPacked(tensor)) {
    return {static_cast<int64_t>(tensor.storage().nbytes())};
  }
  Pieces pieces{static_cast<int64_t>(tensor.dtype().itemsize())};
  std::vector<std::pair<int64_t, int64_t>> dims; // stride in bytes, size
  for (const auto i : c10::irange(tensor.dim())) {
    if (tensor.size(i) > 1) {
      dims.emplace_back(tensor.stride(i) * pieces.width, tensor.size(i));
    }
  }
  std::sort(dims.begin(), dims.end());
  // What touches or overlaps makes one row.
  auto next = dims.begin();
  for (; next != dims.end() && next->first <= pieces.width; ++next) {
    pieces.width += (next->second - 1) * next->first;
  }
  dims.erase(dims.begin(), next);
  auto rows = dims.end();
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    if (dim->first <= std::numeric_limits<int32_t>::max() && // CUDA's limit
        (rows == dims.end() || dim->second > rows->second)) {
      rows = dim;
    }
  }
  if (rows != dims.end()) {
    std::tie(pieces.pitch, pieces.rows) = *rows;
    dims.erase(rows);
  }
  for (const auto& dim : dims) {
    const auto count = pieces.offsets.size();
    for (const auto i : c10::irange(int64_t(1), dim.second)) {
      for (const auto j : c10::irange(count)) {
        pieces.offsets.push_back(pieces.offsets[j] + i * dim.first);
      }
    }
  }
  return pieces;
}

/// Copies the pieces in a task of the host. On OpenCL's CPU device SYCL makes a
/// command for each row, and the processors can use that device's memory.
sycl::event copyByTask(
    sycl::queue& queue,
    char* to,
    const char* from,
    const Pieces& pieces) {
  return C10_XPU_CHECK(queue.submit([&](sycl::handler& handler) {
    handler.host_task([to, from, pieces] {
      for (const auto offset : pieces.offsets) {
        for (const auto row : c10::irange(pieces.rows)) {
          const auto at = offset + row * pieces.pitch;
          std::memcpy(to + at, from + at, pieces.width);
        }
      }
    });
  }));
}

c10::DispatchKey keyFor(c10::DispatchKey functionality, DeviceType device) {
  return c10::toRuntimePerBackendFunctionalityKey(
      functionality,
      device == kCPU ? c10::BackendComponent::CPUBit
                     : c10::BackendComponent::XPUBit);
}

/// A tensor with the shape and the bits of `like`, over another storage.
Tensor newTensor(const Tensor& like, Storage storage, int64_t offset) {
  constexpr c10::DispatchKeySet kBits(
      {c10::DispatchKey::Conjugate,
       c10::DispatchKey::Negative,
       c10::DispatchKey::ZeroTensor});
  const auto device = storage.device_type();
  const bool quantized = like.is_quantized();
  auto quantizer = quantized ? quantizerOn(like.quantizer(), storage.device())
                             : QuantizerPtr();
  const auto functionality = quantized ? c10::DispatchKey::Quantized
      : like.is_nested()               ? c10::DispatchKey::NestedTensor
                                       : c10::DispatchKey::Dense;
  const auto keys = (like.key_set() & kBits) |
      c10::DispatchKeySet(keyFor(functionality, device));
  if (like.is_nested()) {
    const c10::InferenceMode mode(like.is_inference()); // see toDevice
    return detail::newNested(like, std::move(storage), keys, offset);
  }
  auto tensor = quantized
      ? at::detail::make_tensor<QTensorImpl>(
            std::move(storage), keys, like.dtype(), std::move(quantizer))
      : at::detail::make_tensor<c10::TensorImpl>(
            std::move(storage), keys, like.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  impl->set_storage_offset(offset);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return tensor;
}

/// Moves a tensor of the CPU and its storage to the device. No other tensor may
/// share the storage.
void moveToDevice(const Tensor& tensor, DeviceIndex device) {
  auto storage = tensor.storage();
  auto* bytes = storage.unsafeGetStorageImpl();
  auto data = bytes->set_data_ptr(DataPtr());
  data.unsafe_set_device(Device(kXPU, device));
  bytes->set_data_ptr(std::move(data));
  bytes->set_allocator(allocator::get());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->_change_backend_component_keys(Device(kXPU, device));
  if (tensor.is_quantized()) {
    set_quantizer_(
        tensor, quantizerOn(tensor.quantizer(), Device(kXPU, device)));
  }
}

SparseTensorImpl* sparseOf(const Tensor& tensor) {
  return static_cast<SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

/// Gives `to` the shape of `from`, and its parts as `convert` returns them.
void setSparse(
    const Tensor& to,
    const Tensor& from,
    const detail::Convert& convert) {
  if (!from.is_sparse()) {
    return detail::setSparseCsr(to, from, convert);
  }
  const auto* source = sparseOf(from);
  auto* target = sparseOf(to);
  target->raw_resize_(source->sparse_dim(), source->dense_dim(), from.sizes());
  target->set_indices_and_values_unsafe(
      convert(source->indices()), convert(source->values()));
  target->set_coalesced(source->coalesced());
}

/// The same on another device.
Tensor newSparse(
    const Tensor& like,
    Device device,
    const detail::Convert& convert) {
  if (!like.is_sparse()) {
    return detail::newSparseCsr(like, device, like.dtype(), convert);
  }
  auto tensor = at::detail::make_tensor<SparseTensorImpl>(
      c10::DispatchKeySet(keyFor(c10::DispatchKey::Sparse, device.type())),
      like.dtype());
  setSparse(tensor, like, convert);
  return tensor;
}

} // namespace

std::optional<bool> zeroOrOne(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string text = value ? value : "";
  TORCH_CHECK(
      text.empty() || text == "0" || text == "1",
      variable,
      " is '",
      text,
      "': it must be '0' or '1', or not be set");
  return text.empty() ? std::nullopt : std::make_optional(text == "1");
}

bool isHostMemory(DeviceIndex device) {
  static const bool allowed = zeroOrOne("TORCH_XPU_HOST_MEMORY").value_or(true);
  return allowed &&
      c10::xpu::get_device_properties(device).device_type ==
      sycl::info::device_type::cpu;
}

const DataPtr& ownedMemory(const Storage& storage) {
  const auto* owner = storage.unsafeGetStorageImpl();
  while (owner->data_ptr().get_deleter() == &dropOwner) {
    owner =
        static_cast<const c10::StorageImpl*>(owner->data_ptr().get_context());
  }
  return owner->data_ptr();
}

Storage hostAlias(const Storage& storage) {
  TORCH_CHECK(
      storage.device_type() == kXPU && isHostMemory(storage.device().index()),
      "Cannot alias the memory of ",
      storage.device(),
      " on the CPU: it is not host memory. Copy it with .cpu().");
  return aliasOnHost(storage);
}

Storage deviceAlias(const Storage& storage, DeviceIndex device) {
  TORCH_CHECK(
      storage.device_type() == kCPU && isHostMemory(device),
      "Cannot alias memory of ",
      storage.device(),
      " on ",
      Device(kXPU, device),
      ": the device's memory is not host memory. Copy it with .to(\"xpu\").");
  return newDeviceStorage(
      storage.nbytes(), share(storage, Device(kXPU, device)), device);
}

void checkNotRecording(c10::xpu::XPUStream stream, const char* name) {
  TORCH_CHECK(
      !c10::xpu::impl::isRecording(stream),
      name,
      " runs on the host, so that the graph which ",
      stream,
      " records would miss it. Call it before or after the capture");
}

QuantizerPtr quantizerOn(const QuantizerPtr& quantizer, Device device) {
  const auto* per_channel =
      dynamic_cast<const PerChannelAffineQuantizer*>(quantizer.get());
  if (!per_channel || per_channel->scales().device() == device) {
    return quantizer;
  }
  return make_per_channel_affine_quantizer(
      per_channel->scales().to(device),
      per_channel->zero_points().to(device),
      per_channel->axis(),
      per_channel->scalar_type());
}

HostCall::HostCall(DeviceIndex device, const char* name, bool pinned)
    : device_(device),
      host_memory_(isHostMemory(device)),
      pinned_(pinned),
      scope_(host_memory_) {
  if (device != c10::xpu::current_device()) {
    guard_.set_index(device);
  }
  const auto stream = c10::xpu::getCurrentXPUStream();
  checkNotRecording(stream, name);
  c10::xpu::impl::waitFor(stream);
}

HostCall::Region& HostCall::regionOf(const Tensor& tensor) {
  // Of host memory the alias is of the whole storage.
  auto [begin, end] =
      host_memory_ ? std::pair<int64_t, int64_t>() : spanOf(tensor);
  for (auto& region : regions_) {
    if (region.device.is_alias_of(tensor.storage()) && region.begin <= begin &&
        end <= region.end) {
      return region;
    }
  }
  // What overlaps becomes one, until the host has it.
  for (auto region = regions_.begin(); region != regions_.end();) {
    if (region->device.is_alias_of(tensor.storage()) && !region->host &&
        region->begin <= end && begin <= region->end) {
      begin = std::min(region->begin, begin);
      end = std::max(region->end, end);
      region = regions_.erase(region);
    } else {
      ++region;
    }
  }
  regions_.push_back({tensor.storage(), begin, end, {}});
  return regions_.back();
}

void HostCall::willWrite(const Tensor& tensor) {
#if __has_include(<c10/core/impl/COW.h>)
  if (tensor.defined() && tensor.is_xpu() && tensor.has_storage()) {
    (void)tensor.storage().unsafeGetStorageImpl()->mutable_data_ptr();
  }
#endif
}

void HostCall::expect(const Tensor& tensor) {
  if (!host_memory_ && tensor.is_xpu() && tensor.layout() == kStrided) {
    regionOf(tensor);
  }
}

void HostCall::copy(void* to, const void* from, size_t nbytes) {
  if (nbytes == 0 || !from) { // a ZeroTensor has no memory
    return;
  }
  copyNow(nbytes, [&](sycl::queue& queue) {
    return C10_XPU_CHECK(queue.memcpy(to, from, nbytes));
  });
  bytes_copied_ += nbytes;
}

void HostCall::copyElements(const Region& region, const Tensor& host) {
  if (host.is_nested()) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    for (const auto& part : host.unbind()) {
      copyElements(region, part);
    }
    return;
  }
  if (host.numel() == 0 || !bytesOf(region.host)) {
    return;
  }
  const auto first = isPacked(host)
      ? 0
      : host.storage_offset() * static_cast<int64_t>(host.dtype().itemsize());
  auto* const to =
      static_cast<char*>(bytesOf(region.device)) + region.begin + first;
  const auto* const from =
      static_cast<const char*>(bytesOf(region.host)) + first;
  const auto pieces = piecesOf(host);
  const auto nbytes =
      int64_t(pieces.offsets.size()) * pieces.rows * pieces.width;
  copyNow(nbytes, [&](sycl::queue& queue) {
    if (queue.get_device().is_cpu()) {
      return copyByTask(queue, to, from, pieces);
    }
    sycl::event last; // the queue is in order
    for (const auto offset : pieces.offsets) {
      last = pieces.rows == 1 ? C10_XPU_CHECK(queue.memcpy(
                                    to + offset, from + offset, pieces.width))
                              : C10_XPU_CHECK(queue.ext_oneapi_memcpy2d(
                                    to + offset,
                                    pieces.pitch,
                                    from + offset,
                                    pieces.pitch,
                                    pieces.width,
                                    pieces.rows));
    }
    return last;
  });
  bytes_copied_ += nbytes;
}

Storage HostCall::newHostStorage(Region& region) {
  if (host_memory_) {
    return aliasOnHost(region.device);
  }
  const size_t nbytes = region.end - region.begin;
  auto storage = newStorage(
      nbytes,
      (pinned_ ? getCachingHostAllocator() : c10::GetCPUAllocator())
          ->allocate(nbytes),
      c10::GetCPUAllocator(),
      region.device.resizable());
  copy(
      bytesOf(storage),
      static_cast<const char*>(bytesOf(region.device)) + region.begin,
      nbytes);
  return storage;
}

Tensor HostCall::toHost(const Tensor& tensor, bool written) {
  if (!tensor.defined() || !tensor.is_xpu()) {
    return tensor;
  }
  for (auto& argument : arguments_) {
    if (argument.device.is_same(tensor)) {
      argument.written |= written;
      return argument.host;
    }
  }
  auto host = tensor.layout() == kStrided
      ? toHostStrided(tensor)
      : newSparse(tensor, Device(kCPU), [&](const Tensor& part) {
          return toHost(part);
        });
  if (tensor.requires_grad()) {
    host.set_requires_grad(true); // kernels ask, to choose how to compute
  }
  arguments_.push_back({tensor, host, written});
  return host;
}

Tensor HostCall::borrow(const Tensor& tensor) {
  return tensor.is_xpu()
      ? newTensor(
            tensor, aliasOnHost(tensor.storage()), tensor.storage_offset())
      : tensor;
}

Tensor HostCall::toHostStrided(const Tensor& tensor) {
  auto& region = regionOf(tensor);
  if (!region.host) {
    region.host = newHostStorage(region);
  }
  return newTensor(
      tensor,
      region.host,
      tensor.storage_offset() - region.firstElement(tensor));
}

HostCall::Region* HostCall::findHost(const Storage& host) {
  for (auto& region : regions_) {
    if (region.host.unsafeGetStorageImpl() == host.unsafeGetStorageImpl()) {
      return &region;
    }
  }
  return nullptr;
}

void HostCall::giveMemory(const Storage& host, const Storage& device) {
  auto* from = host.unsafeGetStorageImpl();
  auto* to = device.unsafeGetStorageImpl();
  if (!bytesOf(host)) { // a ZeroTensor has no memory
    return;
  }
  const auto give = [&](DataPtr data) {
    data.unsafe_set_device(Device(kXPU, device_));
    to->set_data_ptr(std::move(data));
  };
  if (detail::isDeviceMemory(from->data_ptr())) {
    give(from->set_data_ptr(DataPtr()));
    from->set_data_ptr(share(device, Device(kCPU)));
  } else if (host_memory_) {
    auto data = detail::allocateForHost(host.nbytes());
    std::memcpy(data.get(), bytesOf(host), host.nbytes());
    give(std::move(data));
  } else {
    auto data = allocator::get()->allocate(host.nbytes());
    copy(data.get(), bytesOf(host), host.nbytes());
    give(std::move(data));
  }
}

HostCall::Region& HostCall::toDevice(const Storage& host) {
  if (auto* region = findHost(host)) {
    return *region;
  }
  const size_t nbytes = host.nbytes();
  auto device = newDeviceStorage(nbytes, DataPtr(), device_);
  giveMemory(host, device);
  // Another result may share it.
  regions_.push_back({std::move(device), 0, int64_t(nbytes), host});
  return regions_.back();
}

Tensor HostCall::toDevice(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu()) {
    return tensor;
  }
  for (auto& argument : arguments_) {
    if (argument.host.is_same(tensor)) {
      return argument.device;
    }
  }
  if (tensor.layout() != kStrided) {
    return newSparse(tensor, Device(kXPU, device_), [&](const Tensor& part) {
      return toDevice(part);
    });
  }
  // A result that shares its memory with no argument and no other result.
  if (host_memory_ && tensor.use_count() == 1 && !tensor.is_nested() &&
      tensor.storage().use_count() == 1 &&
      detail::isDeviceMemory(tensor.storage().data_ptr())) {
    moveToDevice(tensor, device_);
    return tensor;
  }
  const auto& region = toDevice(tensor.storage());
  // In inference mode, a view of a tensor that is from before keeps its keys.
  const c10::InferenceMode mode(tensor.is_inference());
  return newTensor(
      tensor,
      region.device,
      tensor.storage_offset() + region.firstElement(tensor));
}

void HostCall::setStorage(Region& region) {
  auto* host = region.host.unsafeGetStorageImpl();
  auto* device = region.device.unsafeGetStorageImpl();
  if (host_memory_) {
    if (bytesOf(region.host) != bytesOf(region.device)) {
      giveMemory(region.host, region.device); // a kernel has resized it
    }
    device->set_nbytes(host->nbytes());
    return;
  }
  if (host->nbytes() == size_t(region.end - region.begin)) {
    return; // as it was made; an empty view may begin behind the end
  }
  const size_t nbytes = region.begin + host->nbytes();
  if (nbytes > device->nbytes()) {
    auto data = allocator::get()->allocate(nbytes);
    copy(data.get(), bytesOf(region.device), device->nbytes());
    device->set_data_ptr(std::move(data));
    device->set_nbytes(nbytes);
  }
}

void HostCall::finish(Argument& argument) {
  if (!argument.written) {
    return;
  }
  const auto& from = argument.host;
  if (from.layout() != kStrided) {
    setSparse(argument.device, from, [&](const Tensor& part) {
      toDevice(part.storage()).written.push_back(part);
      for (auto& known : arguments_) {
        if (known.host.is_same(part)) {
          known.written = true; // it may have been resized
          finish(known);
        }
      }
      return toDevice(part);
    });
    return;
  }
  auto* to = argument.device.unsafeGetTensorImpl();
  auto& region = toDevice(from.storage());
  region.written.push_back(from);
  if (from.is_nested()) {
    return; // an operator that writes one keeps its shape
  }
  if (to->unsafe_storage().unsafeGetStorageImpl() !=
      region.device.unsafeGetStorageImpl()) {
    to->set_storage_keep_dtype(region.device);
  }
  to->_set_conj(from.is_conj());
  to->_set_neg(from.is_neg());
  if (to->sizes() != from.sizes() || to->strides() != from.strides()) {
    to->set_sizes_and_strides(from.sizes(), from.strides());
  }
  const int64_t offset = from.storage_offset() + region.firstElement(from);
  if (to->storage_offset() != offset) {
    to->set_storage_offset(offset);
  }
}

void HostCall::finish() {
  for (auto& argument : arguments_) {
    finish(argument);
  }
  for (auto& region : regions_) {
    if (region.written.empty()) {
      continue;
    }
    setStorage(region);
    if (!host_memory_) {
      for (const auto& host : region.written) {
        copyElements(region, host);
      }
    }
  }
}

} // namespace at::xpu
