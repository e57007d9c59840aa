#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/xpu/detail/CudnnGraph.h>

#include <array>

namespace at::xpu::detail {

namespace {

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
  const auto sizes = cudnnSizes(tensor.sizes(), 2, 1);
  return {type, sizes, packedStrides(sizes, channels_last), tensor.data_ptr()};
}

} // namespace

bool convolvesByCudnn(const Tensor& input) {
  return cudnnTypeOf(input.scalar_type()) &&
      at::globalContext().userEnabledCuDNN() &&
      hasCudnn(input.device().index());
}

bool convolveByCudnn(const ConvolutionCall& call) {
  const auto device = call.input.device().index();
  const auto& context = at::globalContext();
  const auto type = cudnnTypeOf(call.input.scalar_type());
  TORCH_INTERNAL_ASSERT(type);
  const auto padding = cudnnSizes(call.padding, 0, 0);
  const auto stride = cudnnSizes(call.stride, 0, 1);
  const auto dilation = cudnnSizes(call.dilation, 0, 1);
  CudnnRules rules;
  rules.deterministic =
      context.deterministicAlgorithms() || context.deterministicCuDNN();
  rules.is_float = *type == CudnnType::Float;
  rules.exact = rules.is_float && !call.tf32;
  rules.measured = context.benchmarkCuDNN();
  rules.key = {static_cast<int64_t>(call.way)};
  for (const auto* list : {&padding, &stride, &dilation}) {
    rules.key.append(list->begin(), list->end());
  }
  const bool channels_last = call.format != MemoryFormat::Contiguous;
  const std::array<CudnnData, 3> data{
      packedData(*type, call.input, channels_last),
      packedData(*type, call.weight, channels_last),
      packedData(*type, call.output, channels_last)};
  return computeByCudnn(call.op, device, data, rules, [&](CudnnGraph& graph) {
    const auto input = graph.add(data[0]);
    const auto weight = graph.add(data[1]);
    const auto output = graph.add(data[2]);
    graph.convolve(
        call.way,
        *type == CudnnType::Double ? *type : CudnnType::Float,
        input,
        weight,
        output,
        padding,
        stride,
        dilation);
  });
}

} // namespace at::xpu::detail
