#include <ATen/ATen.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUException.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

// What is written by no function of its arguments. Tensors without gaps are
// filled by the device's own means, which need no kernel.

namespace at::xpu::detail {

namespace {

/// What is in memory.
Tensor withoutBits(const Tensor& tensor) {
  const auto result = tensor.is_neg() ? tensor._neg_view() : tensor;
  return result.is_conj() ? result.conj() : result;
}

/// Complex numbers by their parts, or numbers that are to be negated.
bool copyParts(const Tensor& self, const Tensor& src) {
  const auto to = withoutBits(self);
  const auto from = withoutBits(src);
  if (!to.is_complex()) {
    if (from.is_complex() && to.scalar_type() == kBool) {
      return false; // both parts count
    }
    if (from.is_complex()) {
      TORCH_WARN_ONCE(
          "Casting complex values to real discards the imaginary part");
    }
    to.copy_(from.is_complex() ? at::real(from) : from);
  } else {
    if (from.is_complex()) {
      at::view_as_real(to).copy_(at::view_as_real(from));
    } else {
      at::real(to).copy_(from);
      at::imag(to).zero_();
    }
    if (self.is_conj() != src.is_conj()) {
      at::imag(to).neg_();
    }
  }
  if (self.is_neg() != src.is_neg()) {
    to.neg_();
  }
  return true;
}

bool copyOnDevice(const Tensor& self, const Tensor& src) {
  if (!usesKernels(self.device().index()) || self._is_zerotensor() ||
      src._is_zerotensor()) {
    return false;
  }
  const bool moves = self.scalar_type() == src.scalar_type() &&
      self.scalar_type() != kComplexDouble; // no kernel moves so many bytes
  if (self.is_conj() != src.is_conj() || self.is_neg() != src.is_neg() ||
      ((self.is_complex() || src.is_complex()) && !moves)) {
    return copyParts(self, src);
  }
  auto iter = TensorIteratorConfig()
                  .add_output(self)
                  .add_input(src)
                  .resize_outputs(false)
                  .check_all_same_dtype(false)
                  .build();
  return runCopy(iter);
}

/// An element as bytes.
struct Pattern {
  std::array<char, 16> bytes{};
  size_t size = 0;

