#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <torch/library.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

// Operators that the fallback cannot run as they are, each with the reason.

namespace at::xpu {

namespace {

using torch::jit::Stack;

// PyTorch leaves the convolutions of a device that it does not know to these
// two operators, which the CPU does not have.

void convolution(const c10::OperatorHandle& /*op*/, Stack* stack) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  fallback(op, stack);
}

void convolutionBackward(const c10::OperatorHandle& /*op*/, Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      "aten::convolution_backward", "");
  // Behind gradient, input and weight it has the sizes of the bias, which are
  // not asked for here: the number of output channels.
  const auto arguments = stack->end() - 10;
  const auto weight = arguments[2].toTensor();
  const bool transposed = arguments[6].toBool();
  const int64_t groups = arguments[8].toInt();
  const int64_t channels =
      transposed ? weight.size(1) * groups : weight.size(0);
  stack->insert(arguments + 3, std::vector<int64_t>{channels});
  fallback(op, stack);
}

// PyTorch has fused cells for devices other than the CPU. The gates are in its
// order: input, forget, cell, output; reset, update, new.

Tensor biased(const Tensor& gates, const c10::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstmCell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const c10::optional<Tensor>& input_bias,
    const c10::optional<Tensor>& hidden_bias) {
  const auto gates =
      (biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias))
          .chunk(4, 1);
  const auto in = gates[0].sigmoid();
  const auto forget = gates[1].sigmoid();
  const auto cell = gates[2].tanh();
  const auto out = gates[3].sigmoid();
  const auto cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstmCellBackward(
    const c10::optional<Tensor>& grad_hy,
    const c10::optional<Tensor>& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  const bool has_hy = grad_hy && grad_hy->defined();
  const bool has_cy = grad_cy && grad_cy->defined();
  if (!has_hy && !has_cy) {
    return {};
  }
  const auto gates = workspace.chunk(4, 1);
  const auto& in = gates[0];
  const auto& forget = gates[1];
  const auto& cell = gates[2];
  const auto& out = gates[3];
  const auto tanh_cy = cy.tanh();
  const auto hy = has_hy ? *grad_hy : at::zeros_like(cy);
  auto to_cy = at::tanh_backward(hy * out, tanh_cy);
  if (has_cy) {
    to_cy = to_cy + *grad_cy;
  }
  const auto gates_grad = at::cat(
      {at::sigmoid_backward(to_cy * cell, in),
       at::sigmoid_backward(to_cy * cx, forget),
       at::tanh_backward(to_cy * in, cell),
       at::sigmoid_backward(hy * tanh_cy, out)},
      1);
  return {
      gates_grad,
      to_cy * forget,
      has_bias ? gates_grad.sum(0, /*keepdim=*/false) : Tensor()};
}

std::tuple<Tensor, Tensor> gruCell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const c10::optional<Tensor>& input_bias,
    const c10::optional<Tensor>& hidden_bias) {
  const auto from_input = biased(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = biased(hidden_gates, hidden_bias).chunk(3, 1);
  const auto reset = (from_input[0] + from_hidden[0]).sigmoid();
  const auto update = (from_input[1] + from_hidden[1]).sigmoid();
  const auto next = (from_input[2] + reset * from_hidden[2]).tanh();
  return {
      next + update * (hx - next),
      at::cat({reset, update, next, hx, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gruCellBackward(
    const Tensor& grad_hy,
    const Tensor& workspace,
    bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto& reset = saved[0];
  const auto& update = saved[1];
  const auto& next = saved[2];
  const auto& hx = saved[3];
  const auto& hidden = saved[4];
  const auto to_next = at::tanh_backward(grad_hy * (1 - update), next);
  const auto to_update = at::sigmoid_backward(grad_hy * (hx - next), update);
  const auto to_reset = at::sigmoid_backward(to_next * hidden, reset);
  const auto to_input = at::cat({to_reset, to_update, to_next}, 1);
  const auto to_hidden = at::cat({to_reset, to_update, to_next * reset}, 1);
  return {
      to_input,
      to_hidden,
      grad_hy * update,
      has_bias ? to_input.sum(0, /*keepdim=*/false) : Tensor(),
      has_bias ? to_hidden.sum(0, /*keepdim=*/false) : Tensor()};
}

} // namespace

void detail::registerConvolutions(torch::Library& library) {
  const auto add = [&](const char* name, torch::CppFunction function) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    if (!op.hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
      library.impl(name, std::move(function));
    }
  };
  add("aten::convolution_overrideable",
      torch::CppFunction::makeFromBoxedFunction<&convolution>());
  add("aten::convolution_backward_overrideable",
      torch::CppFunction::makeFromBoxedFunction<&convolutionBackward>());
}

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  // These call a kernel past the dispatcher: from a table that XPU is not in,
  // or one for the CPU.
  for (const auto* name :
       {"mode.values", "conj_physical_", "nanmean.out", "linalg_eigvals.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstmCell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstmCellBackward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gruCellBackward));
}
// For tracing: PyTorch has none.
TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gruCellBackward));
}

} // namespace at::xpu
