#include <ATen/ATen.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Random.h>
#include <ATen/xpu/detail/Sort.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>

// unique and its kin, and randperm: what follows from a sort. All but randperm
// wait, since the size of the result depends on the elements.

namespace at::xpu::detail {

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

/// What is asked for beside the elements.
struct Asked {
  bool inverse;
  bool counts;
};

Tensor sortedPlaces(const Tensor& keys) {
  return std::get<1>(at::sort(keys, c10::make_optional(true), 0));
}

/// Of elements or rows in which those that are the same are side by side: one
/// of each; for each the number of its one, and how many there are of these.
/// `order` has the places that they had, unless they still do.
Three uniqueOf(const Tensor& rows, const Tensor& order, const Asked& asked) {
  const auto size = rows.size(0);
  const auto options = rows.options();
  const auto begins = at::ones({size}, options.dtype(kBool));
  auto differs = rows.narrow(0, 1, size - 1).ne(rows.narrow(0, 0, size - 1));
  differs = differs.dim() > 1 ? differs.any(1) : differs;
  begins.narrow(0, 1, size - 1).copy_(differs);
  const auto places = at::nonzero(begins).squeeze(1);
  auto inverse = at::empty({0}, options.dtype(kLong));
  auto counts = at::empty({0}, options.dtype(kLong));
  if (asked.inverse) {
    const auto number = begins.cumsum(0).sub_(1);
    inverse = order.defined()
        ? at::empty_like(number).scatter_(0, order, number)
        : number;
  }
  if (asked.counts) {
    const auto before_last = places.size(0) - 1;
    counts = at::full_like(places, size);
    counts.narrow(0, 0, before_last).copy_(places.narrow(0, 1, before_last));
    counts.sub_(places);
  }
  return {rows.index_select(0, places), inverse, counts};
}

/// Of all elements, sorted before if they are not taken as they are. Nothing
/// where the host does it.
Three uniqueElements(const Tensor& self, bool consecutive, const Asked& asked) {
  if (!canSort(self) || self.numel() == 0) {
    return {};
  }
  const auto flat = self.reshape(-1);
  Tensor order;
  Tensor rows = flat;
  if (!consecutive) {
    std::tie(rows, order) = at::sort(flat, c10::make_optional(true), 0);
  }
  auto result = uniqueOf(rows, order, asked);
  auto& inverse = std::get<1>(result);
  inverse = asked.inverse ? inverse.view(self.sizes()) : inverse;
  return result;
}

/// Whether parts along a dimension are not so large that a sort by each element
/// of them would take long.
bool hasFewColumns(const Tensor& self, int64_t dim) {
  constexpr int64_t kMost = 256;
  return self.numel() / self.size(dim) <= kMost;
}

// The order of columns, by which parts are sorted, is that of each release.
#ifdef XPU_LATER_OPERATORS
Tensor toFront(const Tensor& self, int64_t dim) {
  return self.movedim(dim, 0);
}
Tensor fromFront(const Tensor& self, int64_t dim) {
  return self.movedim(0, dim);
}
#else
Tensor toFront(const Tensor& self, int64_t dim) {
  return self.transpose(dim, 0);
}
Tensor fromFront(const Tensor& self, int64_t dim) {
  return self.transpose(0, dim);
}
#endif

/// Of parts along a dimension. Nothing where the host does it.
Three uniqueParts(
    const Tensor& self,
    int64_t dim,
    bool consecutive,
    const Asked& asked) {
  if (!canSort(self) || self.numel() == 0 || self.dim() == 0 ||
      !(consecutive || hasFewColumns(self, dim))) {
    return {};
  }
  const auto moved = toFront(self, dim);
  auto rows = moved.reshape({moved.size(0), -1});
  Tensor order;
  if (!consecutive) { // by the last column first
    order = at::arange(rows.size(0), rows.options().dtype(kLong));
    for (auto column = rows.size(1); column-- > 0;) {
      const auto keys = rows.select(1, column).index_select(0, order);
      order = order.index_select(0, sortedPlaces(keys));
    }
    rows = rows.index_select(0, order);
  }
  auto result = uniqueOf(rows, order, asked);
  auto& values = std::get<0>(result);
  auto sizes = moved.sizes().vec();
  sizes[0] = values.size(0);
  values = fromFront(values.view(sizes), dim);
  return result;
}

Three unique2(const Tensor& self, bool /*sorted*/, bool inverse, bool counts) {
  return uniqueElements(self, /*consecutive=*/false, {inverse, counts});
}

std::tuple<Tensor, Tensor> unique(
    const Tensor& self,
    bool /*sorted*/,
    bool inverse) {
  const auto result = uniqueElements(self, false, {inverse, false});
  return {std::get<0>(result), std::get<1>(result)};
}

Three uniqueDim(
    const Tensor& self,
    int64_t dim,
    bool /*sorted*/,
    bool inverse,
    bool counts) {
  return uniqueParts(self, dim, /*consecutive=*/false, {inverse, counts});
}

Three uniqueDimConsecutive(
    const Tensor& self,
    int64_t dim,
    bool inverse,
    bool counts) {
  return uniqueParts(self, dim, /*consecutive=*/true, {inverse, counts});
}

Three uniqueConsecutive(
    const Tensor& self,
    bool inverse,
    bool counts,
    c10::optional<int64_t> dim) {
  return dim ? uniqueDimConsecutive(self, *dim, inverse, counts)
             : uniqueElements(self, /*consecutive=*/true, {inverse, counts});
}

/// The order of random numbers, of so many bits that hardly two are the same.
Tensor& randpermOut(
    int64_t n,
    c10::optional<Generator> generator,
    Tensor& out) {
  if (!out.is_xpu()) { // but the generator is
    return OnHost<at::_ops::randperm_generator_out>::call(n, generator, out);
  }
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  const c10::xpu::XPUGuard guard(out.device());
  const auto keys = at::empty({n}, out.options().dtype(kLong));
  drawIntegers(keys, generator, /*is_long=*/true, /*range=*/0, /*base=*/0);
  out.resize_({n});
  return out.copy_(sortedPlaces(keys));
}

void registerUnique(torch::Library& library) {
  addFunction<at::_ops::_unique, &unique>(library);
  addFunction<at::_ops::_unique2, &unique2>(library);
  addFunction<at::_ops::unique_dim, &uniqueDim>(library);
  addFunction<at::_ops::unique_dim_consecutive, &uniqueDimConsecutive>(library);
  addFunction<at::_ops::unique_consecutive, &uniqueConsecutive>(library);
}

void registerRandperm(torch::Library& library) {
  library.impl("randperm.generator_out", &randpermOut);
}

[[maybe_unused]] const bool kUniqueAdded = addKernels(&registerUnique);
[[maybe_unused]] const bool kRandpermAdded =
    addKernels(&registerRandperm, /*always=*/true);

} // namespace

} // namespace at::xpu::detail
