#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough" // computeDispatchKey
#include <c10/core/TensorOptions.h>
#pragma GCC diagnostic pop

#include <ATen/xpu/detail/SparseCsr.h>

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/_to_copy_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/zeros_ops.h>
#include <ATen/xpu/detail/Operators.h>

#include <array>
#include <string>
#include <utility>

namespace at::xpu::detail {

namespace {

/// PyTorch's own makes no copy on XPU.
Tensor to_copy(
    const Tensor& self,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    bool non_blocking,
    c10::optional<MemoryFormat> format) {
  const auto to = device.value_or(self.device());
  if (!self.is_xpu() && !to.is_xpu()) {
    return at::native::_to_copy(
        self, dtype, layout, device, pin_memory, non_blocking, format);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(self.layout()) == self.layout(),
      "Cannot copy a tensor of layout ",
      self.layout(),
      " to one of layout ",
      *layout);
  const auto copy = [&](const Tensor& part, ScalarType type) {
    return part.to(
        part.options().device(to).dtype(type), non_blocking, /*copy=*/true);
  };
  const auto* source =
      static_cast<SparseCsrTensorImpl*>(self.unsafeGetTensorImpl());
  const auto values =
      copy(source->values(), dtype.value_or(self.scalar_type()));
  return newSparseCsr(
      self, values.device(), values.dtype(), [&](const Tensor& part) {
        return part.is_same(source->values()) ? values
                                              : copy(part, part.scalar_type());
      });
}

/// What makes a tensor of its parts, in PyTorch's library.
constexpr std::array kMakers = {
    "sparse_compressed_tensor.comp_plain_value",
    "sparse_compressed_tensor.comp_plain_value_size",
    "sparse_csr_tensor.crow_col_value",
    "sparse_csr_tensor.crow_col_value_size",
    "sparse_csc_tensor.ccol_row_value",
    "sparse_csc_tensor.ccol_row_value_size",
    "sparse_bsr_tensor.crow_col_value",
    "sparse_bsr_tensor.crow_col_value_size",
    "sparse_bsc_tensor.ccol_row_value",
    "sparse_bsc_tensor.ccol_row_value_size",
    "_sparse_compressed_tensor_unsafe",
    "_sparse_csr_tensor_unsafe",
    "_sparse_csc_tensor_unsafe",
    "_sparse_bsr_tensor_unsafe",
    "_sparse_bsc_tensor_unsafe"};

bool isCompressed(c10::optional<Layout> layout) {
  return layout == kSparseCsr || layout == kSparseCsc || layout == kSparseBsr ||
      layout == kSparseBsc;
}

// What chooses a backend by the layout and the device of the result: PyTorch's
// own finds no key for such a layout on XPU, and raises an error.
constexpr c10::DispatchKeySet kBackends(
    c10::DispatchKeySet::FULL_AFTER,
    c10::DispatchKey::BackendSelect);

c10::DispatchKeySet keysFor(
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device) {
  return c10::DispatchKeySet(
      device && device->is_xpu() && isCompressed(layout)
          ? sparseCsrKey()
          : c10::computeDispatchKey(dtype, layout, device));
}

Tensor select_empty(
    c10::SymIntArrayRef size,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    c10::optional<MemoryFormat> format) {
  return at::_ops::empty_memory_format::redispatch(
      keysFor(dtype, layout, device),
      size,
      dtype,
      layout,
      device,
      pin_memory,
      format);
}

Tensor select_zeros(
    c10::SymIntArrayRef size,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory) {
  return at::_ops::zeros::redispatch(
      keysFor(dtype, layout, device), size, dtype, layout, device, pin_memory);
}

Tensor select_to_copy(
    const Tensor& self,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> layout,
    c10::optional<Device> device,
    c10::optional<bool> pin_memory,
    bool non_blocking,
    c10::optional<MemoryFormat> format) {
  return at::_ops::_to_copy::redispatch(
      c10::impl::computeDispatchKeySet(
          keysFor(dtype, layout, device) | self.key_set(), kBackends),
      self,
      dtype,
      layout,
      device,
      pin_memory,
      non_blocking,
      format);
}

/// For kMakers, which have one kernel for all backends but ours.
void selectBackend(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& part =
      torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  op.redispatchBoxed(
      c10::impl::computeDispatchKeySet(part.key_set(), kBackends), stack);
}

struct Silent final : c10::WarningHandler {
  void process(
      const c10::SourceLocation& /*where*/,
      const std::string& /*message*/,
      const bool /*verbatim*/) final {}
};

} // namespace

TORCH_LIBRARY_IMPL(aten, SparseCsrCPU, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
}
TORCH_LIBRARY_IMPL(aten, SparseCsrCUDA, m) {
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("empty.memory_format", dispatchingFunction());
  m.impl("transpose.int", dispatchingFunction());
}
TORCH_LIBRARY_IMPL(aten, XPU, m) {
  for (const auto* name : kMakers) {
    m.impl(name, dispatchingFunction());
  }
  for (const auto* name :
       {"_validate_sparse_compressed_tensor_args",
        "_validate_sparse_csr_tensor_args",
        "_validate_sparse_csc_tensor_args",
        "_validate_sparse_bsr_tensor_args",
        "_validate_sparse_bsc_tensor_args"}) {
    m.impl(name, dispatchingFunction());
  }
}
TORCH_LIBRARY_IMPL(aten, BackendSelect, m) {
  Silent silent; // PyTorch warns where a kernel is replaced
  const c10::Warning::WarningHandlerGuard guard(&silent);
  m.impl("empty.memory_format", TORCH_FN(select_empty));
  m.impl("zeros", TORCH_FN(select_zeros));
  m.impl("_to_copy", TORCH_FN(select_to_copy));
  for (const auto* name : kMakers) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&selectBackend>());
  }
}

} // namespace at::xpu::detail
