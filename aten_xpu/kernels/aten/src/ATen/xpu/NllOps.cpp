#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/core/Reduction.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <tuple>

// The negative log likelihood, kernels/Nll.sycl.

namespace at::xpu::detail {

namespace {

using OptionalTensor = c10::optional<Tensor>;

std::string nllSourceOf(int type) {
  return typedSource(type) + reduceSource() +
#include <ATen/xpu/kernels/Nll.sycl>
      ;
}

const KernelFamily kNllFamily("nll", &nllSourceOf, FLOATING);
const ReduceKernels kNllReduced(kNllFamily, "nll");
const NamedKernel kNllEach(kNllFamily, "nll_each");
const NamedKernel kNllGrad(kNllFamily, "nll_grad");

/// Whose classes are `inner` apart; if there are kernels for all.
struct Likelihood {
  KernelType type{};
  DeviceIndex device = 0;
  Tensor target;
  Tensor weight;
  bool each = false; // no sum
  bool mean = false;
  int64_t ignore = 0;
  int64_t classes = 1;
  int64_t inner = 1;

  static std::optional<Likelihood> of(
      const Tensor& self,
      const Tensor& target,
      const Tensor& weight,
      int64_t reduction,
      int64_t ignore) {
    const auto type = kNllEach.typeFor(self);
    if (!type || target.scalar_type() != kLong ||
        target.device() != self.device() || !alike(weight, self) ||
        target.numel() > kMostElements ||
        self.numel() / std::max<int64_t>(images(self), 1) > kMostElements) {
      return std::nullopt;
    }
    Likelihood result;
    result.type = *type;
    result.device = self.device().index();
    result.target = target.contiguous();
    result.weight = weight.defined() ? weight.contiguous() : weight;
    result.each = reduction == at::Reduction::None && self.dim() > 1;
    result.mean = reduction == at::Reduction::Mean;
    result.ignore = ignore;
    const auto dim = self.dim() > 1 ? 1 : 0;
    result.classes = self.size(dim);
    for (auto d = dim + 1; d < self.dim(); ++d) {
      result.inner *= self.size(d);
    }
    return result;
  }

  /// How many have classes of their own.
  static int64_t images(const Tensor& self) {
    return self.dim() > 1 ? self.size(0) : 1;
  }

  void forward(const Tensor& output, const Tensor& total, const Tensor& self)
      const {
    static const IndexOp op("nll_loss_forward", IndexWords::Target, true);
    const auto in = self.contiguous();
    const auto kind = self.scalar_type();
    const auto to = writable(output, kind);
    const auto count = target.numel();
    if (each) {
      kNllEach.launch(
          op.name,
          type,
          device,
          count,
          {to.data_ptr(),
           in.data_ptr(),
           target.data_ptr(),
           pointerOf(weight),
           ignore,
           uint32_t(classes),
           uint32_t(inner),
           kernelErrors(device),
           op.code,
           uint32_t(count)});
      total.zero_();
    } else {
      launchReduce(
          {op.name,
           kNllReduced,
           type,
           device,
           to.data_ptr(),
           total.data_ptr(),
           {in.data_ptr(),
            target.data_ptr(),
            pointerOf(weight),
            ignore,
            uint32_t(classes),
            uint32_t(inner),
            kernelErrors(device),
            op.code},
           /*state_bytes=*/16,
           sumNumber(count, type),
           sumNumber(mean ? 1 : 0, type),
           ReduceDims{},
           ReduceDims{count, 1}});
    }
    copyUnlessSame(output, to);
  }

