#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/core/Reduction.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>

// Losses of single elements and their gradients, by kernels/Pointwise.def and a
// reduction.

namespace at::xpu::detail {

namespace {

using OptionalTensor = c10::optional<Tensor>;

// In place of the meta class of a loss that has none.

struct Huber : TensorIteratorBase {
  void meta(
      const Tensor& self,
      const Tensor& target,
      int64_t reduction,
      double delta) {
    TORCH_CHECK(
        delta > 0,
        "huber_loss does not support non-positive values for delta.");
    build_borrowing_binary_op(maybe_get_output(0), self, target);
    if (reduction != at::Reduction::None) {
      maybe_get_output(0).resize_({});
    }
  }
};

/// Writes the mean or the sum of the losses of elements.
void reduceLoss(Tensor result, const Tensor& each, int64_t reduction) {
  reduction == at::Reduction::Mean ? at::mean_out(result, each, IntArrayRef{})
                                   : at::sum_out(result, each, IntArrayRef{});
}

/// Of single elements, which is reduced or not.
template <Pointwise kernel>
struct Loss {
  template <class Meta, typename... Numbers>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      const Tensor& target,
      int64_t reduction,
      const Numbers&... numbers) {
    op.meta(self, target, reduction, numbers...);
    if (reduction == at::Reduction::None) {
      return runPointwise(op, kernel, {Scalar(numbers)...});
    }
    Tensor each;
    auto iter = TensorIterator::borrowing_binary_op(each, self, target);
    if (!runPointwise(iter, kernel, {Scalar(numbers)...})) {
      return false;
    }
    reduceLoss(op.maybe_get_output(0), iter.output(), reduction);
    return true;
  }
};

/// Of a gradient. What comes first among the tensors is `a` of the kernel.
bool runGradient(
    const Tensor& result,
    const Tensor& a,
    const Tensor& b,
    const Tensor& c,
    Pointwise kernel,
    const PointwiseNumbers& numbers) {
  if (!kernelDevice(result, a) || !alike(result, a) || !alike(b, a) ||
      !alike(c, a)) {
    return false; // the host converts, or raises
  }
  const c10::xpu::XPUGuard guard(result.device());
  auto iter = TensorIteratorConfig()
                  .add_output(result)
                  .add_input(a)
                  .add_input(b)
                  .add_input(c)
                  .build();
  return runPointwise(iter, kernel, numbers);
}

double partOf(const Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1. / double(self.numel()) : 1.;
}

/// The gradient of the loss of single elements: numbers are what it is
/// multiplied by, and those of the operator.
template <class OutOp, Pointwise kernel, class Schema = typename OutOp::schema>
struct LossBackward;

template <class OutOp, Pointwise kernel, class... Numbers>
struct LossBackward<
    OutOp,
    kernel,
    Tensor&(const Tensor&, const Tensor&, const Tensor&, int64_t, Numbers...)> {
  static Tensor& out(
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      int64_t reduction,
      Numbers... rest) {
    auto& result = std::get<sizeof...(Numbers) - 1>(std::tie(rest...));
    return outWith(
        grad,
        self,
        target,
        reduction,
        result,
        std::tie(rest...),
        std::make_index_sequence<sizeof...(Numbers) - 1>());
  }

 private:
  template <class Rest, size_t... numbers>
  static Tensor& outWith(
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      int64_t reduction,
      Tensor& result,
      const Rest& rest,
      std::index_sequence<numbers...> /*all but the result*/) {
    return runGradient(
               result,
               self,
               target,
               grad,
               kernel,
               {partOf(self, reduction), Scalar(std::get<numbers>(rest))...})
        ? result
        : OnHost<OutOp>::call(
              grad,
              self,
              target,
              reduction,
              std::get<numbers>(rest)...,
              result);
  }
};

Tensor mseLossBackward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& target,
    int64_t reduction) {
  auto result = at::empty_like(self, at::MemoryFormat::Contiguous);
  return at::mse_loss_backward_out(result, grad, self, target, reduction);
}

// Binary cross entropy. A value outside [0, 1] makes NaN.

bool isCrossEntropy(
    const Tensor& self,
    const Tensor& target,
    const Tensor& weight) {
  return kernelDevice(self) && alike(target, self) && alike(weight, self) &&
      target.sizes() == self.sizes();
}

