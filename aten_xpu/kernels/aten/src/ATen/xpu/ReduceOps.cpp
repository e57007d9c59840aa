#include <ATen/ATen.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <limits>

// Reductions, kernels/Reduce.sycl.

namespace at::xpu::detail {

namespace {

enum SumKernel { kSum, kSumSlices, kSumSums, kSumSumsSlices };
constexpr std::array<const char*, 4> kSumNames{
    "sum",
    "sum_slices",
    "sum_sums",
    "sum_sums_slices"};

std::string reduceSourceOf(int type) {
  return std::string(commonSource()) + "#define XPU_T " +
      kKernelTypes[type].name + "\n" + reduceSource();
}

const KernelFamily kReduceFamily("reduce", &reduceSourceOf);

const Kernel* findSum(SumKernel kernel, KernelType type, DeviceIndex device) {
  static std::
      array<std::array<KernelSlot, kKernelTypes.size()>, kSumNames.size()>
          slots;
  return loadKernel(
      slots[kernel][type], device, kReduceFamily[type], kSumNames[kernel]);
}

/// One dimension or two of a tensor.
struct Dims {
  int64_t inner = 1;
  int64_t stride = 0;
  int64_t outer = 1;
  int64_t outer_stride = 0;
};

/// The dimensions as two, from the outermost to the innermost, if they are no
/// more when all that can be one are.
std::optional<Dims> collapse(const Tensor& tensor, IntArrayRef which) {
  DimVector sizes;
  DimVector strides;
  for (const auto d : which) {
    if (tensor.size(d) == 1) {
      continue;
    }
    if (!sizes.empty() && strides.back() == tensor.stride(d) * tensor.size(d)) {
      sizes.back() *= tensor.size(d);
      strides.back() = tensor.stride(d);
    } else {
      sizes.push_back(tensor.size(d));
      strides.push_back(tensor.stride(d));
    }
  }
  switch (sizes.size()) {
    case 0:
      return Dims{};
    case 1:
      return Dims{sizes[0], strides[0]};
    case 2:
      return Dims{sizes[1], strides[1], sizes[0], strides[0]};
    default:
      return std::nullopt;
  }
}

struct Reduction {
  KernelType type{};
  DeviceIndex device = 0;
  c10::xpu::XPUStream stream;
};

/// Sums to a result without gaps. The input is a tensor, or with `of_sums` the
/// sums of its slices.
void sumTo(
    const Reduction& reduction,
    const Tensor& result,
    const Tensor& input,
    const Dims& kept,
    const Dims& reduced,
    bool of_sums = false) {
  constexpr int64_t kFew = 64; // elements that an item sums at once
  constexpr int64_t kItemsOfUnit = 1024;
  const auto results = kept.inner * kept.outer;
  const auto elements = reduced.inner * reduced.outer;
  const int64_t wanted = kItemsOfUnit *
      c10::xpu::get_device_properties(reduction.device).max_compute_units;
  const auto slices =
      std::max<int64_t>(1, std::min(wanted / results, elements / kFew));
  const bool last = slices == 1;
  const auto which =
      of_sums ? (last ? kSumSums : kSumSumsSlices) : (last ? kSum : kSumSlices);
  const auto* const kernel = findSum(which, reduction.type, reduction.device);
  TORCH_CHECK(kernel, "A kernel of aten::sum cannot be had, but another could");
  const bool by_slices =
      !last && (results == 1 || reduced.stride < kept.stride);
  const auto sums_type = !result.is_floating_point() ? kLong
      : reduction.type == f64                        ? kDouble
                                                     : kFloat;
  const auto to = last
      ? result
      : at::empty({slices * results}, result.options().dtype(sums_type));
  static const std::string name = "aten::sum";
  launchKernel(
      *kernel,
      reduction.stream,
      name,
      results * slices,
      {to.data_ptr(),
       input.data_ptr(),
       uint32_t(results),
       uint64_t(elements),
       uint32_t(slices),
       uint32_t(by_slices),
       uint32_t(kept.inner),
       uint64_t(kept.stride),
       uint64_t(kept.outer_stride),
       uint64_t(reduced.inner),
       uint64_t(reduced.stride),
       uint64_t(reduced.outer_stride)});
  if (!last) {
    sumTo(
        reduction,
        result,
        to,
        by_slices ? Dims{results, slices} : Dims{results, 1},
        by_slices ? Dims{slices, 1} : Dims{slices, results},
        /*of_sums=*/true);
  }
}

/// Returns false without any effect if the kernel is missing.
bool runSum(
    const Tensor& self,
    OptionalIntArrayRef dim,
    const Tensor& result,
    DeviceIndex device) {
  const auto natural = isIntegralType(self.scalar_type(), /*includeBool=*/true)
      ? kLong
      : self.scalar_type();
  const auto input =
      result.scalar_type() == natural ? self : self.to(result.scalar_type());
  const auto type = kernelType(input.scalar_type(), device);
  if (!type || result.numel() > std::numeric_limits<int32_t>::max() ||
      !findSum(kSum, *type, device)) {
    return false;
  }
  if (result.numel() == 0) {
    return true;
  }
  if (input.numel() == 0) {
    result.zero_();
    return true;
  }
  const auto mask = dim && !dim->empty() ? dim_list_to_bitset(*dim, self.dim())
                                         : std::bitset<dim_bitset_size>().set();
  DimVector kept_dims;
  DimVector reduced_dims;
  for (const auto d : c10::irange(self.dim())) {
    (mask[d] ? reduced_dims : kept_dims).push_back(d);
  }
  // The order of what is summed is free: by strides, so that more is one.
  std::sort(reduced_dims.begin(), reduced_dims.end(), [&](auto a, auto b) {
    return input.stride(a) > input.stride(b);
  });
  auto from = input;
  auto kept = collapse(from, kept_dims);
  auto reduced = collapse(from, reduced_dims);
  const auto elements = input.numel() / result.numel();
  const bool long_pair = reduced && reduced->outer > 1 &&
      elements > std::numeric_limits<int32_t>::max();
  if (!kept || !reduced || long_pair) {
    DimVector order(kept_dims);
    order.append(reduced_dims.begin(), reduced_dims.end());
    from = input.permute(order).contiguous();
    kept = Dims{result.numel(), elements};
    reduced = Dims{elements, 1};
  }
  const c10::xpu::XPUGuard guard(device);
  const Reduction reduction{
      *type, device, c10::xpu::getCurrentXPUStream(device)};
  const bool direct = result.is_contiguous();
  const auto to = direct ? result : at::empty(result.sizes(), result.options());
  sumTo(reduction, to, from, *kept, *reduced);
  if (!direct) {
    result.copy_(to);
  }
  return true;
}

using SumMeta = WithOutput<at::meta::structured_sum_dim_IntList>;

Tensor sum(
    const Tensor& self,
    OptionalIntArrayRef dim,
    bool keepdim,
    c10::optional<ScalarType> dtype) {
  if (const auto device = kernelDevice(self)) {
    const c10::xpu::XPUGuard guard(*device);
    SumMeta op(SumMeta::Kind::New, Tensor());
    op.meta(self, dim, keepdim, dtype);
    if (runSum(self, dim, op.maybe_get_output(0), *device)) {
      return op.maybe_get_output(0);
    }
  }
  return OnHost<at::_ops::sum_dim_IntList>::call(self, dim, keepdim, dtype);
}

Tensor& sumOut(
    const Tensor& self,
    OptionalIntArrayRef dim,
    bool keepdim,
    c10::optional<ScalarType> dtype,
    Tensor& out) {
  const auto device = kernelDevice(self);
  if (device && out.is_xpu()) {
    const c10::xpu::XPUGuard guard(*device);
    SumMeta op(SumMeta::Kind::Out, out);
    op.meta(self, dim, keepdim, dtype);
    if (runSum(self, dim, out, *device)) {
      return out;
    }
  }
  return OnHost<at::_ops::sum_IntList_out>::call(
      self, dim, keepdim, dtype, out);
}

} // namespace

void registerReduce(torch::Library& library) {
  library.impl("sum.dim_IntList", &sum);
  library.impl("sum.IntList_out", &sumOut);
}

} // namespace at::xpu::detail