  void backward(
      const Tensor& result,
      const Tensor& grad_given,
      const Tensor& total) const {
    static const std::string op = "aten::nll_loss_backward";
    const auto grad = grad_given.contiguous();
    const auto to = writable(result, result.scalar_type());
    const auto all = images(to);
    const auto at_once = std::max<int64_t>(
        kMostElements / std::max<int64_t>(classes * inner, 1), 1);
    for (int64_t begin = 0; begin < all; begin += at_once) {
      const auto count = std::min(at_once, all - begin);
      const auto of = [&](const Tensor& given) {
        return all > at_once ? given.narrow(0, begin, count) : given;
      };
      const auto some = of(to);
      kNllGrad.launch(
          op,
          type,
          device,
          some.numel(),
          {some.data_ptr(),
           (each ? of(grad) : grad).data_ptr(),
           of(target).data_ptr(),
           pointerOf(weight),
           mean ? total.data_ptr() : nullptr,
           ignore,
           uint32_t(classes),
           uint32_t(inner),
           uint32_t(each),
           uint32_t(some.numel())});
    }
    copyUnlessSame(result, to);
  }
};

struct Nll {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      const Tensor& target,
      const OptionalTensor& weight,
      int64_t reduction,
      int64_t ignore) {
    const auto nll =
        Likelihood::of(self, target, tensorOf(weight), reduction, ignore);
    if (!nll) {
      return false;
    }
    op.meta(self, target, metaArgument(weight), reduction, ignore);
    nll->forward(op.maybe_get_output(0), op.maybe_get_output(1), self);
    return true;
  }

  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      const OptionalTensor& weight,
      int64_t reduction,
      int64_t ignore,
      const Tensor& total) {
    const auto nll =
        Likelihood::of(self, target, tensorOf(weight), reduction, ignore);
    if (!nll || !alike(grad, self) || !alike(total, self)) {
      return false;
    }
    op.meta(grad, self, target, metaArgument(weight), reduction, ignore, total);
    nll->backward(op.maybe_get_output(0), grad, total);
    return true;
  }
};

/// Images. PyTorch has no meta class: what does not fit goes to the host, which
/// raises.
std::optional<Likelihood> likelihoodOfImages(
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& given,
    int64_t reduction,
    int64_t ignore) {
  const auto weight = tensorOf(given);
  const bool fits = self.dim() == 4 && target.dim() == 3 &&
      self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
      self.size(3) == target.size(2) &&
      (!weight.defined() || weight.numel() == self.size(1));
  return fits ? Likelihood::of(self, target, weight, reduction, ignore)
              : std::nullopt;
}

std::tuple<Tensor, Tensor> nllLoss2d(
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t reduction,
    int64_t ignore) {
  if (const auto nll =
          likelihoodOfImages(self, target, weight, reduction, ignore)) {
    const c10::xpu::XPUGuard guard(nll->device);
    const auto output =
        at::empty(nll->each ? target.sizes() : IntArrayRef{}, self.options());
    const auto total = at::empty({}, self.options());
    nll->forward(output, total, self);
    return {output, total};
  }
  return OnHost<at::_ops::nll_loss2d_forward>::call(
      self, target, weight, reduction, ignore);
}

Tensor nllLoss2dBackward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& weight,
    int64_t reduction,
    int64_t ignore,
    const Tensor& total) {
  const auto nll = likelihoodOfImages(self, target, weight, reduction, ignore);
  if (nll && alike(grad, self) && alike(total, self) &&
      (nll->each ? grad.sizes() == target.sizes() : grad.numel() == 1)) {
    const c10::xpu::XPUGuard guard(nll->device);
    auto result = at::empty(self.sizes(), self.options());
    nll->backward(result, grad, total);
    return result;
  }
  return OnHost<at::_ops::nll_loss2d_backward>::call(
      grad, self, target, weight, reduction, ignore, total);
}

void registerNll(torch::Library& library) {
  addStructured<
      at::meta::structured_nll_loss_forward,
      Nll,
      at::_ops::nll_loss_forward,
      at::_ops::nll_loss_forward_output>(library);
  addStructured<
      at::meta::structured_nll_loss_backward,
      Nll,
      at::_ops::nll_loss_backward,
      at::_ops::nll_loss_backward_grad_input>(library);
  library.impl("nll_loss2d_forward", &nllLoss2d);
  library.impl("nll_loss2d_backward", &nllLoss2dBackward);
}

[[maybe_unused]] const bool kNllAdded = addKernels(&registerNll);

} // namespace

} // namespace at::xpu::detail
