#include <ATen/ATen.h>
#include <ATen/xpu/detail/OneDnn.h>
#include <c10/xpu/XPUFunctions.h>

#include <utility>

namespace at::xpu::detail {

namespace {

// Numbers of dnnl_types.h.
constexpr int kForTraining = 64;
constexpr int kAlgorithm = 1; // direct

} // namespace

bool convolveByOneDnn(const ConvolutionCall& call) {
  const auto device = call.input.device().index();
  const auto type = oneDnnTypeOf(call.input.scalar_type());
  if (!type || !hasOneDnn(device)) {
    return false;
  }
  // On a CPU with AMX oneDNN 3.13 computes some of half and bfloat16 wrong, and
  // reads and writes where it may not.
  if (call.input.element_size() < 4 &&
      c10::xpu::get_raw_device(device).is_cpu()) {
    return false;
  }
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
  // The result is the last.
  c10::SmallVector<OneDnnData, 3> data{input, weight, output};
  std::swap(data[of_input ? 0 : of_weight ? 1 : 2], data[2]);
  const auto describe = [&](void* engine,
                            c10::ArrayRef<const void*> described,
                            const void* attributes,
                            void** made) {
    const auto& library = oneDnn();
    const void* const of_in = described[of_input ? 2 : 0];
    const void* const of_w = described[of_weight ? 2 : 1];
    const void* const of_out = described[of_input ? 0 : of_weight ? 1 : 2];
    const auto* const stride = call.stride.data();
    const auto* const padding = call.padding.data();
    const auto describeForward = [&](void** primitive, const void* attributes) {
      return library.describe_forward(
          primitive,
          engine,
          kForTraining,
          kAlgorithm,
          of_in,
          of_w,
          nullptr,
          of_out,
          stride,
          dilation.data(),
          padding,
          padding,
          attributes);
    };
    if (forward) {
      return describeForward(made, attributes);
    }
    void* hint = nullptr;
    int status = describeForward(&hint, attributes);
    if (status != 0) {
      return status;
    }
    status = of_input ? library.describe_input(
                            made,
                            engine,
                            kAlgorithm,
                            of_in,
                            of_w,
                            of_out,
                            stride,
                            dilation.data(),
                            padding,
                            padding,
                            hint,
                            attributes)
                      : library.describe_weight(
                            made,
                            engine,
                            kAlgorithm,
                            of_in,
                            of_w,
                            nullptr,
                            of_out,
                            stride,
                            dilation.data(),
                            padding,
                            padding,
                            hint,
                            attributes);
    library.destroy_primitive_description(hint);
    return status;
  };
  return computeByOneDnn(call.op, device, data, rules, describe);
}

} // namespace at::xpu::detail
