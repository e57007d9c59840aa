#include <ATen/ATen.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Sort.h>
#include <ATen/xpu/detail/Structured.h>
#include <ATen/xpu/detail/StructuredCall.h>

#include <algorithm>
#include <cmath>
#include <utility>

// searchsorted and bucketize, which find places in rows that are in order, and
// bincount and histc, which count.

namespace at::xpu::detail {

namespace {

bool searchsortedOut(
    const Tensor& rows,
    const Tensor& values,
    bool out_int32,
    bool right,
    c10::optional<c10::string_view> side,
    const Tensor& sorter,
    const Tensor& out) {
  static const std::string name = "aten::searchsorted";
  const auto type = at::result_type(rows, values);
  if (!canSort(rows) || !areOn(rows.device().index(), values, out) ||
      rows.is_complex() || type == kBool || isComplexType(type) ||
      values.numel() > kMostElements) {
    return false;
  }
  at::native::searchsorted_pre_check(
      rows, values, out, out_int32, right, side, sorter);
  at::native::resize_output(out, values.sizes());
  if (values.numel() == 0) {
    return true;
  }
  const auto to = writable(out, out.scalar_type());
  runSearch(
      name,
      to,
      values.to(type).contiguous(),
      rows.to(type).contiguous(),
      sorter.defined() ? sorter.contiguous() : Tensor(),
      side ? *side == "right" : right);
  copyUnlessSame(out, to);
  return true;
}

Tensor searchsorted(
    const Tensor& rows,
    const Tensor& self,
    bool out_int32,
    bool right,
    c10::optional<c10::string_view> side,
    const Tensor& sorter) {
  const auto out =
      at::empty({0}, rows.options().dtype(out_int32 ? kInt : kLong));
  return searchsortedOut(rows, self, out_int32, right, side, sorter, out)
      ? out
      : Tensor();
}

Tensor scalarLike(const Tensor& rows, const Scalar& number) {
  return at::native::searchsorted_scalar_tensor(number, rows.device());
}

Tensor searchsortedScalar(
    const Tensor& rows,
    const Scalar& self,
    bool out_int32,
    bool right,
    c10::optional<c10::string_view> side,
    const c10::optional<Tensor>& sorter) {
  return at::searchsorted(
      rows, scalarLike(rows, self), out_int32, right, side, sorter);
}

void checkBoundaries(const Tensor& boundaries) {
  TORCH_CHECK(
      boundaries.dim() == 1,
      "boundaries tensor must be 1 dimension, but got dim(",
      boundaries.dim(),
      ")");
}

Tensor& bucketizeOut(
    const Tensor& self,
    const Tensor& boundaries,
    bool out_int32,
    bool right,
    Tensor& out) {
  checkBoundaries(boundaries);
  return at::searchsorted_out(out, boundaries, self, out_int32, right);
}

Tensor bucketize(
    const Tensor& self,
    const Tensor& boundaries,
    bool out_int32,
    bool right) {
  checkBoundaries(boundaries);
  return at::searchsorted(boundaries, self, out_int32, right);
}

Tensor bucketizeScalar(
    const Scalar& self,
    const Tensor& boundaries,
    bool out_int32,
    bool right) {
  return at::bucketize(
      scalarLike(boundaries, self), boundaries, out_int32, right);
}

// Counts

/// How often each index is there, or what is given for it summed up.
Tensor addedUp(
    const Tensor& index,
    const Tensor& given,
    int64_t bins,
    ScalarType type) {
  return at::zeros({bins}, index.options().dtype(type))
      .scatter_add_(0, index, given.to(type).expand(index.sizes()));
}

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t least) {
  const auto device = self.device().index();
  const bool has = weights.defined();
  if (!areOn(device, self) || self.dim() != 1 || self.numel() == 0 ||
      least < 0 || !isIntegralType(self.scalar_type(), /*includeBool=*/false) ||
      (has && (!areOn(device, weights) || weights.sizes() != self.sizes()))) {
    return {};
  }
  const auto ends = at::stack({self.min(), self.max()}).to(kLong).cpu();
  const auto* const end = ends.data_ptr<int64_t>();
  if (end[0] < 0) {
    return {};
  }
  return addedUp(
      self.to(kLong),
      has ? weights : numberOn(self, 1),
      std::max(end[1] + 1, least),
      !has                                  ? kLong
          : weights.scalar_type() == kFloat ? kFloat
                                            : kDouble);
}

/// The range, of the elements if none is given, as the CPU has it. The host
/// says what is wrong with another one.
std::pair<double, double> rangeOfHistogram(
    const Tensor& self,
    const Scalar& low,
    const Scalar& high) {
  auto range = std::make_pair(low.to<double>(), high.to<double>());
  if (range.first == range.second && self.numel() > 0) {
    const auto ends = at::stack({self.min(), self.max()}).to(kDouble).cpu();
    range = {ends.data_ptr<double>()[0], ends.data_ptr<double>()[1]};
  }
  return range.first == range.second
      ? std::make_pair(range.first - 1, range.second + 1)
      : range;
}

Tensor histc(
    const Tensor& self,
    int64_t bins,
    const Scalar& low,
    const Scalar& high) {
  const auto type = self.scalar_type();
  if ((type != kFloat && type != kDouble) || bins <= 0) {
    return {};
  }
  auto range = rangeOfHistogram(self, low, high);
  if (!std::isfinite(range.first) || !std::isfinite(range.second) ||
      range.first >= range.second) {
    return {};
  }
  if (type == kFloat) { // as the CPU rounds them
    range = {float(range.first), float(range.second)};
  }
  const auto flat = self.reshape(-1);
  const auto inside = flat.ge(range.first).logical_and_(flat.le(range.second));
  const auto between = range.second - range.first;
  const auto width = type == kFloat ? float(between) : between;
#ifdef XPU_LATER_OPERATORS // it is rounded as in the CPU's order
  const auto place = flat.sub(range.first).mul_(bins).div_(width);
#else
  const auto place = flat.sub(range.first).div_(width).mul_(bins);
#endif
  const auto index = at::where(inside, place, numberOn(self, 0))
                         .to(kLong)
                         .clamp_max_(bins - 1);
  return addedUp(index, inside, bins, kLong).to(type);
}

void registerSearch(torch::Library& library) {
  addFunction<at::_ops::searchsorted_Tensor, &searchsorted>(library);
  addFunction<at::_ops::searchsorted_Tensor_out, &searchsortedOut>(library);
  library.impl("searchsorted.Scalar", &searchsortedScalar);
  library.impl("bucketize.Tensor", &bucketize);
  library.impl("bucketize.Tensor_out", &bucketizeOut);
  library.impl("bucketize.Scalar", &bucketizeScalar);
  addFunction<at::_ops::bincount, &bincount>(library);
  addFunction<at::_ops::histc, &histc>(library);
  addUnstructured<at::_ops::histc, By<&histc>, at::_ops::histc_out>(library);
}

[[maybe_unused]] const bool kSearchAdded = addKernels(&registerSearch);

} // namespace

} // namespace at::xpu::detail
