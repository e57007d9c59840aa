#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <limits>

// cumsum, kernels/Scan.sycl, and cat, which copies.

namespace at::xpu::detail {

namespace {

constexpr std::array<const char*, 4> kScanNames{
    "elements_sums",
    "elements_scan",
    "chunks_sums",
    "chunks_scan"};

const char* scanSource() {
  return
#include <ATen/xpu/kernels/Scan.sycl>
      ;
}

std::string scanSourceOf(int type) {
  return typedSource(type) + reduceSource() + scanSource();
}

const NamedKernels kScanKernels("scan", &scanSourceOf, kScanNames);

struct Scan {
  KernelType type{};
  DeviceIndex device = 0;
  int64_t rows = 1;
  int64_t size = 1;
  int64_t inner = 1;
  bool of_sums = false; // of chunks
};

/// Scans tensors without gaps, see Note [Scans].
void scanTo(const Tensor& result, const Tensor& input, const Scan& scan) {
  constexpr int64_t kTogether = 64; // elements of a row, from which on
  constexpr int64_t kOfItem = 4; // elements, as in the source
  constexpr int64_t kMostInGroup = 256;
  static const std::string name = "aten::cumsum";
  const auto items = itemsWanted(scan.device);
  const auto stream = c10::xpu::getCurrentXPUStream(scan.device);
  const bool together = scan.inner == 1 && scan.size >= kTogether;
  int64_t group = together ? 32 : 1;
  while (together && group < kMostInGroup && scan.size >= 2 * group * kOfItem) {
    group *= 2;
  }
  const auto enough = items / group;
  const auto least = together ? 4 * group * kOfItem : 64;
  const bool one = scan.size <= least || scan.rows >= enough;
  const auto part = (scan.size * scan.rows + enough - 1) / enough;
  const auto chunk = one
      ? scan.size
      : (std::max(part, int64_t(1)) + least - 1) / least * least;
  const auto chunks = (scan.size + chunk - 1) / chunk;
  const auto launch = [&](int kernel,
                          std::initializer_list<KernelArgument> pointers) {
    const auto& found = requireKernel(
        kScanKernels.find(
            kernel + (scan.of_sums ? 2 : 0), scan.type, scan.device),
        name);
    c10::SmallVector<KernelArgument, 9> arguments(pointers);
    for (const auto number :
         {scan.rows, scan.size, scan.inner, chunk, chunks, int64_t(together)}) {
      arguments.emplace_back(uint32_t(number));
    }
    launchKernel(
        found,
        stream,
        name,
        scan.rows * chunks * group,
        arguments,
        together ? uint32_t(group) : 0);
  };
  Tensor sums;
  if (!one) {
    const auto type = scan.type == f64 ? kDouble
        : FLOATING & (1 << scan.type)  ? kFloat
                                       : kLong;
    sums = at::empty({scan.rows * chunks}, input.options().dtype(type));
    launch(0, {sums.data_ptr(), input.data_ptr()});
    scanTo(sums, sums, {scan.type, scan.device, scan.rows, chunks, 1, true});
  }
  launch(
      1,
      {result.data_ptr(),
       input.data_ptr(),
       sums.defined() ? sums.data_ptr() : nullptr});
}

bool runCumsum(const Tensor& result, const Tensor& self, int64_t dim) {
  const auto device = self.device().index();
  const bool integral =
      isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const auto natural = integral ? kLong : self.scalar_type();
  const auto asked = result.scalar_type();
  const auto input = (asked == natural ? self : self.to(asked)).contiguous();
  const auto type = kernelType(input.scalar_type(), device);
  if (!type || self.numel() > std::numeric_limits<int32_t>::max() ||
      !kScanKernels.find(1, *type, device)) {
    return false;
  }
  if (self.numel() == 0) {
    return true;
  }
  Scan scan{*type, device};
  dim = maybe_wrap_dim(dim, self.dim());
  for (const auto d : c10::irange(self.dim())) {
    (d == dim ? scan.size : scan.rows) *= self.size(d);
    scan.inner *= d > dim ? self.size(d) : 1;
  }
  const auto written = FLOATING & (1 << *type) ? input.scalar_type() : kLong;
  const auto to = writable(result, written);
  scanTo(to, input, scan);
  copyUnlessSame(result, to);
  return true;
}

using CumsumMeta = WithOutput<at::meta::structured_cumsum>;

Tensor cumsum(
    const Tensor& self,
    int64_t dim,
    c10::optional<ScalarType> dtype) {
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    CumsumMeta op(CumsumMeta::Kind::New, Tensor());
    op.meta(self, dim, dtype);
    if (runCumsum(op.maybe_get_output(0), self, dim)) {
      return op.maybe_get_output(0);
    }
  }
  return OnHost<at::_ops::cumsum>::call(self, dim, dtype);
}

Tensor& cumsumInPlace(
    Tensor& self,
    int64_t dim,
    c10::optional<ScalarType> dtype) {
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    CumsumMeta op(CumsumMeta::Kind::InPlace, self);
    op.meta(self, dim, dtype);
    if (runCumsum(self, self, dim)) {
      return self;
    }
  }
  return OnHost<at::_ops::cumsum_>::call(self, dim, dtype);
}

