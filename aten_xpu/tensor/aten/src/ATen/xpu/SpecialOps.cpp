#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <tuple>

// Operators that the fallback cannot run as they are, each with the reason.

namespace at::xpu {

namespace {

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
