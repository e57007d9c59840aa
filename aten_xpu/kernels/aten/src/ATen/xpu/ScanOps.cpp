#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>

// cumsum and others, kernels/Scan.sycl, and cat, which copies.

namespace at::xpu::detail {

namespace {

// Each has three kernels.
enum class ScanKind { Numbers, Places, Exponentials };
enum ScanStep { kStates, kChunks, kScan, kSteps };

std::string scanSourceOf(int type) {
  constexpr const char* kSource =
#include <ATen/xpu/kernels/Scan.sycl>
      ;
  return typedSource(type) +
      (FLOATING & (1 << type) ? "#define XPU_FLOATING\n" : "") +
      reduceSource() + kSource;
}

const KernelFamily kScanFamily("scan", &scanSourceOf);
const std::array<NamedKernel, size_t(3) * kSteps> kScanKernels{
    {{kScanFamily, "numbers_states"},
     {kScanFamily, "numbers_chunks"},
     {kScanFamily, "numbers_scan"},
     {kScanFamily, "places_states"},
     {kScanFamily, "places_chunks"},
     {kScanFamily, "places_scan"},
     {kScanFamily, "exponentials_states"},
     {kScanFamily, "exponentials_chunks"},
     {kScanFamily, "exponentials_scan"}}};

struct Scan {
  const std::string op;
  ScanKind kind;
  uint32_t how; // a product or the smallest
};

/// How a tensor without gaps is scanned, see Note [Scans].
struct ScanRows {
  KernelType type{};
  DeviceIndex device = 0;
  int64_t rows = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

/// `places` may be undefined.
void launchScan(
    const Scan& scan,
    const ScanRows& of,
    const Tensor& result,
    const Tensor& places,
    const Tensor& input) {
  constexpr int64_t kGroup = 32;
  constexpr int64_t kTogether = 64; // elements of a row, from which on
  constexpr int64_t kMostOfState = 16; // bytes
  const bool together = of.inner == 1 && of.size >= kTogether;
  const auto group = together ? kGroup : 1;
  const auto enough = itemsWanted(of.device) / group;
  const auto least = together ? 1024 : 64;
  const auto part = (of.size * of.rows + enough - 1) / enough;
  const auto chunk =
      of.rows >= enough ? of.size : (part + least - 1) / least * least;
  const auto chunks = (of.size + chunk - 1) / chunk;
  const auto launch = [&](ScanStep step,
                          int64_t groups,
                          int64_t in_group,
                          std::initializer_list<KernelArgument> first,
                          std::initializer_list<int64_t> numbers) {
    c10::SmallVector<KernelArgument, 11> arguments;
    for (const auto& argument : first) { // of append() GCC warns
      arguments.push_back(argument);
    }
    arguments.emplace_back(scan.how);
    for (const auto number : numbers) {
      arguments.emplace_back(uint32_t(number));
    }
    kScanKernels[size_t(scan.kind) * kSteps + step].launch(
        scan.op,
        of.type,
        of.device,
        groups * in_group,
        arguments,
        in_group > 1 ? uint32_t(in_group) : 0);
  };
  const auto numbers = {
      of.rows, of.size, of.inner, chunk, chunks, int64_t(together)};
  Tensor states;
  if (chunks > 1) {
    states = at::empty(
        {of.rows * chunks * kMostOfState}, input.options().dtype(kByte));
    launch(
        kStates,
        of.rows * chunks,
        group,
        {states.data_ptr(), input.data_ptr()},
        numbers);
    launch(kChunks, of.rows, kGroup, {states.data_ptr()}, {chunks});
  }
  launch(
      kScan,
      of.rows * chunks,
      group,
      {result.data_ptr(),
       pointerOf(places),
       input.data_ptr(),
       pointerOf(states)},
      numbers);
}

/// Returns false, and changes nothing, if no kernel fits.
bool runScan(
    const Scan& scan,
    const Tensor& result,
    const Tensor& places,
    const Tensor& self,
    int64_t dim) {
  const auto device = self.device().index();
  const bool numbers = scan.kind == ScanKind::Numbers;
  const auto natural =
      numbers && isIntegralType(self.scalar_type(), /*includeBool=*/true)
      ? kLong
      : self.scalar_type();
  const auto asked = result.scalar_type();
  if (result.device() != self.device() || (!numbers && asked != natural) ||
      self.numel() > kMostElements) {
    return false;
  }
  const auto input = (asked == natural ? self : self.to(asked)).contiguous();
  const auto type = kernelType(input.scalar_type(), device);
  if (!type ||
      (scan.kind == ScanKind::Exponentials && !(FLOATING & (1 << *type))) ||
      !kScanKernels[size_t(scan.kind) * kSteps].find(*type, device)) {
    return false;
  }
  dim = maybe_wrap_dim(dim, self.dim());
  if (self.numel() == 0) {
    return true;
  }
  at::assert_no_partial_overlap(result, self);
  ScanRows of{*type, device};
  for (const auto d : c10::irange(self.dim())) {
    (d == dim ? of.size : of.rows) *= self.size(d);
    of.inner *= d > dim ? self.size(d) : 1;
  }
  const bool widened = numbers && !(FLOATING & (1 << *type));
  const auto to = writable(result, widened ? kLong : input.scalar_type());
  const auto to_places = places.defined() ? writable(places, kLong) : places;
  launchScan(scan, of, to, to_places, input);
  copyUnlessSame(result, to);
  if (places.defined()) {
    copyUnlessSame(places, to_places);
  }
  return true;
}

/// Of cumsum and cumprod.
template <bool product>
struct Cumulative {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      int64_t dim,
      const c10::optional<ScalarType>& dtype) {
    static const Scan scan{
        product ? "aten::cumprod" : "aten::cumsum", ScanKind::Numbers, product};
    if (!self.is_xpu()) {
      return false;
    }
    op.meta(self, dim, dtype);
    const auto& result = op.maybe_get_output(0);
    if (!result.is_complex() || self.dim() == 0) {
      return runScan(scan, result, Tensor(), self, dim);
    }
    const auto input = self.to(result.scalar_type());
    const auto wrapped = maybe_wrap_dim(dim, self.dim());
    return product ? byDoubling(result, input, wrapped)
                   : runScan( // of the parts
                         scan,
                         at::view_as_real(result),
                         Tensor(),
                         at::view_as_real(input),
                         wrapped);
  }

