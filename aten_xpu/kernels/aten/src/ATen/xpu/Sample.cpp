#include <ATen/xpu/detail/Sample.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/irange.h>

#include <algorithm>

namespace at::xpu::detail {

namespace {

const char* sampleSource() {
  return
#include <ATen/xpu/kernels/Sample.sycl>
      ;
}

std::string sampleSourceOf(int type) {
  return typedSource(type) + sampleSource();
}

const KernelFamily kSampleFamily("sample", &sampleSourceOf, FLOATING);

/// By their numbers.
const std::array<NamedKernel, kMaxPoolBack + 1> kSampleKernels{
    {{kSampleFamily, "sample"},
     {kSampleFamily, "max_pool"},
     {kSampleFamily, "max_pool_back"}}};

} // namespace

Sampling samplingOf(
    int dims,
    SampleMode mode,
    IntArrayRef in,
    IntArrayRef out) {
  Sampling sampling{mode, dims};
  for (const auto i : c10::irange(dims)) {
    sampling.axis(i).in = in[in.size() - dims + i];
    sampling.axis(i).out = out[out.size() - dims + i];
  }
  return sampling;
}

void setWindows(
    Sampling& sampling,
    IntArrayRef size,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation) {
  for (const auto i : c10::irange(sampling.dims)) {
    auto& axis = sampling.axis(i);
    axis.a = numberOf(size, i);
    axis.b = numberOf(stride.empty() ? size : stride, i);
    axis.c = numberOf(padding, i);
    axis.d = numberOf(dilation, i);
  }
}

bool runSampling(
    const std::string& op,
    SampleKernel kernel,
    const Tensor& result,
    const Tensor& given,
    const Sampling& sampling,
    bool back,
    const Tensor& indices) {
  const auto type = kSampleKernels[kernel].typeFor(result);
  const auto dims = result.dim();
  if (!type || !alike(given, result) || given.dim() != dims ||
      dims < sampling.dims) {
    return false;
  }
  if (std::max(result.numel(), given.numel()) > kMostElements) {
    return dims > sampling.dims &&
        inHalves(
               [&](const auto& to, const auto& from, const auto& places) {
                 return runSampling(
                     op, kernel, to, from, sampling, back, places);
               },
               result,
               given,
               indices);
  }
  if (result.numel() == 0) {
    return true;
  }
  const auto format = dims == sampling.dims + 2 ? result.suggest_memory_format()
                                                : MemoryFormat::Contiguous;
  const auto inner = format == MemoryFormat::Contiguous ? 1 : result.size(1);
  const auto from = given.contiguous(format);
  const auto as_is = [&](const Tensor& tensor) {
    return tensor.is_contiguous(format)
        ? tensor
        : at::empty(tensor.sizes(), tensor.options(), format);
  };
  const auto to = as_is(result);
  const auto places = !indices.defined() ? Tensor()
      : back                             ? indices.contiguous(format)
                                         : as_is(indices);
  c10::SmallVector<KernelArgument, 32> arguments{to.data_ptr()};
  if (indices.defined()) {
    arguments.emplace_back(places.data_ptr());
  }
  arguments.append({from.data_ptr(), uint32_t(to.numel()), uint32_t(inner)});
  if (kernel == kSample) {
    arguments.append(
        {uint32_t(sampling.mode),
         sampling.flags,
         uint32_t(back),
         kernelNumber(sampling.factor, *type)});
  }
  for (const auto& axis : sampling.axes) {
    for (const auto number : {axis.in, axis.out, axis.a, axis.b, axis.c}) {
      arguments.emplace_back(int32_t(number));
    }
  }
  for (const auto& axis : sampling.axes) {
    arguments.push_back(
        kernel == kSample ? kernelNumber(axis.scale, *type)
                          : KernelArgument(int32_t(axis.d)));
  }
  kSampleKernels[kernel].launch(
      op, *type, result.device().index(), to.numel(), arguments);
  copyUnlessSame(result, to);
  if (!back && indices.defined()) {
    copyUnlessSame(indices, places);
  }
  return true;
}

} // namespace at::xpu::detail
