#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/ceil_div.h>
#include <ATen/xpu/detail/Cudnn.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/OneDnn.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/Product.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/Strides.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

// Convolutions: by cuDNN or oneDNN where it is found, see Cudnn.h and OneDnn.h,
// or else by kernels/Convolution.sycl.

namespace at::xpu::detail {

namespace {

std::string convolutionSourceOf(int type) {
  return tileSource(type) +
#include <ATen/xpu/kernels/Convolution.sycl>
      ;
}

const KernelFamily kConvolutions("convolution", &convolutionSourceOf, FLOATING);
const NamedKernel kConvolve(kConvolutions, "convolve");
const NamedKernel kConvolveFew(kConvolutions, "convolve_few");
const NamedKernel kConvolveWeight(kConvolutions, "convolve_weight");

constexpr int64_t kFewRows = 8; // for which most of a tile would be empty
constexpr int64_t kLeastSteps = 16; // of a part
constexpr int64_t kAxes = 3;
constexpr std::array<int64_t, kAxes + 1> kAllButChannels{0, 2, 3, 4};

uint64_t packNumbers(int64_t low, int64_t high) {
  return uint32_t(low) | uint64_t(uint32_t(high)) << 32;
}

/// Whether there are elements, and numbers of 32 bits say where.
bool hasSmallOffsets(const Tensor& tensor) {
  int64_t last = 0;
  for (const auto d : c10::irange(tensor.dim())) {
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return tensor.numel() > 0 && last < kMostElements;
}

/// One of three axes: a convolution with less has them at the end.
int64_t onAxis(IntArrayRef list, int64_t axis, int64_t otherwise) {
  const auto at = axis + int64_t(list.size()) - kAxes;
  return at < 0 ? otherwise : list[at];
}

// PyTorch 1.13 has one switch for all operators of cuDNN.
template <typename Op>
bool allowsTf32(bool (Context::*allows)(std::optional<Op>) const) {
  return (at::globalContext().*allows)(Op::CONV);
}
[[maybe_unused]] bool allowsTf32(bool (Context::*allows)() const) {
  return (at::globalContext().*allows)();
}

struct Convolution {
  const std::string& op; // for the profiler
  IntArrayRef stride, padding, dilation;
  bool transposed;
  IntArrayRef output_padding;
  int64_t groups;
  KernelType type{};
  DeviceIndex device = -1;
  DimVector sizes{}; // of the result
  // channels_last if input or weight is, as for PyTorch's other devices
  MemoryFormat format{};

  /// Whether kernels take it; the host has the checks.
  bool prepare(const Tensor& input, const Tensor& weight, const Tensor& bias) {
    const auto found = kernelTypeOf(input, FLOATING);
    const auto dims = input.dim() - 2;
    if (!found || dims < 1 || dims > kAxes || weight.dim() != input.dim() ||
        groups < 1 || !alike(weight, input) || !alike(bias, input) ||
        weight.layout() != kStrided || weight.size(0) % groups != 0) {
      return false;
    }
    for (const auto list : {stride, padding, dilation, output_padding}) {
      if (int64_t(list.size()) != dims) {
        return false;
      }
    }
    auto channels = weight.size(1) * groups;
    auto rows = weight.size(0);
    if (transposed) {
      std::swap(channels, rows);
    }
    if (input.size(1) != channels ||
        (bias.defined() && (bias.dim() != 1 || bias.numel() != rows))) {
      return false;
    }
    type = *found;
    device = input.device().index();
    format = input.suggest_memory_format();
    if (format == MemoryFormat::Contiguous) {
      format = weight.suggest_memory_format();
    }
    sizes = {input.size(0), rows};
    for (const auto d : c10::irange(dims)) {
      const auto from = input.size(d + 2);
      const auto around = 2 * padding[d];
      const auto reach = dilation[d] * (weight.size(d + 2) - 1) + 1;
      const auto more = output_padding[d];
      const bool is_plain = transposed
          ? more >= 0 && more < std::max(stride[d], dilation[d])
          : more == 0 && from + around >= reach;
      if (!is_plain || stride[d] < 1 || stride[d] > kMostElements ||
          dilation[d] < 1 || padding[d] < 0) {
        return false;
      }
      sizes.push_back(
          transposed ? (from - 1) * stride[d] - around + reach + more
                     : (from + around - reach) / stride[d] + 1);
      if (sizes.back() < 1 ||
          sizes.back() + from + around + reach > kMostElements) {
        return false;
      }
    }
    return true;
  }

  /// Makes what the convolution, or the transposed one, makes of `in`. As all
  /// of these, gives an undefined tensor if numbers are too large.
  Tensor convolve(
      bool is_transposed,
      IntArrayRef out_sizes,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& bias) const {
    const auto out = at::empty(out_sizes, in.options().memory_format(format));
    return convolveTo(is_transposed, out, in, weight, bias) ? out : Tensor();
  }

  Tensor weightGradient(
      const Tensor& grad,
      const Tensor& input,
      const Tensor& weight) const {
    auto result = at::empty_like(weight);
    const auto& in = transposed ? grad : input;
    const auto& out = transposed ? input : grad;
    if (isProduct(weight) &&
        (format != MemoryFormat::Contiguous || grad.size(0) == 1)) {
      const auto rows = pixelsOf(grad);
      const auto columns = pixelsOf(input);
      multiply({op, channelsOf(result), rows.transposed(), columns});
      return result;
    }
    if (byLibrary(ConvolutionWay::Weight, in, result, out)) {
      return result;
    }
    if (launch(kConvolveWeight, false, out, in, result, Tensor())) {
      return result;
    }
    Tensor sum;
    const bool by_halves = inHalves(
        [&](const Tensor& some_grad, const Tensor& some) {
          const auto half = weightGradient(some_grad, some, weight);
          sum = sum.defined() && half.defined() ? sum.add_(half) : half;
          return half.defined();
        },
        grad,
        input);
    return by_halves ? sum : Tensor();
  }

 private:
  /// Returns false if numbers are too large, even for one image.
  bool convolveTo(
      bool is_transposed,
      const Tensor& out,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& bias) const {
    if (isProduct(weight)) {
      const auto to = pixelsOf(out);
      auto matrix = channelsOf(weight);
      if (is_transposed == transposed) {
        matrix = matrix.transposed();
      }
      matrix.batch = to.batch;
      Matrices added;
      if (bias.defined()) {
        added = {bias, to.batch, to.rows, to.cols, 0, 0, bias.stride(0)};
      }
      multiply({op, to, pixelsOf(in), matrix, added, bias.defined() ? 1 : 0});
      return true;
    }
    const bool by_library = is_transposed
        ? byLibrary(ConvolutionWay::Input, out, weight, in)
        : byLibrary(ConvolutionWay::Output, in, weight, out);
    if (by_library) {
      if (bias.defined()) {
        DimVector sizes(out.dim(), 1);
        sizes[1] = out.size(1);
        out.add_(bias.view(sizes));
      }
      return true;
    }
    const auto& kernel =
        out.size(1) / groups < kFewRows ? kConvolveFew : kConvolve;
    if (launch(kernel, is_transposed, out, in, weight, bias)) {
      return true;
    }
    return inHalves(
        [&](const Tensor& to, const Tensor& from) {
          return convolveTo(is_transposed, to, from, weight, bias);
        },
        out,
        in);
  }

  /// Whether each pixel is multiplied by a matrix. Of float, cuDNN's product
  /// may be in TF32, and by default is.
  bool isProduct(const Tensor& weight) const {
    const auto is = [](IntArrayRef list, int64_t number) {
      return std::all_of(
          list.begin(), list.end(), [=](int64_t one) { return one == number; });
    };
    return !transposed && groups == 1 && is(weight.sizes().slice(2), 1) &&
        is(stride, 1) && is(padding, 0) && canMultiply(weight, weight) &&
        (type != f32 || !hasCudnn(device));
  }

  /// The weights as a matrix.
  static Matrices channelsOf(const Tensor& weight) {
    return {
        weight,
        1,
        weight.size(0),
        weight.size(1),
        0,
        weight.stride(0),
        weight.stride(1)};
  }

  /// A row for each pixel, and a column for each channel. Without channels_last
  /// images are a batch.
  Matrices pixelsOf(const Tensor& tensor) const {
    const auto pixels = tensor.numel() / tensor.size(1);
    const auto channels = tensor.size(1);
    const auto images = tensor.size(0);
    auto plain = tensor.contiguous(format);
    return format == MemoryFormat::Contiguous
        ? Matrices{plain, images, pixels / images, channels, pixels / images * channels, 1, pixels / images}
        : Matrices{plain, 1, pixels, channels, 0, channels, 1};
  }

  bool byLibrary(
      ConvolutionWay way,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& out) const {
    if (!libraryTakes(in, weight, out)) {
      return false;
    }
    const bool by_cudnn = convolvesByCudnn(in);
    if (!by_cudnn && !convolvesByOneDnn(in)) {
      return false;
    }
    // cuDNN does not take double otherwise.
    const auto packing = type == f64 ? MemoryFormat::Contiguous : format;
    std::array<Tensor, 3> packed{in, weight, out}; // alive until it is launched
    const size_t result_at = way == ConvolutionWay::Output ? 2
        : way == ConvolutionWay::Weight                    ? 1
                                                           : 0;
    const auto result = packed.at(result_at);
    for (auto& tensor : packed) {
      if (!tensor.is_contiguous(packing)) {
        tensor = tensor.is_same(result)
            ? at::empty(tensor.sizes(), tensor.options().memory_format(packing))
            : tensor.contiguous(packing);
      }
    }
    const ConvolutionCall call{
        op,
        way,
        packed[0],
        packed[1],
        packed[2],
        stride,
        padding,
        dilation,
        groups,
        packing,
        type == f32 && allowsTf32(&Context::allowTF32CuDNN)};
    if (!(by_cudnn ? convolveByCudnn(call) : convolveByOneDnn(call))) {
      return false;
    }
    if (!packed.at(result_at).is_same(result)) {
      result.copy_(packed.at(result_at));
    }
    return true;
  }

  /// Whether a library can be asked.
  bool libraryTakes(const Tensor& in, const Tensor& weight, const Tensor& out)
      const {
    const auto is_large = [](int64_t n) { return n > kMostElements; };
    for (const auto* tensor : {&in, &weight, &out}) {
      if (tensor->numel() == 0 || is_large(tensor->numel())) {
        return false;
      }
    }
    // A transposed convolution may want more places than these.
    for (const auto i : c10::irange(stride.size())) {
      const auto d = static_cast<int64_t>(i) + 2;
      if (is_large(padding[i]) || is_large(stride[i]) ||
          is_large(dilation[i])) {
        return false;
      }
      const auto reach = dilation[i] * (weight.size(d) - 1) + 1;
      const auto places = in.size(d) + 2 * padding[i] - reach;
      if (places < 0 || places / stride[i] + 1 != out.size(d)) {
        return false;
      }
    }
    return true;
  }

  bool launch(
      const NamedKernel& kernel,
      bool is_transposed,
      const Tensor& out,
      const Tensor& in,
      const Tensor& weight,
      const Tensor& bias) const {
    const auto* const found = kernel.find(type, device);
    if (!found || groupSize(*found) < kTileItems || !hasSmallOffsets(out) ||
        !hasSmallOffsets(in) || !hasSmallOffsets(weight)) {
      return false;
    }
    const bool of_weight = &kernel == &kConvolveWeight;
    const bool in_tiles = &kernel != &kConvolveFew;
    const auto& result = of_weight ? weight : out;
    const auto rows = out.size(1) / groups;
    const auto channels = in.size(1) / groups;
    auto places = in.size(0);
    auto uses = channels;
    auto batches = groups;
    c10::SmallVector<KernelArgument, 5 * kAxes> packed;
    uint64_t shifts = 0;
    for (const auto i : c10::irange(kAxes)) {
      const auto d = in.dim() - kAxes + i;
      const auto step_of = onAxis(stride, i, 1);
      const auto apart = onAxis(dilation, i, 1);
      const auto pack = [&](const Tensor& tensor) {
        return d < 2 ? packNumbers(1, 0)
                     : packNumbers(tensor.size(d), tensor.stride(d));
      };
      const auto factor = [&](int64_t size, int64_t at) {
        uint32_t shift = 0;
        const auto factor = factorOf(uint32_t(size), shift) >> 32;
        shifts |= uint64_t(shift) << at;
        return int64_t(factor);
      };
      // See Note [Convolutions].
      const auto phases = is_transposed ? step_of : 1;
      const auto step = phases / std::gcd(phases, apart);
      const auto axis_places = at::ceil_div(d < 2 ? 1 : out.size(d), phases);
      const auto axis_uses = at::ceil_div(d < 2 ? 1 : weight.size(d), step);
      places *= axis_places;
      uses *= axis_uses;
      batches *= phases;
      if (batches > kMostElements) {
        return false;
      }
      packed.append(
          {pack(in),
           pack(out),
           pack(weight),
           packNumbers(step_of, apart),
           packNumbers(
               factor(axis_places, 16 * i),
               factor(i == 0 ? channels : axis_uses, 16 * i + 8))});
    }
    const auto cols = of_weight ? uses : places;
    const auto inner = of_weight ? places : uses;
    if (cols > kMostElements || inner > kMostElements - kTile) {
      return false;
    }
    auto parts = batches; // as convolve_few takes them
    auto of_part = inner;
    auto items = batches * rows * cols;
    if (in_tiles) {
      const auto tiles = tilesOf(rows, cols) * batches;
      parts = std::clamp<int64_t>(
          itemsWanted(device) / kTileItems / tiles,
          1,
          std::max<int64_t>(inner / (kTileStep * kLeastSteps), 1));
      of_part = at::ceil_div(at::ceil_div(inner, parts), kTileStep) * kTileStep;
      parts = at::ceil_div(inner, of_part);
      items = tiles * parts * kTileItems;
    }
    if (items > kMostElements) {
      return false;
    }
    Tensor sums;
    if (in_tiles && parts > 1) {
      sums = at::empty(
          {parts, result.numel()}, result.options().dtype(computedType(type)));
    }
    const auto row = weight.stride(is_transposed ? 1 : 0);
    const auto channel = weight.stride(is_transposed ? 0 : 1);
    const bool left_along_k =
        of_weight ? out.stride(-1) <= out.stride(1) : channel <= row;
    const bool right_along_k = of_weight != (in.stride(1) < in.stride(-1));
    const int64_t flags =
        int(is_transposed) + 2 * int(left_along_k) + 4 * int(right_along_k);
    c10::SmallVector<KernelArgument, 32> arguments{
        result.data_ptr(),
        in.data_ptr(),
        of_weight ? out.data_ptr() : weight.data_ptr()};
    if (!of_weight) {
      arguments.emplace_back(pointerOf(bias));
    }
    arguments.append(
        {pointerOf(sums),
         uint64_t(result.numel()),
         uint32_t(in.size(0)),
         uint32_t(rows),
         uint32_t(channels),
         uint32_t(parts),
         uint32_t(of_part),
         packNumbers(in.stride(1), in.stride(0)),
         packNumbers(out.stride(1), out.stride(0)),
         packNumbers(channel, row)});
    arguments.append(packed.begin(), packed.end());
    const auto pad = [&](int64_t axis) { return onAxis(padding, axis, 0); };
    arguments.append(
        {shifts, packNumbers(pad(0), pad(1)), packNumbers(pad(2), flags)});
    kernel.launch(op, type, device, items, arguments, kTileItems);
    if (sums.defined()) {
      result.copy_(sums.sum(0).as_strided(result.sizes(), result.strides()));
    }
    return true;
  }
};

Tensor convolveOnDevice(
    const Tensor& input,
    const Tensor& weight,
    const c10::optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  static const std::string name = "aten::convolution_overrideable";
  const auto added = tensorOf(bias);
  Convolution convolution{
      name, stride, padding, dilation, transposed, output_padding, groups};
  Tensor result;
  if (convolution.prepare(input, weight, added)) {
    const c10::xpu::XPUGuard guard(input.device());
    result = convolution.convolve(
        transposed,
        convolution.sizes,
        input,
        weight,
        added.defined() ? added.contiguous() : added);
  }
  return result.defined() ? result
                          : hostConvolution(
                                input,
                                weight,
                                bias,
                                stride,
                                padding,
                                dilation,
                                transposed,
                                output_padding,
                                groups);
}

std::tuple<Tensor, Tensor, Tensor> convolveBack(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> mask) {
  static const std::string name = "aten::convolution_backward_overrideable";
  Convolution convolution{
      name, stride, padding, dilation, transposed, output_padding, groups};
  if (convolution.prepare(input, weight, Tensor()) && alike(grad, input) &&
      grad.layout() == kStrided &&
      grad.sizes() == IntArrayRef(convolution.sizes)) {
    const c10::xpu::XPUGuard guard(input.device());
    Tensor of_input;
    Tensor of_weight;
    Tensor of_bias;
    if (mask[0]) {
      of_input = convolution.convolve(
          !transposed, input.sizes(), grad, weight, Tensor());
    }
    if (mask[1]) {
      of_weight = convolution.weightGradient(grad, input, weight);
    }
    if (mask[2]) {
      of_bias = grad.sum(IntArrayRef(kAllButChannels).slice(0, grad.dim() - 1));
    }
    if (of_input.defined() == mask[0] && of_weight.defined() == mask[1]) {
      return {of_input, of_weight, of_bias};
    }
  }
  return hostConvolutionBackward(
      grad,
      input,
      weight,
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      mask);
}

void addConvolutions(torch::Library& library) {
  library.impl("convolution_overrideable", &convolveOnDevice);
  library.impl("convolution_backward_overrideable", &convolveBack);
}

[[maybe_unused]] const bool kConvolutionsAdded = addKernels(&addConvolutions);

} // namespace

} // namespace at::xpu::detail
