#include <ATen/ATen.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Foreach.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

// Optimizers that change all parameters at once, and the scale of gradients,
// kernels/Foreach.sycl. Numbers that the device has stay there.

namespace at::xpu::detail {

namespace {

using OptionalTensor = c10::optional<Tensor>;

/// A number of float on the device, or null if it is not given.
struct DeviceNumber {
  bool plain = true; // whether kernels take it
  const void* at = nullptr;

  DeviceNumber(const OptionalTensor& tensor, const Tensor& like) {
    if (tensor && tensor->defined()) {
      plain = tensor->device() == like.device() && tensor->numel() == 1 &&
          tensor->scalar_type() == kFloat;
      at = plain ? tensor->data_ptr() : nullptr;
    }
  }
};

/// The learning rate: a number, or a tensor of the device or of the CPU.
struct Rate {
  double number = 0;
  const Tensor* tensor = nullptr;

  // NOLINTNEXTLINE(google-explicit-constructor): both are arguments
  Rate(double rate) : number(rate) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Rate(const Tensor& rate) {
    if (rate.is_cpu() && rate.numel() == 1) {
      number = rate.item<double>();
    } else {
      tensor = &rate;
    }
  }
};

bool areSteps(TensorList steps, TensorList self) {
  return steps.size() == self.size() &&
      std::all_of(steps.begin(), steps.end(), [&](const Tensor& step) {
           return step.numel() == 1 && step.scalar_type() == kFloat &&
               step.device() == self[0].device();
         });
}

/// Launches a kernel over the lists, the first of which are alike. False if
/// none takes them.
bool runOptimizer(
    const std::string& op,
    Foreach kernel,
    ArrayRef<TensorList> lists,
    TensorList steps,
    const Rate& rate,
    const OptionalTensor& grad_scale,
    const OptionalTensor& found_inf,
    std::initializer_list<double> numbers,
    std::initializer_list<bool> flags) {
  const auto self = lists[0];
  if (self.empty() || !(steps.empty() || areSteps(steps, self))) {
    return false;
  }
  const auto type = foreachType(lists);
  const DeviceNumber scale(grad_scale, self[0]);
  const DeviceNumber found(found_inf, self[0]);
  const DeviceNumber rate_at(
      rate.tensor ? OptionalTensor(*rate.tensor) : OptionalTensor(), self[0]);
  if (!type || !scale.plain || !found.plain || !rate_at.plain) {
    return false;
  }
  const auto device = self[0].device().index();
  const auto* const found_kernel = findForeach(kernel, *type, device);
  if (!found_kernel) {
    return false;
  }
  const c10::xpu::XPUGuard guard(device);
  c10::SmallVector<TensorList, 6> all(lists.begin(), lists.end());
  all.resize(5);
  all.push_back(steps);
  const TensorTable table(device, all);
  c10::SmallVector<KernelArgument, 16> arguments{
      scale.at, found.at, rate_at.at, kernelNumber(rate.number, *type)};
  for (const auto number : numbers) {
    arguments.push_back(kernelNumber(number, *type));
  }
  for (const bool flag : flags) {
    arguments.push_back(uint32_t(flag));
  }
  table.launch(op, found_kernel, arguments);
  return true;
}

template <bool decoupled>
struct Adam {
  static bool run(
      const std::string& op,
      TensorList self,
      TensorList grads,
      TensorList exp_avgs,
      TensorList exp_avg_sqs,
      TensorList max_exp_avg_sqs,
      TensorList state_steps,
      const Rate& lr,
      double beta1,
      double beta2,
      double weight_decay,
      double eps,
      bool amsgrad,
      bool maximize,
      const OptionalTensor& grad_scale,
      const OptionalTensor& found_inf) {
    c10::SmallVector<TensorList, 6> lists{self, grads, exp_avgs, exp_avg_sqs};
    if (amsgrad) {
      lists.push_back(max_exp_avg_sqs);
    }
    return !state_steps.empty() &&
        runOptimizer(
            op,
            Foreach::adam,
            lists,
            state_steps,
            lr,
            grad_scale,
            found_inf,
            {weight_decay,
             eps,
             1 - beta1,
             std::log(beta1),
             beta2,
             1 - beta2,
             std::log(beta2)},
            {maximize, amsgrad, decoupled});
  }
};

#ifdef XPU_LATER_OPERATORS
struct Sgd {
  static bool run(
      const std::string& op,
      TensorList self,
      TensorList grads,
      TensorList momentum_buffers,
      double weight_decay,
      double momentum,
      const Rate& lr,
      double dampening,
      bool nesterov,
      bool maximize,
      bool is_first_step,
      const OptionalTensor& grad_scale,
      const OptionalTensor& found_inf) {
    c10::SmallVector<TensorList, 6> lists{self, grads};
    if (momentum != 0) {
      lists.push_back(momentum_buffers);
    }
    return runOptimizer(
        op,
        Foreach::sgd,
        lists,
        {},
        lr,
        grad_scale,
        found_inf,
        {weight_decay, momentum, 1 - dampening},
        {maximize, nesterov, is_first_step});
  }
};

struct Adagrad {
  static bool run(
      const std::string& op,
      TensorList self,
      TensorList grads,
      TensorList state_sums,
      TensorList state_steps,
      const Rate& lr,
      double lr_decay,
      double weight_decay,
      double eps,
      bool maximize,
      const OptionalTensor& grad_scale,
      const OptionalTensor& found_inf) {
    return !state_steps.empty() &&
        runOptimizer(
            op,
            Foreach::adagrad,
            {self, grads, state_sums},
            state_steps,
            lr,
            grad_scale,
            found_inf,
            {weight_decay, lr_decay, eps},
            {maximize});
  }
};
#endif

/// What How cannot do is left to the host.
template <class Op, class How, class Schema = typename Op::schema>
struct OptimizerCall;

template <class Op, class How, class... Args>
struct OptimizerCall<Op, How, void(Args...)> {
  static void call(Args... args) {
    static const std::string name = Op::name;
    if (!How::run(name, args...)) {
      OnHost<Op>::call(args...);
    }
  }
};

// The scale of gradients.

void unscale(TensorList self, Tensor& found_inf, const Tensor& inv_scale) {
  using Op = at::_ops::_amp_foreach_non_finite_check_and_unscale_;
  static const std::string name = Op::name;
  if (self.empty()) {
    return;
  }
  const auto& first = self[0];
  const DeviceNumber found(found_inf, first);
  const DeviceNumber factor(inv_scale, first);
  const auto type = foreachType({self});
  const auto device = first.device().index();
  const auto* const kernel = type && found.plain && factor.plain
      ? findForeach(Foreach::unscale, *type, device)
      : nullptr;
  if (!kernel) {
    OnHost<Op>::call(self, found_inf, inv_scale);
    return;
  }
  const c10::xpu::XPUGuard guard(device);
  TensorTable(device, {self}).launch(name, kernel, {found.at, factor.at});
}

Tensor& updateScale(
    Tensor& self,
    Tensor& growth_tracker,
    const Tensor& found_inf,
    double growth,
    double backoff,
    int64_t interval) {
  using Op = at::_ops::_amp_update_scale_;
  static const std::string name = Op::name;
  const DeviceNumber scale(self, self);
  const DeviceNumber found(found_inf, self);
  const bool plain = scale.plain && found.plain &&
      growth_tracker.numel() == 1 && growth_tracker.scalar_type() == kInt &&
      growth_tracker.device() == self.device();
  const auto device = self.device().index();
  const auto* const kernel = plain && kernelDevice(self)
      ? findForeach(Foreach::update_scale, f32, device)
      : nullptr;
  if (!kernel) {
    return OnHost<Op>::call(
        self, growth_tracker, found_inf, growth, backoff, interval);
  }
  const c10::xpu::XPUGuard guard(device);
  launchKernel(
      *kernel,
      c10::xpu::getCurrentXPUStream(device),
      name,
      1,
      {scale.at,
       growth_tracker.data_ptr(),
       found.at,
       static_cast<float>(growth),
       static_cast<float>(backoff),
       static_cast<int32_t>(
           std::min<int64_t>(interval, std::numeric_limits<int32_t>::max()))});
  return self;
}

template <class Op, class How>
void addOptimizer(torch::Library& library) {
  library.impl(nameOf<Op>().c_str(), &OptimizerCall<Op, How>::call);
}

void registerOptimizers(torch::Library& library) {
  addOptimizer<at::_ops::_fused_adam_, Adam<false>>(library);
#ifdef XPU_LATER_OPERATORS
  addOptimizer<at::_ops::_fused_adam__tensor_lr, Adam<false>>(library);
  addOptimizer<at::_ops::_fused_adamw_, Adam<true>>(library);
  addOptimizer<at::_ops::_fused_adamw__tensor_lr, Adam<true>>(library);
  addOptimizer<at::_ops::_fused_sgd_, Sgd>(library);
  addOptimizer<at::_ops::_fused_sgd__tensor_lr, Sgd>(library);
  addOptimizer<at::_ops::_fused_adagrad_, Adagrad>(library);
  addOptimizer<at::_ops::_fused_adagrad__tensor_lr, Adagrad>(library);
#endif
  library.impl("_amp_foreach_non_finite_check_and_unscale_", &unscale);
  library.impl("_amp_update_scale_", &updateScale);
}

[[maybe_unused]] const bool kOptimizersAdded = addKernels(&registerOptimizers);

} // namespace

} // namespace at::xpu::detail
