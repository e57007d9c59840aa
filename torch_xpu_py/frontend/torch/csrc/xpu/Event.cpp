#include <ATen/xpu/XPUEvent.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Stream.h>

#include <array>
#include <functional>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using at::xpu::XPUEvent;

/// torch._C._XpuEventBase.
///
/// An XPUEvent must not be recorded while another thread uses it, but what
/// threads of Python do with an object must not end the process. So the event
/// has a lock: shared for all that reads the event, exclusive for record, and
/// taken without the GIL, since who holds it may wait for the device.
struct PyEvent {
  PyObject_HEAD;
  std::shared_mutex lock;
  XPUEvent event;
};

// Its members are set in bindEvents.
PyTypeObject* event_type = nullptr;

PyEvent& get(PyObject* self) {
  return *reinterpret_cast<PyEvent*>(self);
}

PyEvent& eventOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, event_type)) {
    throw torch::TypeError(
        "expected a torch.xpu.Event, but got %s", Py_TYPE(object)->tp_name);
  }
  return get(object);
}

/// The value of `read` on the event, without the GIL.
template <typename Read>
auto reading(PyObject* self, Read read) {
  return withoutGil([&] {
    std::shared_lock<std::shared_mutex> shared(get(self).lock);
    return read(static_cast<const XPUEvent&>(get(self).event));
  });
}

PyObject* eventNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  int enable_timing = 0;
  const std::array<const char*, 2> names = {"enable_timing", nullptr};
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "|p", argumentNames(names), &enable_timing)) {
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) {
    return nullptr;
  }
  new (&get(self).lock) std::shared_mutex;
  new (&get(self).event) XPUEvent(enable_timing != 0);
  return self;
  END_HANDLE_TH_ERRORS
}

void eventDealloc(PyObject* self) {
  get(self).event.~XPUEvent();
  get(self).lock.~shared_mutex();
  Py_TYPE(self)->tp_free(self);
}

PyObject* eventDevice(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  const auto device =
      reading(self, [](const XPUEvent& event) { return event.device(); });
  if (!device) {
    Py_RETURN_NONE;
  }
  return THPDevice_New(*device);
  END_HANDLE_TH_ERRORS
}

PyObject* eventHandle(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  return PyLong_FromVoidPtr(reading(self, [](const XPUEvent& event) {
    return event.isCreated() ? &event.event() : nullptr;
  }));
  END_HANDLE_TH_ERRORS
}

PyObject* eventRecord(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  const auto on = streamOf(stream);
  withoutGil([&] {
    std::lock_guard<std::shared_mutex> alone(get(self).lock);
    get(self).event.record(on);
  });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventWait(PyObject* self, PyObject* stream) {
  HANDLE_TH_ERRORS
  const auto on = streamOf(stream);
  reading(self, [&](const XPUEvent& event) { event.block(on); });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventQuery(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  return PyBool_FromLong(
      reading(self, [](const XPUEvent& event) { return event.query(); }));
  END_HANDLE_TH_ERRORS
}

PyObject* eventSynchronize(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  reading(self, [](const XPUEvent& event) { event.synchronize(); });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* eventElapsedTime(PyObject* self, PyObject* other) {
  HANDLE_TH_ERRORS
  PyEvent& from = get(self);
  PyEvent& to = eventOf(other);
  return PyFloat_FromDouble(withoutGil([&] {
    // Both locks, in one order for all threads; one lock if it is one event.
    const bool ordered = std::less<>()(&from, &to);
    std::shared_lock<std::shared_mutex> first((ordered ? from : to).lock);
    std::shared_lock<std::shared_mutex> second;
    if (&from != &to) {
      second = std::shared_lock<std::shared_mutex>((ordered ? to : from).lock);
    }
    return from.event.elapsed_time(to.event);
  }));
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
  type.tp_basicsize = sizeof(PyEvent);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_new = eventNew;
  type.tp_dealloc = eventDealloc;
  type.tp_getset = event_properties.data();
  type.tp_methods = event_methods.data();
  return type;
}

} // namespace

void bindEvents(py::module& module) {
  static PyTypeObject type = makeEventType();
  event_type = &type;
  addType(module, "_XpuEventBase", type);
}

} // namespace xpu
} // namespace torch
