#include <c10/core/Event.h>
#include <c10/xpu/XPUEvent.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Stream.h>

#include <array>
#include <new>

namespace py = pybind11;

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
namespace {

using c10::xpu::XPUEvent;

c10::Event& get(PyObject* self) {
  return reinterpret_cast<THPEvent*>(self)->event;
}

/// Null before the first record.
XPUEvent* recorded(PyObject* self) {
  return static_cast<XPUEvent*>(get(self).eventId());
}

PyObject* eventNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  int enable_timing = 0;
  int interprocess = 0;
  const std::array<const char*, 3> names = {
      "enable_timing", "interprocess", nullptr};
  if (!PyArg_ParseTupleAndKeywords(
          args,
          kwargs,
          "|pp",
          argumentNames(names),
          &enable_timing,
          &interprocess)) {
    return nullptr;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      !interprocess,
      "XPU events are not shared between processes. Synchronize the event, and "
      "tell the other process by its own means");
  PyObject* self = type->tp_alloc(type, 0);
  if (self) {
    const auto flag = enable_timing ? c10::EventFlag::BACKEND_DEFAULT
                                    : c10::EventFlag::PYTORCH_DEFAULT;
    new (&get(self)) c10::Event(c10::kXPU, flag);
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* eventDevice(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  const XPUEvent* event = recorded(self);
  if (!event || !event->isCreated()) {
    Py_RETURN_NONE;
  }
  return THPDevice_New(*event->device());
  END_HANDLE_TH_ERRORS
}

PyObject* eventHandle(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  const XPUEvent* event = recorded(self);
  return PyLong_FromVoidPtr(withoutGil(
      [&] { return event && event->isCreated() ? &event->event() : nullptr; }));
  END_HANDLE_TH_ERRORS
}

PyObject* eventRecord(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  const auto on = streamOf(stream);
  if (get(self).was_marked_for_recording()) {
    withoutGil([&] { recorded(self)->record(on); });
  } else {
    get(self).record(on.unwrap());
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventWait(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  const auto on = streamOf(stream);
  if (const XPUEvent* event = recorded(self)) {
    withoutGil([&] { event->block(on); });
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventQuery(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  const XPUEvent* event = recorded(self);
  return PyBool_FromLong(!event || withoutGil([&] { return event->query(); }));
  END_HANDLE_TH_ERRORS
}

PyObject* eventSynchronize(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  if (const XPUEvent* event = recorded(self)) {
    withoutGil([&] { event->synchronize(); });
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventElapsedTime(PyObject* self, PyObject* other) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(
      THPEvent_Check(other),
      "expected a torch.xpu.Event, but got ",
      Py_TYPE(other)->tp_name);
  return PyFloat_FromDouble(get(self).elapsedTime(get(other)));
  END_HANDLE_TH_ERRORS
}

std::array<PyGetSetDef, 3> event_properties = {
    {{"device", eventDevice, nullptr, nullptr, nullptr},
     {"sycl_event", eventHandle, nullptr, nullptr, nullptr},
     {nullptr, nullptr, nullptr, nullptr, nullptr}}};

std::array<PyMethodDef, 6> event_methods = {
    {{"record", eventRecord, METH_O, nullptr},
     {"wait", eventWait, METH_O, nullptr},
     {"query", eventQuery, METH_NOARGS, nullptr},
     {"synchronize", eventSynchronize, METH_NOARGS, nullptr},
     {"elapsed_time", eventElapsedTime, METH_O, nullptr},
     {nullptr, nullptr, 0, nullptr}}};

PyTypeObject makeEventType() {
  PyTypeObject type{};
  type.ob_base = {PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = "torch._C._XpuEventBase";
  type.tp_basicsize = sizeof(THPEvent);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_base = THPEventClass;
  type.tp_new = eventNew;
  type.tp_getset = event_properties.data();
  type.tp_methods = event_methods.data();
  return type;
}

} // namespace

void bindEvents(py::module& module) {
  static PyTypeObject type = makeEventType();
  addType(module, "_XpuEventBase", type);
}

} // namespace torch::xpu
