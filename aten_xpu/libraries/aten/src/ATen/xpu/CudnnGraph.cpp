#include <ATen/xpu/detail/CudnnGraph.h>

#include <algorithm>
#include <array>

namespace at::xpu::detail {

namespace {

// Numbers of cudnn_graph.h: kinds of descriptors, and attributes.
enum CudnnKind {
  kPointKind = 0,
  kConvolutionKind = 1,
  kConvolveKind = 10,
  kConvolveWeightKind = 11,
  kConvolveInputKind = 12,
  kPointwiseKind = 13,
  kTensorKind = 17,
  kMatmulKind = 18,
  kMultiplyKind = 19,
  kReductionKind = 21,
  kReduceKind = 22,
  kReshapeKind = 31,
  kRandomKind = 32,
  kDrawKind = 33
};
enum CudnnAttributeName {
  kPointMode = 0,
  kPointType = 1,
  kPointAxis = 9,
  kConvolutionType = 100,
  kConvolutionMode = 101,
  kConvolutionDilation = 102,
  kConvolutionStride = 103,
  kConvolutionAfter = 104, // padding
  kConvolutionBefore = 105,
  kConvolutionAxes = 106,
  kConvolveFirst = 700, // alpha; then six for each way
  kPointwisePoint = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorNumber = 908,
  kMatmulType = 1500,
  kMultiplyLeft = 1520,
  kMultiplyRight = 1521,
  kMultiplyOut = 1522,
  kMultiplyMatmul = 1523,
  kReductionOperator = 1600,
  kReductionType = 1601,
  kReduceIn = 1610,
  kReduceOut = 1611,
  kReduceReduction = 1612,
  kReshapeIn = 2200,
  kReshapeOut = 2201,
  kRandomDistribution = 2300,
  kRandomProbability = 2305,
  kDrawOut = 2310,
  kDrawSeed = 2311,
  kDrawRandom = 2312,
  kDrawOffset = 2313
};
constexpr int kBernoulli = 0;
constexpr int kCrossCorrelation = 1;
constexpr int64_t kAlignment = 16; // bytes: more does not help

} // namespace

CudnnObject makeCudnnObject(
    int kind,
    std::initializer_list<CudnnAttribute> attributes,
    int& status) {
  const auto& library = cudnn();
  void* made = nullptr;
  if (status == 0) {
    status = library.create_object(kind, &made);
  }
  CudnnObject object(made, library.destroy_object);
  for (const auto& one : attributes) {
    if (status == 0 && one.count > 0) {
      status =
          library.set_object(made, one.name, one.type, one.count, one.values);
    }
  }
  if (status == 0) {
    status = library.finalize_object(made);
  }
  return object;
}

int64_t cudnnAlignment(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto lowest = static_cast<int64_t>(address & (~address + 1));
  return address == 0 ? kAlignment : std::min(lowest, kAlignment);
}

std::optional<CudnnType> cudnnTypeOf(ScalarType type) {
  switch (type) {
    case kFloat:
      return CudnnType::Float;
    case kDouble:
      return CudnnType::Double;
    case kHalf:
      return CudnnType::Half;
    case kBFloat16:
      return CudnnType::BFloat16;
    default:
      return std::nullopt;
  }
}

void* CudnnGraph::describe(
    int kind,
    std::initializer_list<CudnnAttribute> attributes) {
  objects_.push_back(makeCudnnObject(kind, attributes, status_));
  return objects_.back().get();
}

void CudnnGraph::addOperation(
    int kind,
    std::initializer_list<CudnnAttribute> attributes) {
  operations_.push_back(makeCudnnObject(kind, attributes, status_));
}

CudnnGraph::Tensor CudnnGraph::addTensor(
    CudnnType type,
    IntArrayRef sizes,
    IntArrayRef strides,
    int64_t alignment,
    bool is_virtual,
    bool is_number) {
  const auto dims = static_cast<int64_t>(sizes.size());
  const auto id = ++tensors_;
  return describe(
      kTensorKind,
      {{kTensorId, kIntValue, 1, &id},
       {kTensorType, kTypeValue, 1, &type},
       {kTensorAlignment, kIntValue, 1, &alignment},
       {kTensorSizes, kIntValue, dims, sizes.data()},
       {kTensorStrides, kIntValue, dims, strides.data()},
       {kTensorVirtual, kBoolValue, 1, &is_virtual},
       {kTensorNumber, kBoolValue, 1, &is_number}});
}

CudnnGraph::Tensor CudnnGraph::add(const CudnnData& data) {
  const auto tensor = addTensor(
      data.type,
      data.sizes,
      data.strides,
      cudnnAlignment(data.data),
      false,
      false);
  in_memory_.push_back(tensors_);
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::between(
    CudnnType type,
    IntArrayRef sizes,
    IntArrayRef strides) {
  std::vector<int64_t> packed(strides.begin(), strides.end());
  if (strides.empty()) {
    packed.resize(sizes.size());
    int64_t next = 1;
    for (auto d = sizes.size(); d-- > 0;) {
      packed[d] = next;
      next *= sizes[d];
    }
  }
  return addTensor(type, sizes, packed, kAlignment, true, false);
}

CudnnGraph::Tensor CudnnGraph::number(float value) {
  const std::array<int64_t, 4> ones{1, 1, 1, 1};
  const auto tensor =
      addTensor(CudnnType::Float, ones, ones, kAlignment, false, true);
  numbers_.push_back(tensors_);
  values_.push_back(value);
  return tensor;
}

void CudnnGraph::convolve(
    ConvolutionWay way,
    CudnnType computed,
    Tensor input,
    Tensor weight,
    Tensor output,
    IntArrayRef padding,
    IntArrayRef stride,
    IntArrayRef dilation) {
  const auto axes = static_cast<int64_t>(stride.size());
  void* const convolution = describe(
      kConvolutionKind,
      {{kConvolutionType, kTypeValue, 1, &computed},
       {kConvolutionMode, kModeValue, 1, &kCrossCorrelation},
       {kConvolutionAxes, kIntValue, 1, &axes},
       {kConvolutionDilation, kIntValue, axes, dilation.data()},
       {kConvolutionStride, kIntValue, axes, stride.data()},
       {kConvolutionBefore, kIntValue, axes, padding.data()},
       {kConvolutionAfter, kIntValue, axes, padding.data()}});
  // For each way: alpha, beta and the convolution, and then weight, input and
  // output, or else for the gradient of weights these by its own order.
  const int first = kConvolveFirst + 6 * static_cast<int>(way);
  const bool of_weight = way == ConvolutionWay::Weight;
  const int kind = way == ConvolutionWay::Output ? kConvolveKind
      : of_weight                                ? kConvolveWeightKind
                                                 : kConvolveInputKind;
  constexpr static std::array<float, 2> kScales{1, 0};
  constexpr static std::array<double, 2> kWideScales{1, 0};
  const bool wide = computed == CudnnType::Double;
  const auto scale = [&](size_t i) {
    return wide ? static_cast<const void*>(&kWideScales.at(i)) : &kScales.at(i);
  };
  const auto scale_type = wide ? kDoubleValue : kFloatValue;
  addOperation(
      kind,
      {{first, scale_type, 1, scale(0)},
       {first + 1, scale_type, 1, scale(1)},
       {first + 2, kDescriptorValue, 1, &convolution},
       {first + 3, kDescriptorValue, 1, &weight},
       {first + 4, kDescriptorValue, 1, &input},
       {first + 5, kDescriptorValue, 1, &output}});
}

void CudnnGraph::multiply(Tensor left, Tensor right, Tensor out) {
  const auto type = CudnnType::Float;
  void* const matmul =
      describe(kMatmulKind, {{kMatmulType, kTypeValue, 1, &type}});
  addOperation(
      kMultiplyKind,
      {{kMultiplyLeft, kDescriptorValue, 1, &left},
       {kMultiplyRight, kDescriptorValue, 1, &right},
       {kMultiplyOut, kDescriptorValue, 1, &out},
       {kMultiplyMatmul, kDescriptorValue, 1, &matmul}});
}

void CudnnGraph::point(
    CudnnPoint what,
    std::initializer_list<Tensor> from,
    Tensor out,
    CudnnType computed,
    int64_t axis) {
  void* const point = describe(
      kPointKind,
      {{kPointMode, kPointValue, 1, &what},
       {kPointType, kTypeValue, 1, &computed},
       {kPointAxis, kIntValue, axis < 0 ? 0 : 1, &axis}});
  const auto* const given = from.begin();
  const auto attribute = [&](int name, size_t i) {
    return CudnnAttribute{
        name, kDescriptorValue, i < from.size() ? 1 : 0, given + i};
  };
  addOperation(
      kPointwiseKind,
      {{kPointwisePoint, kDescriptorValue, 1, &point},
       attribute(kPointwiseX, 0),
       attribute(kPointwiseB, 1),
       attribute(kPointwiseT, 2),
       {kPointwiseY, kDescriptorValue, 1, &out}});
}

void CudnnGraph::reduce(CudnnReduce what, Tensor in, Tensor out) {
  const auto type = CudnnType::Float;
  void* const reduction = describe(
      kReductionKind,
      {{kReductionOperator, kReduceValue, 1, &what},
       {kReductionType, kTypeValue, 1, &type}});
  addOperation(
      kReduceKind,
      {{kReduceIn, kDescriptorValue, 1, &in},
       {kReduceOut, kDescriptorValue, 1, &out},
       {kReduceReduction, kDescriptorValue, 1, &reduction}});
}

void CudnnGraph::draw(Tensor seed, Tensor offset, double keep, Tensor out) {
  void* const random = describe(
      kRandomKind,
      {{kRandomDistribution, kDistributionValue, 1, &kBernoulli},
       {kRandomProbability, kDoubleValue, 1, &keep}});
  addOperation(
      kDrawKind,
      {{kDrawSeed, kDescriptorValue, 1, &seed},
       {kDrawOffset, kDescriptorValue, 1, &offset},
       {kDrawOut, kDescriptorValue, 1, &out},
       {kDrawRandom, kDescriptorValue, 1, &random}});
}

void CudnnGraph::reshape(Tensor in, Tensor out) {
  addOperation(
      kReshapeKind,
      {{kReshapeIn, kDescriptorValue, 1, &in},
       {kReshapeOut, kDescriptorValue, 1, &out}});
}

} // namespace at::xpu::detail
