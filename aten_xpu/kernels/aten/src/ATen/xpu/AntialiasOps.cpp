#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/OpMathType.h>
#include <ATen/native/UpSample.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cmath>

namespace at::xpu::detail {

namespace {

/// Whether an axis that keeps its size is as before, whatever the scale.
#ifdef XPU_LATER_OPERATORS
constexpr bool kKeepsAxes = true;
#else
constexpr bool kKeepsAxes = false;
#endif

/// Interpolation with antialias: an element of a smaller result is a mean of
/// all that it stands for, along one axis after the other.
template <bool cubic>
struct Antialiased {
  static bool interpolate(
      const Tensor& result,
      const Tensor& from,
      bool back,
      bool corners,
      const c10::optional<double>& rows_scale,
      const c10::optional<double>& columns_scale) {
    if (!areFloating(from, result)) {
      return false;
    }
    const auto& in = back ? result : from;
    const auto& out = back ? from : result;
    auto sums = from.to(at::toOpMathType(from.scalar_type()));
    for (const auto dim : {3, 2}) {
      const auto& given = dim == 2 ? rows_scale : columns_scale;
      if (back || !kKeepsAxes || in.size(dim) != out.size(dim)) {
        sums =
            along(dim, sums, in.size(dim), out.size(dim), corners, given, back);
      }
    }
    result.copy_(sums);
    return true;
  }

 private:
  /// Adds up for each element the others times their parts: not by a product
  /// with the matrix, whose zeros make NaN of what is infinite.
  static Tensor along(
      int64_t dim,
      const Tensor& from,
      int64_t in,
      int64_t out,
      bool corners,
      const c10::optional<double>& given,
      bool back) {
    const auto scale =
        at::native::area_pixel_compute_scale<double>(in, out, corners, given);
    const auto all = weights(from, in, out, scale);
    const auto matrix = back ? all.t() : all;
    const auto reach = (cubic ? 4 : 2) * std::max(scale, 1.);
    const auto most = std::min(
        double(matrix.size(1)), std::ceil(back ? reach / scale : reach) + 1);
    const auto first = matrix.ne(0).to(kInt).argmax(1, /*keepdim=*/true);
    const auto all_places = first + at::arange(int64_t(most), first.options());
    const auto places = all_places.clamp_max(matrix.size(1) - 1);
    const auto parts =
        matrix.gather(1, places).masked_fill_(all_places != places, 0);
    Tensor sums;
    for (const auto i : c10::irange(parts.size(1))) {
      const auto part = alongDim(parts.select(1, i), dim, from.dim());
      const auto each = from.index_select(dim, places.select(1, i))
                            .mul_(part)
                            .masked_fill_(part == 0, 0);
      sums = i == 0 ? each : sums.add_(each);
    }
    return sums;
  }

  /// A row for each element of the result, with the parts that it has of
  /// others.
  static Tensor weights(
      const Tensor& from,
      int64_t in,
      int64_t out,
      double scale) {
    const auto& options = from.options();
    const auto middle = at::arange(out, options).add_(0.5).mul_(scale);
    const auto x = at::arange(in, options)
                       .add_(0.5)
                       .sub(middle.unsqueeze(1))
                       .div_(std::max(scale, 1.))
                       .abs_();
    Tensor parts;
    if constexpr (cubic) {
      const auto near = ((1.5 * x - 2.5) * x * x).add_(1);
      const auto far = (((x - 5) * x + 8) * x - 4).mul_(-0.5);
      parts = at::where(x < 1, near, far.masked_fill_(x >= 2, 0));
    } else {
      parts = (1 - x).clamp_min_(0);
    }
    return parts.div_(parts.sum(1, /*keepdim=*/true));
  }
};

void registerAntialias(torch::Library& library) {
  XPU_ADD_WITH_GRADIENT(
      _upsample_bilinear2d_aa, Interpolation<Antialiased<false>>)
  XPU_ADD_WITH_GRADIENT(
      _upsample_bicubic2d_aa, Interpolation<Antialiased<true>>)
}

[[maybe_unused]] const bool kAntialiasAdded = addKernels(&registerAntialias);

} // namespace

} // namespace at::xpu::detail
