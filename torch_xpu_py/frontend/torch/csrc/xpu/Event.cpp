#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/EventFields.h>
#include <torch/csrc/xpu/Stream.h>

#include <array>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using c10::xpu::XPUEvent;

// What elapsed_time takes. Set in bindEvents.
PyTypeObject* event_class = nullptr;

PyObject* eventNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  int enable_timing = 0;
  int interprocess = 0; // which later releases of PyTorch pass
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
    constructEvent(self, enable_timing != 0);
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* eventDevice(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  const auto device = eventOf(self).device();
  if (!device) {
    Py_RETURN_NONE;
  }
  return THPDevice_New(*device);
  END_HANDLE_TH_ERRORS
}

PyObject* eventHandle(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  const XPUEvent& event = eventOf(self);
  return PyLong_FromVoidPtr(event.isCreated() ? &event.event() : nullptr);
  END_HANDLE_TH_ERRORS
}

PyObject* eventRecord(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  recordEvent(self, streamOf(stream));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventWait(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  const auto on = streamOf(stream);
  const XPUEvent& event = eventOf(self);
  withoutGil([&] { event.block(on); });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventQuery(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  const XPUEvent& event = eventOf(self);
  return PyBool_FromLong(withoutGil([&] { return event.query(); }));
  END_HANDLE_TH_ERRORS
}

PyObject* eventSynchronize(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  const XPUEvent& event = eventOf(self);
  withoutGil([&] { event.synchronize(); });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventElapsedTime(PyObject* self, PyObject* other) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(
      PyObject_TypeCheck(other, event_class),
      "expected a torch.xpu.Event, but got ",
      Py_TYPE(other)->tp_name);
  return PyFloat_FromDouble(elapsedTime(self, other));
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
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_new = eventNew;
  type.tp_getset = event_properties.data();
  type.tp_methods = event_methods.data();
  setEventObject(type);
  return type;
}

} // namespace

void bindEvents(py::module& module) {
  static PyTypeObject type = makeEventType();
  // It may derive from torch.Event, which is taken too then.
  event_class = type.tp_base ? type.tp_base : &type;
  addType(module, "_XpuEventBase", type);
}

} // namespace xpu
} // namespace torch
