#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/accumulate.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

// Operators that find the elements which a mask has: nonzero, masked_select,
// masked_scatter_, tril_indices; and _assert_async. The first two wait, since
// the size of the result depends on the mask.

namespace at::xpu::detail {

namespace {

/// How many elements are not 0 up to each, in the order of a tensor without
/// gaps.
Tensor countsOf(const Tensor& self) {
  const auto zero = self.scalar_type() == kBool ? Scalar(false) : Scalar(0);
  const auto mask = self.scalar_type() == kBool ? self : self.ne(zero);
  return mask.reshape(-1).cumsum(0);
}

bool canCount(const Tensor& self) {
  const auto device = kernelDevice(self);
  return device && areOn(*device, self) &&
      kernelType(self.scalar_type(), *device) &&
      self.numel() <= kMostElements &&
      hasIndexKernel(IndexKernel::Take, kLong, *device);
}

/// The places of the elements that are counted.
Tensor placesOf(const std::string& op, const Tensor& counts) {
  const auto total = counts.numel() == 0 ? 0 : counts[-1].item<int64_t>();
  auto places = at::empty({total}, counts.options());
  if (total > 0) {
    runNonzero(op, places, counts, 1, counts.numel());
  }
  return places;
}

/// Writes an index of each element that is counted, up to the size of `out`.
void writeIndices(
    const std::string& op,
    const Tensor& self,
    const Tensor& counts,
    const Tensor& out) {
  auto inner = self.numel();
  for (int64_t d = 0; d < self.dim() && out.numel() > 0 && inner > 0; ++d) {
    inner /= self.size(d);
    runNonzero(op, out.select(1, d), counts, inner, self.size(d));
  }
}

bool nonzeroOut(const Tensor& self, const Tensor& out) {
  static const std::string name = "aten::nonzero";
  if (!canCount(self) || !areOn(self.device().index(), out) ||
      out.scalar_type() != kLong) {
    return false;
  }
  assertApart(out, self);
  const auto counts = countsOf(self);
  const auto total = counts.numel() == 0 ? 0 : counts[-1].item<int64_t>();
  const auto dims = self.dim();
  if (at::native::resize_output(out, {total, dims})) {
    out.as_strided_({total, dims}, {1, total}); // as PyTorch's
  }
  writeIndices(name, self, counts, out);
  return true;
}

Tensor nonzero(const Tensor& self) {
  const auto out = at::empty({0}, self.options().dtype(kLong));
  return nonzeroOut(self, out) ? out : Tensor();
}

#ifdef XPU_LATER_OPERATORS
bool nonzeroStaticOut(
    const Tensor& self,
    int64_t size,
    int64_t fill_value,
    const Tensor& out) {
  static const std::string name = "aten::nonzero_static";
  if (size < 0 || !canCount(self) || !areOn(self.device().index(), out) ||
      out.scalar_type() != kLong) {
    return false;
  }
  assertApart(out, self);
  at::native::resize_output(out, {size, self.dim()});
  out.fill_(fill_value);
  writeIndices(name, self, countsOf(self), out);
  return true;
}

Tensor nonzeroStatic(const Tensor& self, int64_t size, int64_t fill_value) {
  const auto out = at::empty({0}, self.options().dtype(kLong));
  return nonzeroStaticOut(self, size, fill_value, out) ? out : Tensor();
}
#endif

/// Of tril_indices, or of triu_indices if `upper`.
template <class Op, bool upper>
Tensor triangleIndices(
    int64_t row,
    int64_t col,
    int64_t offset,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory) {
  static const std::string name = nameOf<Op>();
  const c10::xpu::OptionalXPUGuard guard(device);
  const auto found = c10::xpu::current_device();
  if (row < 0 || col < 0 || double(row) * double(col) > kMostElements ||
      pin_memory.value_or(false) || layout.value_or(kStrided) != kStrided ||
      !hasIndexKernel(IndexKernel::Take, kLong, found)) {
    return OnHost<Op>::call(
        row, col, offset, dtype, layout, device, pin_memory);
  }
  const auto options = TensorOptions(Device(kXPU, found));
  const auto ones = at::ones({row, col}, options.dtype(kBool));
  const auto size = upper
      ? row * col - at::native::get_tril_size(row, col, offset - 1)
      : at::native::get_tril_size(row, col, offset);
  const auto indices = at::empty({2, size}, options.dtype(kLong));
  writeIndices(
      name,
      ones,
      countsOf(upper ? ones.triu(offset) : ones.tril(offset)),
      indices.t());
  return indices.to(dtype.value_or(kLong));
}

/// Both at once, as the host has nothing to say.
bool canSelect(const Tensor& self, const Tensor& mask) {
  return canCount(mask) && areOn(mask.device().index(), self) &&
      mask.scalar_type() == kBool &&
      at::are_expandable(self.sizes(), mask.sizes()) &&
      c10::multiply_integers(
          at::infer_size_dimvector(self.sizes(), mask.sizes())) <=
      kMostElements &&
      hasIndexKernel(
             IndexKernel::Take, self.scalar_type(), mask.device().index());
}

bool maskedSelectOut(
    const Tensor& self,
    const Tensor& mask,
    const Tensor& out) {
  static const IndexOp name("masked_select", IndexWords::Elements, true);
  if (!canSelect(self, mask) || !areOn(self.device().index(), out) ||
      out.scalar_type() != self.scalar_type()) {
    return false;
  }
  assertApart(out, self, mask);
  const auto sizes = at::infer_size_dimvector(self.sizes(), mask.sizes());
  const auto places = placesOf(name.name, countsOf(mask.expand(sizes)));
  at::native::resize_output(out, places.sizes());
  const auto from = self.expand(sizes).reshape(-1);
  if (places.numel() > 0) {
    runIndex(
        name,
        IndexKernel::Take,
        out,
        restrided(from, 0, places.sizes()),
        places,
        rangeOf(from, 0));
  }
  return true;
}

Tensor maskedSelect(const Tensor& self, const Tensor& mask) {
  const auto out = at::empty({0}, self.options());
  return maskedSelectOut(self, mask, out) ? out : Tensor();
}

bool maskedScatter(
    const Tensor& self,
    const Tensor& mask,
    const Tensor& source) {
  static const IndexOp name("masked_scatter_", IndexWords::Ones, false);
  if (!canSelect(self, mask) || !areOn(self.device().index(), source) ||
      source.scalar_type() != self.scalar_type() ||
      !at::is_expandable_to(mask.sizes(), self.sizes()) ||
      at::has_internal_overlap(self) == MemOverlap::Yes) {
    return false;
  }
  at::assert_no_partial_overlap(self, mask);
  if (self.numel() == 0) {
    return true;
  }
  const auto whole = mask.expand(self.sizes());
  const auto counts = countsOf(whole).view(self.sizes());
  const bool none = source.numel() == 0; // then each 1 is one too many
  const auto places = none ? whole.to(kLong)
                           : (counts - 1).masked_fill_(whole.logical_not(), 0);
  const auto from =
      none ? at::empty({1}, source.options()) : source.reshape(-1);
  const auto values = at::empty(self.sizes(), self.options());
  runIndex(
      name,
      IndexKernel::Take,
      values,
      from.as_strided(self.sizes(), DimVector(self.dim(), 0)),
      places,
      rangeOf(from, 0));
  self.copy_(at::where(whole, values, self));
  return true;
}

/// With the code of its message, which is kept.
const IndexOp& assertionOf(const std::string& message) {
  static std::mutex mutex;
  static auto& all =
      *new std::unordered_map<std::string, IndexOp>; // never destroyed
  const std::lock_guard<std::mutex> lock(mutex);
  return all
      .try_emplace(message, "_assert_async", IndexWords::Given, false, message)
      .first->second;
}

void assertAsync(const Tensor& self) {
  assertOn(self, "Expected Tensor with single nonzero value, but got zero");
}

#ifdef XPU_LATER_OPERATORS
void assertAsyncWith(const Tensor& self, std::string_view message) {
  assertOn(
      self, std::string(message.empty() ? "Assertion is failed" : message));
}
#endif

void registerMasks(torch::Library& library) {
  library.impl("_assert_async", &assertAsync);
#ifdef XPU_LATER_OPERATORS
  library.impl("_assert_async.msg", &assertAsyncWith);
#endif
  addFunction<at::_ops::nonzero, &nonzero>(library);
  addFunction<at::_ops::nonzero_out, &nonzeroOut>(library);
#ifdef XPU_LATER_OPERATORS
  addFunction<at::_ops::nonzero_static, &nonzeroStatic>(library);
  addFunction<at::_ops::nonzero_static_out, &nonzeroStaticOut>(library);
#endif
  library.impl("tril_indices", &triangleIndices<at::_ops::tril_indices, false>);
  library.impl("triu_indices", &triangleIndices<at::_ops::triu_indices, true>);
  addFunction<at::_ops::masked_select, &maskedSelect>(library);
  addFunction<at::_ops::masked_select_out, &maskedSelectOut>(library);
  addFunction<at::_ops::masked_scatter_, &maskedScatter>(library);
}

[[maybe_unused]] const bool kMasksAdded = addKernels(&registerMasks);

} // namespace

/// 0 is an index that a tensor of one element has not got.
void assertOn(const Tensor& self, const std::string& message) {
  if (!canCount(self) || self.numel() != 1) {
#ifdef XPU_LATER_OPERATORS
    OnHost<at::_ops::_assert_async_msg>::call(self, message);
#else
    OnHost<at::_ops::_assert_async>::call(self);
#endif
    return;
  }
  const c10::xpu::XPUGuard guard(self.device());
  const auto index = self.reshape({1}).eq(0).to(kLong);
  runIndex(
      assertionOf(message),
      IndexKernel::Take,
      at::empty_like(index),
      index,
      index,
      {/*size=*/1});
}

void assertBetween(
    const Tensor& self,
    const Scalar& least,
    const c10::optional<Scalar>& most,
    const std::string& message) {
  assertOn(self.clamp(least, most).eq(self).all(), message);
}

} // namespace at::xpu::detail
