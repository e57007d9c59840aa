#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/SparseCsr.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <vector>

namespace at::xpu {

namespace {

/// Whether PyTorch makes an operator of its out= variant, and that is among
/// those with a kernel of XPU's own.
bool isMadeOfOurs(
    const c10::OperatorHandle& op,
    const std::vector<c10::OperatorName>& ours) {
  if (!op.hasKernelForDispatchKey(
          c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    return false;
  }
  auto base = op.schema().name();
  if (base.back() == '_') {
    base.pop_back();
  }
  const auto& arguments = op.schema().arguments();
  const auto takes_them = [&](const c10::OperatorName& name) {
    if (name.name != base) {
      return false;
    }
    const auto other = c10::Dispatcher::singleton().findSchemaOrThrow(
        name.name.c_str(), name.overload_name.c_str());
    const auto& theirs = other.schema().arguments();
    return theirs.size() > arguments.size() &&
        theirs[arguments.size()].is_out() &&
        std::equal(
               arguments.begin(),
               arguments.end(),
               theirs.begin(),
               [](const c10::Argument& one, const c10::Argument& another) {
                 return one.name() == another.name() &&
                     *one.type() == *another.type();
               });
  };
  return std::any_of(ours.begin(), ours.end(), takes_them);
}

/// Registers the fallback of a dispatch key. Operators with a kernel for the
/// CPU get it as their kernel too, even if they are made of other operators:
/// that is faster and rounds as on the CPU. Those that PyTorch makes of an out=
/// variant for which XPU has a kernel do not.
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
  const auto ours = dispatcher.getRegistrationsForDispatchKey(xpu);
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(cpu)) {
    const auto op = dispatcher.findOp(name);
    if (op && name.name.rfind("aten::", 0) == 0 &&
        !op->hasKernelForDispatchKey(xpu) && !isMadeOfOurs(*op, ours)) {
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

KernelHooks& kernelHooks() {
  static KernelHooks hooks;
  return hooks;
}

void registerFallbacks() {
  static const bool once = [] {
    using c10::DispatchKey;
    static auto& library = *new torch::Library( // never destroyed
        torch::Library::IMPL, "aten", DispatchKey::XPU, __FILE__, __LINE__);
    if (kernelHooks().add) {
      kernelHooks().add(library);
    }
    if (kernelHooks().add_host) {
      kernelHooks().add_host(library);
    }
    registerUnboxed(library);
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
