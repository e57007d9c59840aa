#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <torch/library.h>

#include <string>
#include <utility>

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

/// For those that no kernel of the device is there for.
void registerSoftmax(torch::Library& library) {
  const auto add = [&](const char* name, torch::CppFunction function) {
    const auto overload = std::string(name);
    const auto dot = overload.find('.');
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        ("aten::" + overload.substr(0, dot)).c_str(),
        dot == std::string::npos ? "" : overload.substr(dot + 1).c_str());
    if (!op.hasKernelForDispatchKey(c10::DispatchKey::XPU)) {
      library.impl(name, std::move(function));
    }
  };
  for (const auto* name :
       {"_softmax", "_softmax.out", "_log_softmax", "_log_softmax.out"}) {
    add(name, torch::CppFunction::makeFromBoxedFunction<&softmax>());
  }
  for (const auto* name :
       {"_softmax_backward_data", "_log_softmax_backward_data"}) {
    add(name, torch::CppFunction::makeFromBoxedFunction<&softmaxBackward>());
  }
}

[[maybe_unused]] const bool kRegistered = [] {
  detail::kernelHooks().add_host = &registerSoftmax;
  return true;
}();

} // namespace

} // namespace at::xpu
