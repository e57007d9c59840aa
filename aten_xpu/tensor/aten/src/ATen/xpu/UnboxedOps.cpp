#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/detail/FallbackOperator.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <tuple>
#include <utility>

// Operators that models call often on small tensors, where a boxed call would
// be a large part of the time. On host memory they do what the fallback does,
// unboxed; all else they leave to the fallback.

namespace at::xpu {

namespace {

/// Looks at all arguments of a call.
struct Arguments {
  c10::optional<Device> device;
  /// Whether its tensors are on one XPU device, but for scalars of the CPU, and
  /// have types that every kernel of the CPU takes.
  bool plain = true;

  void look(const Tensor& tensor) {
    if (tensor.is_cpu() && tensor.dim() == 0) {
      return;
    }
    plain &= tensor.is_xpu() && tensor.layout() == kStrided &&
        detail::narrowType(tensor.scalar_type()) == detail::kNoNarrowType &&
        (!device || tensor.device() == *device);
    device = tensor.device();
  }
  void look(const Scalar& /*scalar*/) {}
};

Tensor toHost(const Tensor& tensor) {
  return HostCall::borrow(tensor);
}

Scalar toHost(const Scalar& scalar) {
  return scalar;
}

/// An operator whose result shares no memory with its arguments.
template <class Op, class Schema = typename Op::schema>
struct Unboxed;

template <class Op, class... Args>
struct Unboxed<Op, Tensor(Args...)> {
  static Tensor call(Args... args) {
    Arguments arguments;
    (arguments.look(args), ...);
    if (!arguments.plain || !arguments.device ||
        !isHostMemory(arguments.device->index())) {
      return OnHost<Op>::call(args...);
    }
    static const auto& op =
        *new auto(detail::findFallbackOperator( // never destroyed
            c10::Dispatcher::singleton().findSchemaOrThrow(
                Op::name, Op::overload_name)));
    op->tell();
    c10::xpu::warn_or_error_on_sync();
    HostCall host(arguments.device->index(), op->name.c_str());
    Tensor result;
    {
      const detail::RecordWork record(
          detail::RecordWork::By::Host,
          op->name,
          c10::xpu::getCurrentXPUStream());
      result = Op::redispatch(
          c10::DispatchKeySet(c10::DispatchKey::CPU), toHost(args)...);
    }
    result = host.toDevice(result);
    op->counter.calls.fetch_add(1, std::memory_order_relaxed);
    return result;
  }
};

template <class Op, typename Function = typename Op::schema>
void add(torch::Library& library, Function* function = &Unboxed<Op>::call) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      Op::name, Op::overload_name);
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
    const auto name = c10::toString(op.operator_name());
    library.impl(name.c_str(), function);
  }
}

/// PyTorch makes the gradient and the input contiguous for its own devices, and
/// the CPU's kernel relies on that.
std::tuple<Tensor, Tensor, Tensor> groupNormBackward(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& rstd,
    const c10::optional<Tensor>& weight,
    int64_t n,
    int64_t c,
    int64_t hxw,
    int64_t group,
    std::array<bool, 3> mask) {
  return OnHost<at::_ops::native_group_norm_backward>::call(
      grad.contiguous(),
      input.contiguous(),
      mean,
      rstd,
      weight,
      n,
      c,
      hxw,
      group,
      mask);
}

} // namespace

namespace detail {

void registerUnboxed(torch::Library& library) {
  add<at::_ops::add_Tensor>(library);
  add<at::_ops::sub_Tensor>(library);
  add<at::_ops::mul_Tensor>(library);
  add<at::_ops::div_Tensor>(library);
  add<at::_ops::relu>(library);
  add<at::_ops::mm>(library);
  add<at::_ops::addmm>(library);
  // The CPU's kernel would draw from the CPU's generator; composed of others,
  // its numbers come from the device's.
  add<at::_ops::native_dropout>(library, &at::native::native_dropout_cpu);
  add<at::_ops::native_group_norm_backward>(library, &groupNormBackward);
  add<at::_ops::convolution_overrideable>(library, &hostConvolution);
  add<at::_ops::convolution_backward_overrideable>(
      library, &hostConvolutionBackward);
}

} // namespace detail

} // namespace at::xpu
