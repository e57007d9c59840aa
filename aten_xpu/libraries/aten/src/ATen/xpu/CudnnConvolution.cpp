#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/CudnnGraph.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace at::xpu::detail {

namespace {

constexpr int64_t kCudnnMostNumber = std::numeric_limits<int32_t>::max();

// PyTorch 1.13 has one switch for all operators of cuDNN.
template <typename Op>
bool allowsTf32(bool (Context::*allows)(std::optional<Op>) const) {
  return (at::globalContext().*allows)(Op::CONV);
}
[[maybe_unused]] bool allowsTf32(bool (Context::*allows)() const) {
  return (at::globalContext().*allows)();
}

/// Of two or three axes: a convolution along one gets another axis before it.
CudnnSizes cudnnSizes(IntArrayRef list, size_t axis, int64_t of_new_axis) {
  CudnnSizes sizes(list.begin(), list.end());
  if (sizes.size() == axis + 1) {
    sizes.insert(sizes.begin() + axis, of_new_axis);
  }
  return sizes;
}

/// A tensor that is packed in the format.
CudnnData packedData(CudnnType type, const Tensor& tensor, bool channels_last) {
  CudnnData data{type, cudnnSizes(tensor.sizes(), 2, 1)};
  data.strides.resize(data.sizes.size());
  int64_t next = 1;
  const auto take = [&](size_t d) {
    data.strides[d] = next;
    next *= data.sizes[d];
  };
  if (channels_last) {
    take(1);
  }
  for (auto d = data.sizes.size() - 1; d > 1; --d) {
    take(d);
  }
  if (!channels_last) {
    take(1);
  }
  take(0);
  data.data = tensor.data_ptr();
  return data;
}

/// Whether the library can be asked.
bool canAsk(const CudnnConvolution& convolution) {
  const auto is_large = [](int64_t n) { return n > kCudnnMostNumber; };
  for (const auto* tensor :
       {&convolution.input, &convolution.weight, &convolution.output}) {
    if (tensor->numel() == 0 || is_large(tensor->numel())) {
      return false;
    }
  }
  // A transposed convolution may want more places than these.
  for (const auto i : c10::irange(convolution.stride.size())) {
    const auto d = static_cast<int64_t>(i) + 2;
    const auto padding = convolution.padding[i];
    const auto stride = convolution.stride[i];
    const auto dilation = convolution.dilation[i];
    if (is_large(padding) || is_large(stride) || is_large(dilation)) {
      return false;
    }
    const auto reach = dilation * (convolution.weight.size(d) - 1) + 1;
    const auto places = convolution.input.size(d) + 2 * padding - reach;
    if (places < 0 || places / stride + 1 != convolution.output.size(d)) {
      return false;
    }
  }
  return true;
}

} // namespace

bool convolveByCudnn(const CudnnConvolution& convolution) {
  const auto device = convolution.input.device().index();
  const auto& context = at::globalContext();
  const auto type = cudnnTypeOf(convolution.input.scalar_type());
  if (!type || !context.userEnabledCuDNN() || !canAsk(convolution) ||
      !hasCudnn(device)) {
    return false;
  }
  const auto padding = cudnnSizes(convolution.padding, 0, 0);
  const auto stride = cudnnSizes(convolution.stride, 0, 1);
  const auto dilation = cudnnSizes(convolution.dilation, 0, 1);
  CudnnRules rules;
  rules.deterministic =
      context.deterministicAlgorithms() || context.deterministicCuDNN();
  rules.is_float = *type == CudnnType::Float;
  rules.exact = rules.is_float && !allowsTf32(&Context::allowTF32CuDNN);
  rules.measured = context.benchmarkCuDNN();
  rules.key = {static_cast<int64_t>(convolution.way)};
  for (const auto* list : {&padding, &stride, &dilation}) {
    rules.key.append(list->begin(), list->end());
  }
  const bool channels_last = convolution.format != MemoryFormat::Contiguous &&
      *type != CudnnType::Double; // which it does not take so
  const auto format =
      channels_last ? convolution.format : MemoryFormat::Contiguous;
  const std::array<const Tensor*, 3> given{
      &convolution.input, &convolution.weight, &convolution.output};
  const size_t result_at = convolution.way == CudnnWay::Output ? 2
      : convolution.way == CudnnWay::Weight                    ? 1
                                                               : 0;
  std::array<Tensor, 3> packed; // alive until it is launched
  std::array<CudnnData, 3> data;
  for (const auto i : c10::irange(given.size())) {
    auto& tensor = packed.at(i);
    tensor = *given.at(i);
    if (!tensor.is_contiguous(format)) {
      tensor = i == result_at
          ? at::empty(tensor.sizes(), tensor.options().memory_format(format))
          : tensor.contiguous(format);
    }
    data.at(i) = packedData(*type, tensor, channels_last);
  }
  const bool done = computeByCudnn(
      convolution.op, device, data, rules, [&](CudnnGraph& graph) {
        const auto input = graph.add(data[0]);
        const auto weight = graph.add(data[1]);
        const auto output = graph.add(data[2]);
        graph.convolve(
            convolution.way,
            *type == CudnnType::Double ? *type : CudnnType::Float,
            input,
            weight,
            output,
            padding,
            stride,
            dilation);
      });
  const auto& result = *given.at(result_at);
  if (done && !packed.at(result_at).is_same(result)) {
    result.copy_(packed.at(result_at));
  }
  return done;
}

} // namespace at::xpu::detail
