#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/SparseCsr.h>
#include <torch/library.h>

#include <vector>

namespace at::xpu {

namespace {

/// Registers the fallback of a dispatch key. Operators with a kernel for the
/// CPU get it as their kernel too, even if they are made of other operators:
/// that is faster and rounds as on the CPU.
void registerFallback(
    c10::DispatchKey cpu,
    c10::DispatchKey xpu,
    torch::CppFunction (*function)()) {
  // These live as long as the process.
  static auto* const libraries = new std::vector<torch::Library>();
  if (xpu != c10::DispatchKey::XPU) {
    libraries->emplace_back(torch::Library::IMPL, "_", xpu, __FILE__, __LINE__)
        .fallback(function());
  }
  auto& aten = libraries->emplace_back(
      torch::Library::IMPL, "aten", xpu, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(cpu)) {
    const auto op = dispatcher.findOp(name);
    if (op && name.name.rfind("aten::", 0) == 0 &&
        !op->hasKernelForDispatchKey(xpu)) {
      aten.impl(c10::toString(name).c_str(), function());
    }
  }
}

torch::CppFunction denseFunction() {
  return torch::CppFunction::makeFromBoxedFunction<&fallback>();
}

} // namespace

namespace detail {

torch::CppFunction dispatchingFunction() {
  return torch::CppFunction::makeFromBoxedFunction<&dispatchingFallback>();
}

void registerFallbacks() {
  static const bool once = [] {
    using c10::DispatchKey;
    registerFallback(DispatchKey::CPU, DispatchKey::XPU, &denseFunction);
    const auto dispatching = [](DispatchKey cpu, DispatchKey xpu) {
      registerFallback(cpu, xpu, &dispatchingFunction);
    };
    dispatching(DispatchKey::SparseCPU, DispatchKey::SparseXPU);
    dispatching(DispatchKey::SparseCsrCPU, sparseCsrKey());
    dispatching(DispatchKey::QuantizedCPU, DispatchKey::QuantizedXPU);
    dispatching(DispatchKey::NestedTensorCPU, DispatchKey::NestedTensorXPU);
    return true;
  }();
  (void)once;
}

} // namespace detail

// The first use of XPU may be a call with a generator, or tril_indices.
TORCH_LIBRARY_IMPL(_, XPU, m) {
  m.fallback(denseFunction());
}

TORCH_LIBRARY_IMPL(aten, SparseXPU, m) {
  for (const auto* name :
       {"empty.memory_format",
        "_sparse_coo_tensor_with_dims",
        "_sparse_coo_tensor_with_dims_and_tensors"}) {
    m.impl(name, detail::dispatchingFunction());
  }
}

TORCH_LIBRARY_IMPL(aten, QuantizedXPU, m) {
  for (const auto* name :
       {"empty.memory_format",
        "_empty_affine_quantized",
        "_empty_per_channel_affine_quantized"}) {
    m.impl(name, detail::dispatchingFunction());
  }
}

} // namespace at::xpu
