#pragma once

#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <utility>

namespace c10 {
namespace xpu {
namespace test {

/// A Python interpreter that has the trace hooks alone. Each becomes a line.
class TraceInterpreter : public c10::impl::PyInterpreterVTable {
 private:
  virtual void add(std::string call) const = 0;

  void trace_gpu_event_creation(uintptr_t event) const override {
    add(c10::str("event_creation ", event));
  }
  void trace_gpu_event_deletion(uintptr_t event) const override {
    add(c10::str("event_deletion ", event));
  }
  void trace_gpu_event_record(uintptr_t event, uintptr_t stream)
      const override {
    add(c10::str("event_record ", event, " ", stream));
  }
  void trace_gpu_event_wait(uintptr_t event, uintptr_t stream) const override {
    add(c10::str("event_wait ", event, " ", stream));
  }
  void trace_gpu_memory_allocation(uintptr_t ptr) const override {
    add(c10::str("memory_allocation ", ptr));
  }
  void trace_gpu_memory_deallocation(uintptr_t ptr) const override {
    add(c10::str("memory_deallocation ", ptr));
  }
  void trace_gpu_stream_creation(uintptr_t stream) const override {
    add(c10::str("stream_creation ", stream));
  }
  void trace_gpu_device_synchronization() const override {
    add("device_synchronization");
  }
  void trace_gpu_stream_synchronization(uintptr_t stream) const override {
    add(c10::str("stream_synchronization ", stream));
  }
  void trace_gpu_event_synchronization(uintptr_t event) const override {
    add(c10::str("event_synchronization ", event));
  }

  // The rest has to do with tensors.
  std::string name() const override {
    return "trace recorder";
  }
  void decref(PyObject*, bool) const override {
    unexpected();
  }
  c10::intrusive_ptr<TensorImpl> detach(const TensorImpl*) const override {
    unexpected();
  }
  void dispatch(const c10::OperatorHandle&, torch::jit::Stack*) const override {
    unexpected();
  }
  void python_dispatcher(
      const c10::OperatorHandle&,
      c10::DispatchKeySet,
      torch::jit::Stack*) const override {
    unexpected();
  }
  bool is_contiguous(const TensorImpl*, at::MemoryFormat) const override {
    unexpected();
  }
  bool is_strides_like(const TensorImpl*, at::MemoryFormat) const override {
    unexpected();
  }
  bool is_non_overlapping_and_dense(const TensorImpl*) const override {
    unexpected();
  }
  c10::Device device(const TensorImpl*) const override {
    unexpected();
  }
  int64_t dim(const TensorImpl*) const override {
    unexpected();
  }
  c10::IntArrayRef strides(const TensorImpl*) const override {
    unexpected();
  }
  c10::IntArrayRef sizes(const TensorImpl*) const override {
    unexpected();
  }
  c10::SymIntArrayRef sym_sizes(const TensorImpl*) const override {
    unexpected();
  }
  c10::Layout layout(const TensorImpl*) const override {
    unexpected();
  }
  c10::SymInt sym_numel(const TensorImpl*) const override {
    unexpected();
  }
  c10::SymIntArrayRef sym_strides(const TensorImpl*) const override {
    unexpected();
  }
  c10::SymInt sym_storage_offset(const TensorImpl*) const override {
    unexpected();
  }

  [[noreturn]] static void unexpected() {
    TORCH_CHECK(false, "the trace recorder has no tensors");
  }
};

} // namespace test
} // namespace xpu
} // namespace c10
