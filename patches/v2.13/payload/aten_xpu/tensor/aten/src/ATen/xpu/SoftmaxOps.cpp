#include <ATen/core/Tensor.h>
#include <ATen/xpu/Fallback.h>
#include <torch/library.h>

// Of its own devices PyTorch expects that softmax takes float16 and returns
// float32 where that is asked for. The CPU's kernels refuse it.

namespace at::xpu {

namespace {

using torch::jit::Stack;

IValue* argumentsOf(const c10::OperatorHandle& op, Stack* stack) {
  return stack->data() + (stack->size() - op.schema().arguments().size());
}

void softmax(const c10::OperatorHandle& op, Stack* stack) {
  auto* const arguments = argumentsOf(op, stack);
  if (arguments[2].toBool()) { // half_to_float
    arguments[0] = arguments[0].toTensor().to(kFloat);
    arguments[2] = false;
  }
  fallback(op, stack);
}

void softmaxBackward(const c10::OperatorHandle& op, Stack* stack) {
  auto* const arguments = argumentsOf(op, stack);
  const auto computed = arguments[0].toTensor().scalar_type();
  const auto asked = arguments[3].toScalarType();
  arguments[3] = computed;
  fallback(op, stack);
  stack->back() = stack->back().toTensor().to(asked);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  for (const auto* name :
       {"_softmax", "_softmax.out", "_log_softmax", "_log_softmax.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&softmax>());
  }
  for (const auto* name :
       {"_softmax_backward_data", "_log_softmax_backward_data"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&softmaxBackward>());
  }
}

} // namespace at::xpu
