#pragma once

#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <utility>

namespace c10::xpu::test {

/// A Python interpreter that has the trace hooks alone. Each becomes a line,
/// and must be for XPU.
class TraceInterpreter : public c10::impl::PyInterpreterVTable {
 private:
  virtual void add(std::string call) const = 0;

  template <typename... Names>
  void addForXPU(DeviceType type, const char* hook, Names... names) const {
    TORCH_CHECK(type == kXPU, hook, " is for ", type);
    std::string call = hook;
    ((call += c10::str(" ", names)), ...);
    add(std::move(call));
  }

#define C10_XPU_TRACE_HOOK(hook)                                          \
  void trace_gpu_##hook(DeviceType type, uintptr_t what) const override { \
    addForXPU(type, #hook, what);                                         \
  }
  C10_XPU_TRACE_HOOK(event_creation)
  C10_XPU_TRACE_HOOK(event_deletion)
  C10_XPU_TRACE_HOOK(event_synchronization)
  C10_XPU_TRACE_HOOK(memory_allocation)
  C10_XPU_TRACE_HOOK(memory_deallocation)
  C10_XPU_TRACE_HOOK(stream_creation)
  C10_XPU_TRACE_HOOK(stream_synchronization)
#undef C10_XPU_TRACE_HOOK

  void trace_gpu_event_record(DeviceType t, uintptr_t event, uintptr_t stream)
      const override {
    addForXPU(t, "event_record", event, stream);
  }
  void trace_gpu_event_wait(DeviceType t, uintptr_t event, uintptr_t stream)
      const override {
    addForXPU(t, "event_wait", event, stream);
  }
  void trace_gpu_device_synchronization(DeviceType type) const override {
    addForXPU(type, "device_synchronization");
  }

  std::string name() const override {
    return "trace recorder";
  }

  // The rest has to do with tensors.
#define C10_XPU_NO_TENSORS(type, function, ...)              \
  type function(__VA_ARGS__) const override {                \
    TORCH_CHECK(false, "the trace recorder has no tensors"); \
  }
  using Tensor = const TensorImpl*;
  using Op = const OperatorHandle&;
  using Stack = torch::jit::Stack*;
  C10_XPU_NO_TENSORS(void, incref, PyObject*)
  C10_XPU_NO_TENSORS(void, decref, PyObject*)
  C10_XPU_NO_TENSORS(bool, try_incref, const c10::impl::PyObjectSlot&)
  C10_XPU_NO_TENSORS(size_t, refcnt, PyObject*)
  C10_XPU_NO_TENSORS(intrusive_ptr<TensorImpl>, detach, Tensor)
  C10_XPU_NO_TENSORS(void, dispatch, Op, Stack)
  C10_XPU_NO_TENSORS(void, reportErrorCallback, PyObject*, DispatchKey)
  C10_XPU_NO_TENSORS(
      void,
      python_op_registration_trampoline,
      Op,
      DispatchKey,
      DispatchKeySet,
      Stack,
      bool,
      bool)
  C10_XPU_NO_TENSORS(
      void,
      throw_abstract_impl_not_imported_error,
      std::string,
      const char*,
      const char*)
  C10_XPU_NO_TENSORS(void, python_dispatcher, Op, DispatchKeySet, Stack)
  C10_XPU_NO_TENSORS(bool, is_contiguous, Tensor, MemoryFormat)
  C10_XPU_NO_TENSORS(SymBool, sym_is_contiguous, Tensor, MemoryFormat)
  C10_XPU_NO_TENSORS(bool, is_strides_like, Tensor, MemoryFormat)
  C10_XPU_NO_TENSORS(bool, is_non_overlapping_and_dense, Tensor)
  C10_XPU_NO_TENSORS(Device, device, Tensor)
  C10_XPU_NO_TENSORS(int64_t, dim, Tensor)
  C10_XPU_NO_TENSORS(IntArrayRef, strides, Tensor)
  C10_XPU_NO_TENSORS(IntArrayRef, sizes, Tensor)
  C10_XPU_NO_TENSORS(SymIntArrayRef, sym_sizes, Tensor)
  C10_XPU_NO_TENSORS(Layout, layout, Tensor)
  C10_XPU_NO_TENSORS(int64_t, numel, Tensor)
  C10_XPU_NO_TENSORS(SymInt, sym_numel, Tensor)
  C10_XPU_NO_TENSORS(SymIntArrayRef, sym_strides, Tensor)
  C10_XPU_NO_TENSORS(SymInt, sym_storage_offset, Tensor)
  C10_XPU_NO_TENSORS(void, reset_backward_hooks, Tensor)
#undef C10_XPU_NO_TENSORS
};

} // namespace c10::xpu::test