  bool isOneByte() const {
    return std::all_of(bytes.begin(), bytes.begin() + size, [&](char byte) {
      return byte == bytes[0];
    });
  }
};

/// Raises for a number that the type has not got, as on the CPU.
Pattern patternOf(const Scalar& value, ScalarType type) {
  Pattern pattern;
  if (type > ScalarType::BFloat16) { // such as float8
    const auto element = at::scalar_tensor(value, type);
    pattern.size = element.nbytes();
    std::memcpy(pattern.bytes.data(), element.data_ptr(), pattern.size);
    return pattern;
  }
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(
      kComplexHalf, kHalf, kBFloat16, kBool, type, "fill_", [&] {
        const auto element = value.to<scalar_t>();
        static_assert(sizeof(element) <= sizeof(pattern.bytes));
        std::memcpy(pattern.bytes.data(), &element, sizeof(element));
        pattern.size = sizeof(element);
      });
  return pattern;
}

template <typename T>
sycl::event fillWith(
    sycl::queue& queue,
    void* data,
    size_t nbytes,
    const Pattern& pattern) {
  T element{};
  std::memcpy(&element, pattern.bytes.data(), sizeof(element));
  return C10_XPU_CHECK(queue.fill(data, element, nbytes / sizeof(T)));
}

sycl::event fillBytes(
    sycl::queue& queue,
    void* data,
    size_t nbytes,
    const Pattern& pattern) {
  if (pattern.isOneByte()) {
    return C10_XPU_CHECK(queue.memset(data, pattern.bytes[0], nbytes));
  }
  switch (pattern.size) {
    case 2:
      return fillWith<uint16_t>(queue, data, nbytes, pattern);
    case 4:
      return fillWith<uint32_t>(queue, data, nbytes, pattern);
    case 8:
      return fillWith<uint64_t>(queue, data, nbytes, pattern);
    default:
      return fillWith<std::array<uint64_t, 2>>(queue, data, nbytes, pattern);
  }
}

/// Fills on the device if that can be.
bool fillOnDevice(const Tensor& self, const Scalar& value) {
  const auto device = self.device().index();
  const bool kernels = usesKernels(device);
  if (self.is_conj() || self.is_neg() || (isHostMemory(device) && !kernels)) {
    return false;
  }
  const c10::xpu::XPUGuard guard(device);
  const auto stream = c10::xpu::getCurrentXPUStream();
  const bool plain = !self.is_quantized();
  const auto pattern = plain ? patternOf(value, self.scalar_type()) : Pattern();
  if (plain && self.is_non_overlapping_and_dense()) {
    if (self.numel() > 0) {
      // Not in the launch: what is copied on write takes the stream.
      void* const data = self.data_ptr();
      launch(stream, "aten::fill_", self.nbytes(), [&](sycl::queue& queue) {
        return fillBytes(queue, data, self.nbytes(), pattern);
      });
    }
    return true;
  }
  if (!kernels) {
    return false;
  }
  if (self.is_complex()) {
    const auto number = value.toComplexDouble();
    at::real(self).fill_(number.real());
    at::imag(self).fill_(number.imag());
    return true;
  }
  auto iter = TensorIteratorConfig()
                  .set_check_mem_overlap(false) // as with PyTorch's
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .allow_cpu_scalars(true)
                  .add_owned_output(self)
                  .add_owned_input(
                      at::scalar_tensor(
                          value, TensorOptions(kCPU).dtype(self.scalar_type())))
                  .build();
  return runCopy(iter);
}

Tensor& fill_(Tensor& self, const Scalar& value) {
  return fillOnDevice(self, value)
      ? self
      : OnHost<at::_ops::fill__Scalar>::call(self, value);
}

Tensor& fillTensor(Tensor& self, const Tensor& value) {
  if (value.dim() == 0 && value.device() == self.device()) {
    return self.copy_(value.is_alias_of(self) ? value.clone() : value);
  }
  return value.dim() == 0 && value.is_cpu() && !self.is_quantized()
      ? self.fill_(value.to(self.scalar_type()).item())
      : OnHost<at::_ops::fill__Tensor>::call(self, value);
}

Tensor& zero_(Tensor& self) {
  return fillOnDevice(self, 0) ? self : OnHost<at::_ops::zero_>::call(self);
}

bool anyDevice(bool (*is)(DeviceIndex)) {
  const auto count = c10::xpu::device_count();
  for (const auto i : c10::irange(count)) {
    if (is(DeviceIndex(i))) {
      return true;
    }
  }
  return false;
}

struct AddedKernels {
  void (*add)(torch::Library& library);
  bool always;
};

auto& addedKernels() {
  static std::vector<AddedKernels> all;
  return all;
}

/// Nothing is registered that no device of the mapping uses, but what the host
/// computes in another way than the CPU's operators: the CPU device does else
/// as without kernels.
void registerKernels(torch::Library& library) {
  const bool kernels = anyDevice(&usesKernels);
  if (kernels || anyDevice([](auto device) { return !isHostMemory(device); })) {
    library.impl("fill_.Scalar", &fill_);
    library.impl("zero_", &zero_);
  }
  if (kernels) {
    kernelHooks().copy = &copyOnDevice;
    library.impl("fill_.Tensor", &fillTensor);
    registerPointwise(library);
  }
  for (const auto& added : addedKernels()) {
    if (kernels || added.always) {
      added.add(library);
    }
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  kernelHooks().add = &registerKernels;
  return true;
}();

} // namespace

std::string nameOf(const char* name, const std::string& overload) {
  return name + (overload.empty() ? overload : "." + overload);
}

bool addKernels(void (*add)(torch::Library& library), bool always) {
  addedKernels().push_back({add, always});
  return true;
}

} // namespace at::xpu::detail
