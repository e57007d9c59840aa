#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/core/Reduction.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/StructuredCall.h>

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

/// Of three tensors, the first of which is `a` of the kernel.
struct Gradient : TensorIteratorBase {
  void meta(const Tensor& a, const Tensor& b, const Tensor& c) {
    build(
        TensorIteratorConfig()
            .add_output(maybe_get_output(0))
            .add_input(a)
            .add_input(b)
            .add_input(c));
  }
};

/// Not by an iterator: a scalar that it made would keep the memory of all
/// losses.
struct CrossEntropy : at::impl::MetaBase {
  void meta(const Tensor& self, bool each) {
    const auto strides = at::infer_dense_strides(self.sizes(), self.strides());
    set_output_raw_strided(
        0,
        each ? self.sizes() : IntArrayRef(),
        each ? IntArrayRef(strides) : IntArrayRef(),
        self.options());
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

double partOf(const Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::Mean ? 1. / double(self.numel()) : 1.;
}

/// The gradient of the loss of single elements: numbers are what it is
/// multiplied by, and those of the operator.
template <Pointwise kernel>
struct LossBackward {
  template <typename... Numbers>
  static bool run(
      WithOutput<Gradient>& op,
      DeviceIndex /*device*/,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      int64_t reduction,
      const Numbers&... numbers) {
    if (!alike(op.maybe_get_output(0), self) || !alike(target, self) ||
        !alike(grad, self)) {
      return false; // the host converts, or raises
    }
    op.meta(self, target, grad);
    return runPointwise(
        op, kernel, {partOf(self, reduction), Scalar(numbers)...});
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
    const Tensor& result,
    const Tensor& self,
    const Tensor& target,
    const Tensor& weight) {
  return kernelDevice(self) && alike(result, self) && alike(target, self) &&
      alike(weight, self) && target.sizes() == self.sizes();
}

struct CrossEntropyLoss {
  static bool run(
      WithOutput<CrossEntropy>& op,
      DeviceIndex /*device*/,
      const Tensor& self,
      const Tensor& target,
      const OptionalTensor& given,
      int64_t reduction) {
    const auto weight = tensorOf(given);
    const auto& loss = op.maybe_get_output(0);
    if (!isCrossEntropy(loss, self, target, weight)) {
      return false;
    }
    const bool each = reduction == at::Reduction::None;
    op.meta(self, each);
    const auto to = each ? loss : at::empty_like(self);
    auto iter = TensorIterator::borrowing_binary_op(to, self, target);
    if (!runPointwise(iter, Pointwise::binary_cross_entropy)) {
      return false;
    }
    assertBetween(
        self, 0, 1, "all elements of input should be between 0 and 1");
    if (weight.defined()) {
      to.mul_(weight);
    }
    if (!each) {
      reduceLoss(loss, to, reduction);
    }
    return true;
  }
};

struct CrossEntropyBackward {
  static bool run(
      WithOutput<CrossEntropy>& op,
      DeviceIndex /*device*/,
      const Tensor& grad,
      const Tensor& self,
      const Tensor& target,
      const OptionalTensor& given,
      int64_t reduction) {
    const auto weight = tensorOf(given);
    const auto& result = op.maybe_get_output(0);
    if (!isCrossEntropy(result, self, target, weight) || !alike(grad, self)) {
      return false;
    }
    op.meta(self, /*each=*/true);
    WithOutput<Gradient> iter(Outputs::Kind::Out, result);
    iter.meta(grad, self, target);
    if (!runPointwise(
            iter,
            Pointwise::binary_cross_entropy_backward,
            {partOf(self, reduction)})) {
      return false;
    }
    if (weight.defined()) {
      result.mul_(weight);
    }
    return true;
  }
};

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
#define XPU_ADD_BACKWARD(name, out)  \
  addStructured<                     \
      Gradient,                      \
      LossBackward<Pointwise::name>, \
      at::_ops::name##_##out>(library);
  XPU_ADD_BACKWARD(mse_loss_backward, grad_input)
  XPU_ADD_BACKWARD(smooth_l1_loss_backward, grad_input)
  XPU_ADD_BACKWARD(huber_loss_backward, out)
#undef XPU_ADD_BACKWARD
  library.impl("mse_loss_backward", &mseLossBackward);
  addStructured<
      CrossEntropy,
      CrossEntropyLoss,
      at::_ops::binary_cross_entropy,
      at::_ops::binary_cross_entropy_out>(library);
  addStructured<
      CrossEntropy,
      CrossEntropyBackward,
      at::_ops::binary_cross_entropy_backward,
      at::_ops::binary_cross_entropy_backward_grad_input>(library);
}

[[maybe_unused]] const bool kLossesAdded = addKernels(&registerLosses);

} // namespace

} // namespace at::xpu::detail
