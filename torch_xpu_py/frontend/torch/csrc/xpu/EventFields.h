#pragma once

#include <c10/xpu/XPUEvent.h>
#include <torch/csrc/xpu/Bindings.h>

#include <new>

// What a torch.xpu.Event holds differs between releases of PyTorch.

namespace torch {
namespace xpu {

/// torch._C._XpuEventBase. Threads of Python may share one, as an XPUEvent
/// allows.
struct PyEvent {
  PyObject_HEAD;
  c10::xpu::XPUEvent event;
};

inline c10::xpu::XPUEvent& eventOf(PyObject* self) {
  return reinterpret_cast<PyEvent*>(self)->event;
}

inline void constructEvent(PyObject* self, bool enable_timing) {
  new (&eventOf(self)) c10::xpu::XPUEvent(enable_timing);
}

inline void recordEvent(PyObject* self, c10::xpu::XPUStream stream) {
  withoutGil([&] { eventOf(self).record(stream); });
}

inline double elapsedTime(PyObject* self, PyObject* other) {
  return withoutGil([&] { return eventOf(self).elapsed_time(eventOf(other)); });
}

/// Sets what of the type depends on the object.
inline void setEventObject(PyTypeObject& type) {
  type.tp_basicsize = sizeof(PyEvent);
  type.tp_dealloc = [](PyObject* self) {
    eventOf(self).~XPUEvent();
    Py_TYPE(self)->tp_free(self);
  };
}

} // namespace xpu
} // namespace torch
