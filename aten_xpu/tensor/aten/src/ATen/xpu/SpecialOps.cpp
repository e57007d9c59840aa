#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/irange.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

// Operators that the fallback cannot run as they are, each with the reason.

namespace at::xpu {

namespace {

// PyTorch has fused cells for devices other than the CPU. Here they are made of
// other operators, for autograd too: PyTorch's own derivative formulas would
// keep three copies of the gates. The last result is the workspace of those
// formulas, and is not used. The gates are in PyTorch's order: input, forget,
// cell, output; reset, update, new.

Tensor biased(const Tensor& gates, const c10::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstmCell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const c10::optional<Tensor>& input_bias,
    const c10::optional<Tensor>& hidden_bias) {
  const auto sum =
      biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias);
  const auto gates = sum.unsafe_chunk(4, 1);
  const auto in = gates[0].sigmoid_();
  const auto forget = gates[1].sigmoid_();
  const auto cell = gates[2].tanh_();
  const auto out = gates[3].sigmoid_();
  const auto cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, sum.detach()};
}

std::tuple<Tensor, Tensor> gruCell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const c10::optional<Tensor>& input_bias,
    const c10::optional<Tensor>& hidden_bias) {
  const auto from_input = biased(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = biased(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = (from_input[0] + from_hidden[0]).sigmoid_();
  const auto update = (from_input[1] + from_hidden[1]).sigmoid_();
  const auto next = (from_input[2] + reset * from_hidden[2]).tanh_();
  return {next + update * (hx - next), at::empty({0}, hx.options())};
}

/// Without gradients, later releases call oneDNN's kernels for XPU, which a
/// build without XPU lacks. So gradients stay on, and tensors that want one are
/// detached.
std::tuple<Tensor, Tensor, Tensor> lstm(
    const Tensor& input,
    TensorList hx,
    TensorList weights,
    bool has_biases,
    int64_t layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  const bool is_recorded = GradMode::is_enabled();
  const AutoGradMode as_with_gradients(true);
  const auto given = [&](TensorList tensors) {
    std::vector<Tensor> result;
    for (const auto& tensor : tensors) {
      // One that wants none may have a tangent.
      const bool stays = is_recorded || !tensor.requires_grad();
      result.push_back(stays ? tensor : tensor.detach());
    }
    return result;
  };
  return at::native::lstm(
      given(input)[0],
      given(hx),
      given(weights),
      has_biases,
      layers,
      dropout,
      train,
      bidirectional,
      batch_first);
}

/// Casts weights once for all steps. Each step transposes them, and what is no
/// leaf is not in autocast's cache: it would be cast again in each step, and
/// autograd would keep every copy.
void castRecurrent(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      DispatchKey::AutocastXPU);
  const auto type = autocast::get_lower_precision_fp_from_device_type(kXPU);
  for (const auto i : c10::irange(op.schema().arguments().size())) {
    auto& argument = *(stack->end() - 1 - static_cast<std::ptrdiff_t>(i));
    if (argument.isTensor()) {
      argument = autocast::cached_cast(type, argument.toTensor(), kXPU);
    } else if (argument.isTensorList()) {
      const auto tensors = argument.toTensorVector();
      argument = autocast::cached_cast(type, TensorList(tensors), kXPU);
    }
  }
  op.callBoxed(stack);
}

} // namespace

namespace detail {

Tensor hostConvolution(
    const Tensor& input,
    const Tensor& weight,
    const c10::optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  return OnHost<at::_ops::convolution>::call(
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

std::tuple<Tensor, Tensor, Tensor> hostConvolutionBackward(
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
  // It has the sizes of the bias, too, which are not asked for here.
  const std::array<int64_t, 1> bias{
      transposed ? weight.size(1) * groups : weight.size(0)};
  return OnHost<at::_ops::convolution_backward>::call(
      grad,
      input,
      weight,
      IntArrayRef(bias),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      mask);
}

} // namespace detail

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  // These call a kernel past the dispatcher: from a table that XPU is not in,
  // or one for the CPU.
  for (const auto* name :
       {"mode.values",
        "conj_physical_",
        "nanmean.out",
        "linalg_eigvals.out",
        "kaiser_window",
        "kaiser_window.periodic",
        "kaiser_window.beta"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstmCell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
  m.impl("lstm.input", TORCH_FN(lstm));
}

TORCH_LIBRARY_IMPL(aten, AutogradXPU, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstmCell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
  m.impl("lstm.input", TORCH_FN(lstm));
}

TORCH_LIBRARY_IMPL(aten, AutocastXPU, m) {
  for (const auto* name :
       {"lstm.input",
        "lstm.data",
        "gru.input",
        "gru.data",
        "rnn_tanh.input",
        "rnn_tanh.data",
        "rnn_relu.input",
        "rnn_relu.data"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&castRecurrent>());
  }
}

// For tracing: PyTorch has none.
TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
}

} // namespace at::xpu
