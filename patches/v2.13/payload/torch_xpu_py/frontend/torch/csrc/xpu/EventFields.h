#pragma once

#include <c10/core/Event.h>
#include <c10/xpu/XPUEvent.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/xpu/Bindings.h>

#include <new>

// Note [torch.xpu.Event is a torch.Event]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// torch._C._XpuEventBase adds no state to torch.Event, so that each is accepted
// where the other is: by torch.Stream, by elapsed_time, by dynamo. What is
// recorded is an XPUEvent, which the device guard makes at the first record.
//
// c10::Event may not be used by several threads. It is read and recorded first
// with the GIL. After that the XPUEvent, which may be used by several threads,
// stays the same, and is used without the GIL.

namespace torch::xpu {

inline c10::Event& baseOf(PyObject* self) {
  return reinterpret_cast<THPEvent*>(self)->event;
}

inline const c10::xpu::XPUEvent& eventOf(PyObject* self) {
  static const c10::xpu::XPUEvent unrecorded;
  const void* recorded = baseOf(self).eventId();
  return recorded ? *static_cast<const c10::xpu::XPUEvent*>(recorded)
                  : unrecorded;
}

inline void constructEvent(PyObject* self, bool enable_timing) {
  const auto flag = enable_timing ? c10::EventFlag::BACKEND_DEFAULT
                                  : c10::EventFlag::PYTORCH_DEFAULT;
  new (&baseOf(self)) c10::Event(c10::kXPU, flag);
}

inline void recordEvent(PyObject* self, c10::xpu::XPUStream stream) {
  c10::Event& event = baseOf(self);
  if (event.was_marked_for_recording()) {
    auto* recorded = static_cast<c10::xpu::XPUEvent*>(event.eventId());
    withoutGil([&] { recorded->record(stream); });
  } else {
    event.record(stream.unwrap());
  }
}

inline double elapsedTime(PyObject* self, PyObject* other) {
  return baseOf(self).elapsedTime(baseOf(other));
}

/// Sets what of the type depends on the object.
inline void setEventObject(PyTypeObject& type) {
  type.tp_basicsize = sizeof(THPEvent);
  type.tp_base = THPEventClass;
}

} // namespace torch::xpu
