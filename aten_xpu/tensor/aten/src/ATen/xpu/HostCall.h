#pragma once

#include <ATen/core/QuantizerBase.h>
#include <ATen/core/Tensor.h>
#include <ATen/xpu/detail/HostKernelAllocator.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>
#include <c10/xpu/XPUGuard.h>

#include <cstdint>
#include <optional>

namespace at::xpu {

// Note [Host memory]
// ~~~~~~~~~~~~~~~~~~
// The memory of a SYCL CPU device is host memory: what works on CPU tensors can
// work on the bytes of an XPU tensor. TORCH_XPU_HOST_MEMORY=0 has such devices
// treated like a GPU, to try on any machine what happens there.
//
// An alias is a storage of the other device over the same bytes, made in O(1).
// It keeps the storage that it was made from alive, and has its size: resizing
// one is not seen by the other.

/// What an environment variable says; nothing if it is not set. Raises if it is
/// neither 0 nor 1.
std::optional<bool> zeroOrOne(const char* variable);

/// Whether CPU kernels can work on the memory of the device.
C10_EXPORT bool isHostMemory(DeviceIndex device);

/// The CPU's alias of a storage on an XPU device, and the reverse. Neither
/// waits for work on a stream. Raise where the memory is not host memory.
C10_EXPORT Storage hostAlias(const Storage& storage);
C10_EXPORT Storage deviceAlias(const Storage& storage, DeviceIndex device);

/// The memory of a storage; that of an alias belongs to what it was made from.
C10_EXPORT const DataPtr& ownedMemory(const Storage& storage);

/// Raises while the stream records a graph, which would miss what runs on the
/// host: the operator or function of this name.
C10_EXPORT void checkNotRecording(c10::xpu::XPUStream stream, const char* name);

/// The same quantizer, with its scales and zero points on the device.
QuantizerPtr quantizerOn(const QuantizerPtr& quantizer, Device device);

/// One computation on the host with tensors of an XPU device:
///
///   HostCall call(x.device().index(), "aten::tanh");
///   Tensor y = call.toDevice(at::tanh(call.toHost(x)));
///   call.finish();
///
/// It takes its place on the current stream: the constructor waits until the
/// stream is idle, and raises the errors of its work; it raises with the name
/// if the stream records a graph. An operator that may wait here calls
/// warn_or_error_on_sync() first.
///
/// Where the memory is host memory, nothing is copied, and what CPU kernels
/// allocate in the meantime on this thread is memory of the device. Elsewhere
/// arguments and results are copied, the arguments to pinned memory unless
/// `pinned` is false: kernels for sparse tensors compare what is pinned.
class C10_EXPORT HostCall {
 public:
  HostCall(DeviceIndex device, const char* name, bool pinned = true);
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Gives a tensor that shares its storage until it is written one of its own.
  /// To be called for all that are written before any is asked for.
  static void willWrite(const Tensor& tensor);

  /// Says that toHost will be asked for this tensor. Needed only where several
  /// arguments may overlap and one of them is written.
  void expect(const Tensor& tensor);

  /// The CPU tensor for one of XPU; any other is returned as it is. A tensor
  /// that will be written, resized or otherwise changed has to say so.
  Tensor toHost(const Tensor& tensor, bool written = false);

  /// The same on host memory for a dense tensor that is only read and that no
  /// result shares memory with. Nothing is kept of it: the second reference to
  /// a tensor of Python takes Python's lock.
  static Tensor borrow(const Tensor& tensor);

  /// The XPU tensor for a CPU tensor that was computed: the argument itself
  /// where toHost made it, a view of one where it shares its storage, else a
  /// tensor with the bytes of the host's.
  Tensor toDevice(const Tensor& tensor);

  /// Updates the arguments that were written: their elements, and where a
  /// kernel has resized one, its shape and storage. Nothing else of a storage
  /// is written, since another thread may do so at the same time. Without this
  /// call the contents of written arguments are undefined.
  void finish();

  /// Whether it works on the device's memory, see Note [Host memory].
  bool onHostMemory() const {
    return host_memory_;
  }

  /// What was copied between host and device so far.
  uint64_t bytesCopied() const {
    return bytes_copied_;
  }

 private:
  // A part of an XPU storage and the CPU storage that stands for it.
  struct Region {
    /// Where it begins, in elements of the tensor's type.
    int64_t firstElement(const Tensor& tensor) const {
      return begin / static_cast<int64_t>(tensor.dtype().itemsize());
    }

    Storage device;
    int64_t begin; // bytes
    int64_t end;
    Storage host; // null until it is needed
    c10::SmallVector<Tensor, 1> written{}; // tensors on the host
  };
  struct Argument {
    Tensor device;
    Tensor host;
    bool written;
  };

  Region& regionOf(const Tensor& tensor);
  Storage newHostStorage(Region& region);
  Tensor toHostStrided(const Tensor& tensor);
  Region* findHost(const Storage& host);
  /// Has the device's storage own the memory of the host's: memory of the
  /// device is moved, and aliased by the host's, any other is copied.
  void giveMemory(const Storage& host, const Storage& device);
  Region& toDevice(const Storage& host);
  void setStorage(Region& region);
  void finish(Argument& argument);
  void copy(void* to, const void* from, size_t nbytes);
  void copyElements(const Region& region, const Tensor& host);

  const DeviceIndex device_;
  const bool host_memory_;
  const bool pinned_;
  const detail::DeviceMemoryScope scope_;
  c10::xpu::OptionalXPUGuard guard_;
  uint64_t bytes_copied_ = 0;
  c10::SmallVector<Region, 4> regions_;
  c10::SmallVector<Argument, 4> arguments_;
};

} // namespace at::xpu