 private:
  /// Products of 2 elements, then of 4, and so on.
  static bool byDoubling(const Tensor& result, Tensor x, int64_t dim) {
    if (!kernelTypeOfParts(x.scalar_type(), x.device().index())) {
      return false;
    }
    const auto size = x.size(dim);
    for (int64_t by = 1; by < size; by *= 2) {
      const auto products =
          x.narrow(dim, by, size - by) * x.narrow(dim, 0, size - by);
      x = at::cat({x.narrow(dim, 0, by), products}, dim);
    }
    result.copy_(x);
    return true;
  }
};

/// Of cummax and cummin, whose operators make the tensors.
template <class Op, bool smallest>
void extremes(
    const Tensor& self,
    Tensor& values,
    Tensor& indices,
    int64_t dim) {
  static const Scan scan{
      smallest ? "aten::cummin" : "aten::cummax", ScanKind::Places, smallest};
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    if (indices.device() == self.device() &&
        runScan(scan, values, indices, self, dim)) {
      return;
    }
  }
  OnHost<Op>::call(self, values, indices, dim);
}

Tensor& logcumsumexpOut(const Tensor& self, int64_t dim, Tensor& out) {
  static const Scan scan{"aten::logcumsumexp", ScanKind::Exponentials, 0};
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    if (out.sizes() == self.sizes() &&
        runScan(scan, out, Tensor(), self, dim)) {
      return out;
    }
  }
  return OnHost<at::_ops::_logcumsumexp_out>::call(self, dim, out);
}

Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  auto out = at::empty_like(self, MemoryFormat::Contiguous);
  return logcumsumexpOut(self, dim, out);
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
  if (result.numel() == 0) {
    return; // it may have fewer dimensions than `dim` says
  }
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
#define XPU_ADD_SCAN(op, product) \
  addStructured<                  \
      at::meta::structured_##op,  \
      Cumulative<product>,        \
      at::_ops::op,               \
      at::_ops::op##_,            \
      at::_ops::op##_out>(library);
  XPU_ADD_SCAN(cumsum, false)
  XPU_ADD_SCAN(cumprod, true)
#undef XPU_ADD_SCAN
  library.impl("_cummax_helper", &extremes<at::_ops::_cummax_helper, false>);
  library.impl("_cummin_helper", &extremes<at::_ops::_cummin_helper, true>);
  library.impl("_logcumsumexp", &logcumsumexp);
  library.impl("_logcumsumexp.out", &logcumsumexpOut);
  library.impl("cat", &cat);
  library.impl("cat.out", &catOut);
}

[[maybe_unused]] const bool kScanAdded = addKernels(&registerScan);

} // namespace

} // namespace at::xpu::detail
