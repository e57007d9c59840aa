#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/OpMathType.h>
#include <ATen/native/UpSample.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>

// Linear and cubic interpolation, kernels/Interpolate.sycl.

namespace at::xpu::detail {

namespace {

const char* interpolateSource() {
  return
#include <ATen/xpu/kernels/Interpolate.sycl>
      ;
}

std::string interpolateSourceOf(int type) {
  return typedSource(type) + interpolateSource();
}

const KernelFamily kInterpolateFamily(
    "interpolate",
    &interpolateSourceOf,
    FLOATING);
const NamedKernel kInterpolateEach(kInterpolateFamily, "interpolate");
const NamedKernel kInterpolateSome(kInterpolateFamily, "interpolate_rows");

// As in the source.
constexpr uint32_t kInterpolateCubic = 1;
constexpr uint32_t kInterpolateAntialias = 2;
constexpr uint32_t kInterpolateCorners = 4;
constexpr uint32_t kInterpolateFromSums = 8;
constexpr uint32_t kInterpolateToSums = 16;
constexpr int64_t kInterpolateRows = 8; // of an item of interpolate_rows

/// With fewer, items of one row keep more of a device busy.
constexpr int64_t kInterpolateEnough = 256;

/// Whether antialias leaves an axis alone that keeps its size.
#ifdef XPU_LATER_OPERATORS
constexpr bool kKeepsAxes = true;
#else
constexpr bool kKeepsAxes = false;
#endif

struct InterpolateAxis {
  int64_t dim, in, out;
  double scale;
};

/// An axis has at most so many elements: a place beyond them is a number too.
constexpr int64_t kInterpolateLongest = 1 << 30;

/// Along one axis after the other: what has become smaller first.
bool interpolateAlong(
    const Tensor& result,
    const Tensor& given,
    std::array<InterpolateAxis, 3> axes,
    int dims,
    uint32_t flags,
    bool back) {
  static const std::string name = "aten::interpolate";
  static const std::string name_back = "aten::interpolate_backward";
  const auto type = kInterpolateEach.typeFor(result);
  const auto end = axes.begin() + dims;
  const bool long_axes =
      std::any_of(axes.begin(), end, [](const InterpolateAxis& axis) {
        return std::max(axis.in, axis.out) > kInterpolateLongest;
      });
  if (!areFloating(given, result) || !type || long_axes) {
    return false;
  }
  if (std::max(result.numel(), given.numel()) > kMostElements) {
    return inHalves(
        [&](const auto& to, const auto& from) {
          return interpolateAlong(to, from, axes, dims, flags, back);
        },
        result,
        given);
  }
  if (result.numel() == 0) {
    return true;
  }
  // Whether an axis that keeps its size is as before, whatever the scale.
  const bool keeps = flags & kInterpolateAntialias
      ? kKeepsAxes && !back
      : !(flags & kInterpolateCubic);
  const auto last = std::stable_partition(
      axes.begin(), end, [&](const InterpolateAxis& axis) {
        return axis.in != axis.out || (axis.scale != 1 && !keeps);
      });
  std::stable_sort(
      axes.begin(),
      last,
      [&](const InterpolateAxis& one, const InterpolateAxis& other) {
        return back ? one.in * other.out < other.in * one.out
                    : one.out * other.in < other.out * one.in;
      });
  const auto format = result.suggest_memory_format();
  auto from = given.contiguous(format);
  for (auto axis = axes.begin(); axis != last; ++axis) {
    DimVector sizes(from.sizes());
    sizes[axis->dim] = back ? axis->in : axis->out;
    const bool sums = axis + 1 != last;
    auto inner = format == MemoryFormat::Contiguous ? 1 : sizes[1];
    for (auto dim = axis->dim + 1; dim < result.dim(); ++dim) {
      inner *= sizes[dim];
    }
    const auto to = !sums && result.is_contiguous(format)
        ? result
        : at::empty(
              sizes,
              sums
                  ? given.options().dtype(at::toOpMathType(given.scalar_type()))
                  : given.options(),
              format);
    const auto row = sizes[axis->dim] * inner;
    const auto count = to.numel() / row;
    const bool rows = count >= kInterpolateEnough;
    const auto& kernel = rows ? kInterpolateSome : kInterpolateEach;
    kernel.launch(
        back ? name_back : name,
        *type,
        result.device().index(),
        (rows ? (count + kInterpolateRows - 1) / kInterpolateRows : count) *
            row,
        {to.data_ptr(),
         from.data_ptr(),
         uint32_t(count),
         uint32_t(inner),
         int32_t(axis->in),
         int32_t(axis->out),
         kernelNumber(axis->scale, *type),
         flags | (axis == axes.begin() ? 0 : kInterpolateFromSums) |
             (sums ? kInterpolateToSums : 0),
         uint32_t(back)});
    from = to;
  }
  copyUnlessSame(result, from);
  return true;
}

template <int dims, uint32_t flags>
struct Along {
  template <typename... Scales>
  static bool interpolate(
      const Tensor& result,
      const Tensor& from,
      bool back,
      bool corners,
      const Scales&... scales) {
    const std::array<c10::optional<double>, dims> given{scales...};
    std::array<InterpolateAxis, 3> axes{};
    for (const auto i : c10::irange(dims)) {
      const auto dim = result.dim() - dims + i;
      const auto in = (back ? result : from).size(dim);
      const auto out = (back ? from : result).size(dim);
      axes[i] = {
          dim,
          in,
          out,
          at::native::area_pixel_compute_scale<double>(
              in, out, corners, given[i])};
    }
    return interpolateAlong(
        result,
        from,
        axes,
        dims,
        flags | (corners ? kInterpolateCorners : 0),
        back);
  }
};

void registerInterpolation(torch::Library& library) {
#define XPU_ADD_INTERPOLATION(op, ...) \
  XPU_ADD_WITH_GRADIENT(op, Interpolation<Along<__VA_ARGS__>>)
  XPU_ADD_INTERPOLATION(upsample_linear1d, 1, 0)
  XPU_ADD_INTERPOLATION(upsample_bilinear2d, 2, 0)
  XPU_ADD_INTERPOLATION(upsample_trilinear3d, 3, 0)
  XPU_ADD_INTERPOLATION(upsample_bicubic2d, 2, kInterpolateCubic)
  XPU_ADD_INTERPOLATION(_upsample_bilinear2d_aa, 2, kInterpolateAntialias)
  XPU_ADD_INTERPOLATION(
      _upsample_bicubic2d_aa, 2, kInterpolateAntialias | kInterpolateCubic)
#undef XPU_ADD_INTERPOLATION
}

[[maybe_unused]] const bool kInterpolationAdded =
    addKernels(&registerInterpolation);

} // namespace

} // namespace at::xpu::detail
