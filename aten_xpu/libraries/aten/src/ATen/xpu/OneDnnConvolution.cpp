#include <ATen/ATen.h>
#include <ATen/xpu/detail/OneDnn.h>
#include <c10/xpu/XPUFunctions.h>

#include <array>
#include <utility>

namespace at::xpu::detail {

namespace {

// Numbers of dnnl_types.h.
constexpr int kForTraining = 64;
constexpr int kAlgorithm = 1; // direct

} // namespace

bool convolvesByOneDnn(const Tensor& input) {
  const auto device = input.device().index();
  // On a CPU with AMX oneDNN 3.13 computes some of half and bfloat16 wrong, and
  // reads and writes where it may not.
  return oneDnnTypeOf(input.scalar_type()) && hasOneDnn(device) &&
      (input.element_size() >= 4 || !c10::xpu::get_raw_device(device).is_cpu());
}

bool convolveByOneDnn(const ConvolutionCall& call) {
  const auto type = oneDnnTypeOf(call.input.scalar_type());
  const bool of_input = call.way == ConvolutionWay::Input;
  const bool of_weight = call.way == ConvolutionWay::Weight;
  const bool forward = call.way == ConvolutionWay::Output;
  const bool channels_last = call.format != MemoryFormat::Contiguous;
  // Weights are small, and the library wants them in blocks; channels_last is
  // what it computes with.
  const auto dataOf = [&](int argument, const Tensor& tensor, bool any_format) {
    return OneDnnData{
        argument,
        type,
        c10::DimVector(tensor.sizes()),
        packedStrides(tensor.sizes(), channels_last),
        tensor.data_ptr(),
        any_format};
  };
  auto input = dataOf(
      of_input ? kOneDnnOfInput : kOneDnnInput, call.input, !channels_last);
  auto weight =
      dataOf(of_weight ? kOneDnnOfWeight : kOneDnnWeight, call.weight, true);
  auto output = dataOf(
      forward ? kOneDnnOutput : kOneDnnOfOutput, call.output, !channels_last);
  if (call.groups > 1) {
    const auto rows = weight.sizes[0] / call.groups;
    weight.sizes[0] = rows;
    weight.sizes.insert(weight.sizes.begin(), call.groups);
    weight.strides.insert(weight.strides.begin(), rows * weight.strides[0]);
  }
  c10::DimVector dilation(call.dilation);
  for (auto& one : dilation) {
    --one; // elements between
  }
  OneDnnRules rules;
  rules.tf32 = call.tf32;
  c10::SmallVector<int64_t, 12> key{static_cast<int64_t>(call.way)};
  for (const auto list : {call.stride, call.padding, call.dilation}) {
    key.append(list.begin(), list.end());
  }
  rules.key = key;
  const size_t result_at = of_input ? 0 : of_weight ? 1 : 2;
  std::array<OneDnnData, 3> data{input, weight, output};
  std::swap(data.at(result_at), data[2]); // which is the result
  const auto describe = [&](void* engine,
                            c10::ArrayRef<const void*> described,
                            const void* attributes,
                            void** made) {
    const auto& library = oneDnn();
    auto of = described.vec();
    std::swap(of.at(result_at), of[2]);
    const auto* const stride = call.stride.data();
    const auto* const padding = call.padding.data();
    const auto describeForward = [&](void** primitive) {
      return library.describe_forward(
          primitive,
          engine,
          kForTraining,
          kAlgorithm,
          of[0],
          of[1],
          nullptr,
          of[2],
          stride,
          dilation.data(),
          padding,
          padding,
          attributes);
    };
    if (forward) {
      return describeForward(made);
    }
    void* hint = nullptr;
    int status = describeForward(&hint);
    if (status != 0) {
      return status;
    }
    const auto describeBack = [&](auto function, auto... tensors) {
      return function(
          made,
          engine,
          kAlgorithm,
          tensors...,
          stride,
          dilation.data(),
          padding,
          padding,
          hint,
          attributes);
    };
    status = of_input
        ? describeBack(library.describe_input, of[0], of[1], of[2])
        : describeBack(library.describe_weight, of[0], of[1], nullptr, of[2]);
    library.destroy_primitive_description(hint);
    return status;
  };
  return computeByOneDnn(
      call.op, call.input.device().index(), data, rules, describe);
}

} // namespace at::xpu::detail