bool crossEntropyTo(
    const Tensor& loss,
    const Tensor& self,
    const Tensor& target,
    const Tensor& weight,
    int64_t reduction) {
  const c10::xpu::XPUGuard guard(self.device());
  const bool each = reduction == at::Reduction::None;
  const auto to = each ? loss : at::empty_like(self);
  auto iter = TensorIterator::borrowing_binary_op(to, self, target);
  if (!runPointwise(iter, Pointwise::binary_cross_entropy)) {
    return false;
  }
  assertBetween(self, 0, 1, "all elements of input should be between 0 and 1");
  if (weight.defined()) {
    to.mul_(weight);
  }
  if (!each) {
    reduceLoss(loss, to, reduction);
  }
  return true;
}

Tensor crossEntropy(
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& given,
    int64_t reduction) {
  const auto weight = tensorOf(given);
  if (isCrossEntropy(self, target, weight)) {
    const auto loss = reduction == at::Reduction::None
        ? at::empty_like(self)
        : at::empty({}, self.options());
    if (crossEntropyTo(loss, self, target, weight, reduction)) {
      return loss;
    }
  }
  return OnHost<at::_ops::binary_cross_entropy>::call(
      self, target, given, reduction);
}

Tensor& crossEntropyOut(
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& given,
    int64_t reduction,
    Tensor& out) {
  const auto weight = tensorOf(given);
  if (isCrossEntropy(self, target, weight) && alike(out, self)) {
    const bool each = reduction == at::Reduction::None;
    at::native::resize_output(out, each ? self.sizes() : IntArrayRef{});
    if (crossEntropyTo(out, self, target, weight, reduction)) {
      return out;
    }
  }
  return OnHost<at::_ops::binary_cross_entropy_out>::call(
      self, target, given, reduction, out);
}

Tensor& crossEntropyBackwardOut(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& given,
    int64_t reduction,
    Tensor& result) {
  const auto weight = tensorOf(given);
  if (isCrossEntropy(self, target, weight) && alike(result, self) &&
      runGradient(
          result,
          grad,
          self,
          target,
          Pointwise::binary_cross_entropy_backward,
          {partOf(self, reduction)})) {
    return weight.defined() ? result.mul_(weight) : result;
  }
  return OnHost<at::_ops::binary_cross_entropy_backward_grad_input>::call(
      grad, self, target, given, reduction, result);
}

Tensor crossEntropyBackward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& target,
    const OptionalTensor& given,
    int64_t reduction) {
  auto result = at::empty_like(self);
  return at::binary_cross_entropy_backward_out(
      result, grad, self, target, given, reduction);
}

template <class OutOp, Pointwise kernel>
void addLossBackward(torch::Library& library) {
  library.impl(nameOf<OutOp>().c_str(), &LossBackward<OutOp, kernel>::out);
}

void registerLosses(torch::Library& library) {
#define XPU_ADD_LOSS(name, meta) \
  addStructured<                 \
      meta,                      \
      Loss<Pointwise::name>,     \
      at::_ops::name,            \
      at::_ops::name##_out>(library);
  XPU_ADD_LOSS(mse_loss, at::meta::structured_mse_loss)
  XPU_ADD_LOSS(smooth_l1_loss, at::meta::structured_smooth_l1_loss)
  XPU_ADD_LOSS(huber_loss, Huber)
#undef XPU_ADD_LOSS
  addLossBackward<
      at::_ops::mse_loss_backward_grad_input,
      Pointwise::mse_loss_backward>(library);
  addLossBackward<
      at::_ops::smooth_l1_loss_backward_grad_input,
      Pointwise::smooth_l1_loss_backward>(library);
  addLossBackward<
      at::_ops::huber_loss_backward_out,
      Pointwise::huber_loss_backward>(library);
  library.impl("mse_loss_backward", &mseLossBackward);
  library.impl("binary_cross_entropy", &crossEntropy);
  library.impl("binary_cross_entropy.out", &crossEntropyOut);
  library.impl("binary_cross_entropy_backward", &crossEntropyBackward);
  library.impl(
      "binary_cross_entropy_backward.grad_input", &crossEntropyBackwardOut);
}

[[maybe_unused]] const bool kLossesAdded = addKernels(&registerLosses);

} // namespace

} // namespace at::xpu::detail
