#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Sort.h>
#include <ATen/xpu/detail/StructuredCall.h>

#include <tuple>

// Operators that find elements by their order: sort, topk, kthvalue, median,
// nanmedian, mode.

namespace at::xpu::detail {

namespace {

struct SortHow {
  static bool run(
      const Tensor& values,
      const Tensor& indices,
      const Tensor& self,
      c10::optional<bool> /*stable*/,
      int64_t dim,
      bool descending) {
    static const std::string name = "aten::sort";
    if (!canSort(self)) {
      return false;
    }
    sortTo(name, values, indices, self, dim, descending);
    return true;
  }
};

struct TopkHow {
  static bool run(
      const Tensor& values,
      const Tensor& indices,
      const Tensor& self,
      int64_t /*k*/,
      int64_t dim,
      bool largest,
      bool sorted) {
    static const std::string name = "aten::topk";
    if (!canSort(self)) {
      return false;
    }
    sortTo(name, values, indices, self, dim, largest, sorted);
    return true;
  }
};

// Operators that leave one element of a dimension. What the CPU would not take
// goes to the host, which says so.

/// Values and their places, along a dimension that has a size of 1 in them.
using Found = std::tuple<Tensor, Tensor>;

/// The k-th in the order, from 1 on.
Found kthOf(const std::string& op, const Tensor& self, int64_t dim, int64_t k) {
  DimVector sizes(self.sizes());
  sizes[dim] = k;
  const auto values = at::empty(sizes, self.options());
  const auto indices = at::empty(sizes, self.options().dtype(kLong));
  sortTo(op, values, indices, self, dim, /*descending=*/false, false);
  return {values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)};
}

Found medianOf(const Tensor& self, int64_t dim) {
  static const std::string name = "aten::median";
  auto found = kthOf(name, self, dim, (self.size(dim) + 1) / 2);
  if (!isFloatingType(self.scalar_type())) {
    return found;
  }
  // The first NaN where there is one.
  const auto nan = self.isnan();
  const auto indices = at::where(
      nan.any(dim, /*keepdim=*/true),
      nan.to(kByte).argmax(dim, /*keepdim=*/true),
      std::get<1>(found));
  return {self.gather(dim, indices), indices};
}

Found nanmedianOf(const Tensor& self, int64_t dim) {
  if (!isFloatingType(self.scalar_type())) {
    return medianOf(self, dim);
  }
  const auto sorted = at::sort(self, c10::make_optional(true), dim);
  const auto nans = self.isnan().sum(dim, /*keepdim=*/true);
  const auto last = (self.size(dim) - 1 - nans).clamp_min(0);
  const auto place = at::bitwise_right_shift(last, numberOn(last, 1));
  return {
      std::get<0>(sorted).gather(dim, place),
      std::get<1>(sorted).gather(dim, place)};
}

/// The most frequent value, the least of these, and the last place it has.
Found modeOf(const Tensor& self, int64_t dim) {
  const auto sorted = at::sort(self, c10::make_optional(true), dim);
  const auto& values = std::get<0>(sorted);
  const auto size = self.size(dim);
  const auto differs =
      values.narrow(dim, 1, size - 1).ne(values.narrow(dim, 0, size - 1));
  const auto value = at::zeros(values.sizes(), values.options().dtype(kLong));
  value.narrow(dim, 1, size - 1).copy_(differs.cumsum(dim));
  const auto counts =
      at::zeros_like(value).scatter_add_(dim, value, at::ones_like(value));
  const auto place = counts.cumsum(dim)
                         .gather(dim, counts.argmax(dim, /*keepdim=*/true))
                         .sub(1);
  return {values.gather(dim, place), std::get<1>(sorted).gather(dim, place)};
}

/// Writes what `find` finds to results, which get the size; false if the device
/// does not.
template <typename Find>
bool findTo(
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim,
    bool keepdim,
    const Find& find) {
  if (!canSort(self) || self.numel() == 0 ||
      !areOn(self.device().index(), values, indices) ||
      values.scalar_type() != self.scalar_type() ||
      indices.scalar_type() != kLong || values.is_alias_of(self) ||
      indices.is_alias_of(self)) {
    return false;
  }
  dim = maybe_wrap_dim(dim, self.dim());
  const Found found = find(withDim(self), dim);
  const auto write = [&](const Tensor& from, const Tensor& to) {
    const auto made = keepdim && self.dim() > 0 ? from : from.squeeze(dim);
    at::native::resize_output(to, made.sizes());
    to.copy_(made);
  };
  write(std::get<0>(found), values);
  write(std::get<1>(found), indices);
  return true;
}

bool kthvalueOut(
    const Tensor& self,
    int64_t k,
    int64_t dim,
    bool keepdim,
    const Tensor& values,
    const Tensor& indices) {
  static const std::string name = "aten::kthvalue";
  const auto size = self.dim() == 0 ? 1 : self.size(dim);
  const auto find = [&](const Tensor& self, int64_t dim) {
    return kthOf(name, self, dim, k);
  };
  return k >= 1 && k <= size &&
      findTo(values, indices, self, dim, keepdim, find);
}

template <Found (*find)(const Tensor&, int64_t)>
bool findOut(
    const Tensor& self,
    int64_t dim,
    bool keepdim,
    const Tensor& values,
    const Tensor& indices) {
  return findTo(values, indices, self, dim, keepdim, find);
}

Found mode(const Tensor& self, int64_t dim, bool keepdim) {
  const auto values = at::empty({0}, self.options());
  const auto indices = at::empty({0}, self.options().dtype(kLong));
  return findTo(values, indices, self, dim, keepdim, &modeOf)
      ? Found(values, indices)
      : Found();
}

/// Among all elements.
template <Found (*find)(const Tensor&, int64_t)>
Tensor findOfAll(const Tensor& self) {
  return canSort(self) && self.numel() > 0 && self.numel() <= kMostElements
      ? std::get<0>(find(self.reshape(-1), 0)).squeeze(0).clone()
      : Tensor();
}

void registerSort(torch::Library& library) {
  XPU_ADD_STRUCTURED(sort_stable, sort_values_stable, SortHow)
  XPU_ADD_STRUCTURED(topk, topk_values, TopkHow)
  addFunction<at::_ops::kthvalue_values, &kthvalueOut>(library);
  addFunction<at::_ops::median, &findOfAll<&medianOf>>(library);
  addFunction<at::_ops::median_dim_values, &findOut<&medianOf>>(library);
  addFunction<at::_ops::nanmedian, &findOfAll<&nanmedianOf>>(library);
  addFunction<at::_ops::nanmedian_dim_values, &findOut<&nanmedianOf>>(library);
  addFunction<at::_ops::mode, &mode>(library);
}

[[maybe_unused]] const bool kSortAdded = addKernels(&registerSort);

} // namespace

} // namespace at::xpu::detail
