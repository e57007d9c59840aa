#include <ATen/xpu/detail/Reduce.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>

namespace at::xpu::detail {

namespace {

std::string reductionSourceOf(int type);

const KernelFamily kReduceFamily("reduce", &reductionSourceOf);

struct ReductionRow {
  ReduceKernels kernels;
  std::string op; // for the profiler
  uint32_t types;
  std::string state; // types, in the source
  std::string first;
  std::string second;
  std::string source;
};

constexpr size_t kReductions = size_t(Reduction::norm_p) + 1;

const auto& reductionRows() {
  static const auto& all = *new std::array<ReductionRow, kReductions>{{
  // never destroyed
#define XPU_REDUCTION(                                                       \
    name, types, State, Result, identity, take, combine, result)             \
  {{kReduceFamily, #name},                                                   \
   "aten::" #name,                                                           \
   types,                                                                    \
   #State,                                                                   \
   #Result,                                                                  \
   "",                                                                       \
   "XPU_REDUCTION(" #name ", " #State ", " #Result ", " #identity ", " #take \
   ", " #combine ", " #result ")\n"},
#define XPU_REDUCTION_PAIR(                                                    \
    name, types, State, First, Second, identity, take, combine, first, second) \
  {{kReduceFamily, #name},                                                     \
   "aten::" #name,                                                             \
   types,                                                                      \
   #State,                                                                     \
   #First,                                                                     \
   #Second,                                                                    \
   "XPU_REDUCTION_PAIR(" #name ", " #State ", " #First ", " #Second            \
   ", " #identity ", " #take ", " #combine ", " #first ", " #second ")\n"},
#include <ATen/xpu/kernels/Reduce.def>
  }};
  return all;
}

std::string reductionSourceOf(int type) {
  auto source = typedSource(type) + reduceSource();
  for (const auto& row : reductionRows()) {
    if (row.types & (1 << type)) {
      source += row.source;
    }
  }
  return source;
}

/// The dimensions as two, from the outermost to the innermost, if they are no
/// more when all that can be one are.
std::optional<ReduceDims> collapse(const Tensor& tensor, IntArrayRef which) {
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
      return ReduceDims{};
    case 1:
      return ReduceDims{sizes[0], strides[0]};
    case 2:
      return ReduceDims{sizes[1], strides[1], sizes[0], strides[0]};
    default:
      return std::nullopt;
  }
}

/// What a kernel writes, by its name in the source.
ScalarType writtenType(const std::string& name, ScalarType type) {
  if (name == "b8") {
    return kBool;
  }
  const bool is_long = name == "i64" ||
      (name == "R" && isIntegralType(type, /*includeBool=*/true));
  return is_long ? kLong : type;
}

/// No less than a state has.
int64_t bytesOf(const std::string& state) {
  return state == "Moments"                  ? 24
      : state == "Place" || state == "Range" ? 16
                                             : 8;
}

} // namespace

void* pointerOf(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

const char* reduceSource() {
  return
#include <ATen/xpu/kernels/Reduce.sycl>
      ;
}

Tensor writable(const Tensor& result, ScalarType type) {
  return !result.defined() ||
          (result.is_contiguous() && result.scalar_type() == type)
      ? result
      : at::empty(result.sizes(), result.options().dtype(type));
}

KernelArgument sumNumber(const Scalar& number, KernelType type) {
  const bool floating = FLOATING & (1 << type);
  return kernelNumber(number, type == f64 ? f64 : floating ? f32 : i64);
}

int64_t itemsWanted(DeviceIndex device) {
  return kItemsOfUnit *
      c10::xpu::get_device_properties(device).max_compute_units;
}

int64_t lanesOf(DeviceIndex device) {
  const auto& lanes = c10::xpu::get_device_properties(device).sub_group_sizes;
  return static_cast<int64_t>(*std::max_element(lanes.begin(), lanes.end()));
}

void launchReduce(const ReduceCall& call) {
  constexpr int64_t kFew = 64; // elements of an item by itself
  constexpr int64_t kFewTogether = 8; // of one in a group
  constexpr int64_t kLeast = 32; // items of a group
  constexpr int64_t kUsual = 512;
  constexpr int64_t kMost = 1024;
  const auto results = call.kept.inner * call.kept.outer;
  const auto wanted = itemsWanted(call.device);
  const auto options =
      at::TensorOptions(Device(DeviceType::XPU, call.device)).dtype(kByte);
  auto kept = call.kept;
  auto reduced = call.reduced;
  Tensor states;
  for (bool more = true; more;) {
    const auto elements = reduced.inner * reduced.outer;
    // Items side by side then read what is side by side in memory; the states
    // of few results are soon read in any order.
    const bool together = elements >= kLeast &&
        (results == 1 || reduced.stride < kept.stride ||
         (states.defined() && results < kItemsOfUnit));
    int64_t group = together ? kLeast : 1;
    // Fewer slices leave less to the kernel behind this one, or nothing, and in
    // the largest groups items wait longer for the others.
    const auto enough =
        states.defined() ? kMost : std::min(kUsual, wanted / results);
    while (together && 2 * group <= enough &&
           elements >= 2 * group * kFewTogether) {
      group *= 2;
    }
    const auto slices = std::max<int64_t>(
        1,
        std::min(
            wanted / (results * group),
            elements / (together ? group * kFewTogether : kFew)));
    more = slices > 1;
    const auto next = more
        ? at::empty({slices * results * call.state_bytes}, options)
        : Tensor();
    c10::SmallVector<KernelArgument, 24> arguments{
        call.first, call.second, pointerOf(next)};
    if (states.defined()) {
      arguments.emplace_back(states.data_ptr());
    } else {
      arguments.append(call.inputs.begin(), call.inputs.end());
    }
    arguments.append(call.both.begin(), call.both.end());
    arguments.append(
        {call.n,
         call.p,
         uint32_t(results),
         uint64_t(elements),
         uint32_t(slices),
         uint32_t(together),
         uint32_t(kept.inner),
         uint64_t(kept.stride),
         uint64_t(kept.outer_stride),
         uint64_t(reduced.inner),
         uint64_t(reduced.stride),
         uint64_t(reduced.outer_stride)});
    const auto& kernel =
        states.defined() ? call.kernels.states : call.kernels.elements;
    kernel.launch(
        call.op,
        call.type,
        call.device,
        results * slices * group,
        arguments,
        together ? uint32_t(group) : 0);
    states = next;
    kept = ReduceDims{results, together ? slices : 1};
    reduced = ReduceDims{slices, together ? 1 : results};
  }
}

bool runReduction(
    Reduction reduction,
    const Tensor& self,
    const std::bitset<64>& dims,
    const Tensor& first,
    const Tensor& second,
    const Scalar& p) {
  const auto& row = reductionRows()[size_t(reduction)];
  const auto& some = first.defined() ? first : second;
  const auto device = self.device().index();
  const auto type = kernelType(self.scalar_type(), device);
  if (!type || !(row.types & (1 << *type)) || some.numel() > kMostElements ||
      !row.kernels.elements.find(*type, device)) {
    return false;
  }
  if (some.numel() == 0) {
    return true;
  }
  DimVector kept_dims;
  DimVector reduced_dims;
  for (const auto d : c10::irange(self.dim())) {
    (dims[d] ? reduced_dims : kept_dims).push_back(d);
  }
  if (row.second != "i64") {
    // Without indices the order is free: by strides, so that more is one.
    std::sort(reduced_dims.begin(), reduced_dims.end(), [&](auto a, auto b) {
      return self.stride(a) > self.stride(b);
    });
  }
  const c10::xpu::XPUGuard guard(device);
  auto from = self;
  auto kept = collapse(from, kept_dims);
  auto reduced = collapse(from, reduced_dims);
  const auto elements = self.numel() / some.numel();
  const bool long_pair =
      reduced && reduced->outer > 1 && elements > kMostElements;
  if (!kept || !reduced || long_pair) {
    DimVector order(kept_dims);
    order.append(reduced_dims.begin(), reduced_dims.end());
    from = self.permute(order).contiguous();
    kept = ReduceDims{some.numel(), elements};
    reduced = ReduceDims{elements, 1};
  }
  const auto to_first =
      writable(first, writtenType(row.first, self.scalar_type()));
  const auto to_second =
      writable(second, writtenType(row.second, self.scalar_type()));
  launchReduce(
      {row.op,
       row.kernels,
       *type,
       device,
       pointerOf(to_first),
       pointerOf(to_second),
       {from.data_ptr()},
       bytesOf(row.state),
       sumNumber(elements, *type),
       sumNumber(p, *type),
       *kept,
       *reduced});
  copyUnlessSame(first, to_first);
  copyUnlessSame(second, to_second);
  return true;
}

} // namespace at::xpu::detail