Tensor& cumsumOut(
    const Tensor& self,
    int64_t dim,
    c10::optional<ScalarType> dtype,
    Tensor& out) {
  const auto device = kernelDevice(self);
  if (device && out.is_xpu()) {
    const c10::xpu::XPUGuard guard(*device);
    CumsumMeta op(CumsumMeta::Kind::Out, out);
    op.meta(self, dim, dtype);
    if (runCumsum(out, self, dim)) {
      return out;
    }
  }
  return OnHost<at::_ops::cumsum_out>::call(self, dim, dtype, out);
}

// What is together is copied, each part by itself.

/// The device of all the tensors if its kernels copy them.
std::optional<DeviceIndex> deviceOfParts(const ITensorListRef& tensors) {
  std::optional<DeviceIndex> device;
  for (const Tensor& tensor : tensors) {
    const auto its = kernelDevice(tensor);
    if (!its || (device && *device != *its) || tensor.is_quantized()) {
      return std::nullopt;
    }
    device = its;
  }
  return device;
}

void copyParts(
    const Tensor& result,
    const ITensorListRef& tensors,
    int64_t dim) {
  dim = maybe_wrap_dim(dim, result.dim());
  int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() == 1 && tensor.size(0) == 0) {
      continue; // it may be among tensors of more dimensions
    }
    const auto size = tensor.size(dim);
    if (tensor.numel() > 0) {
      result.narrow(dim, at, size).copy_(tensor);
    }
    at += size;
  }
}

using CatMeta = WithOutput<at::meta::structured_cat>;

Tensor cat(const ITensorListRef& tensors, int64_t dim) {
  if (const auto device = deviceOfParts(tensors)) {
    const c10::xpu::XPUGuard guard(*device);
    CatMeta op(CatMeta::Kind::New, Tensor());
    op.meta(tensors, dim);
    copyParts(op.maybe_get_output(0), tensors, dim);
    return op.maybe_get_output(0);
  }
  return OnHost<at::_ops::cat>::call(tensors, dim);
}

Tensor& catOut(const ITensorListRef& tensors, int64_t dim, Tensor& out) {
  const auto device = deviceOfParts(tensors);
  if (device && out.is_xpu() && out.device().index() == *device) {
    const c10::xpu::XPUGuard guard(*device);
    CatMeta op(CatMeta::Kind::Out, out);
    op.meta(tensors, dim);
    copyParts(out, tensors, dim);
    return out;
  }
  return OnHost<at::_ops::cat_out>::call(tensors, dim, out);
}

void registerScan(torch::Library& library) {
  library.impl("cumsum", &cumsum);
  library.impl("cumsum_", &cumsumInPlace);
  library.impl("cumsum.out", &cumsumOut);
  library.impl("cat", &cat);
  library.impl("cat.out", &catOut);
}

[[maybe_unused]] const bool kScanAdded = addKernels(&registerScan);

} // namespace

} // namespace at::xpu::detail
