#include <ATen/xpu/XPUEvent.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/Stream.h>

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using at::xpu::XPUEvent;

/// torch._C._XpuEventBase.
///
/// An XPUEvent must not be recorded while another thread uses it, but in Python
/// any thread may do anything with an object. So threads share the event, and
/// to record an event that another thread uses makes a new one in its place:
/// who waits for the old one goes on waiting for that, as in CUDA. The mutex
/// guards the pointer. It is held while an event is recorded, but never while a
/// thread waits for the device, and taken without the GIL.
struct PyEvent {
  PyObject_HEAD;
  std::mutex mutex;
  std::shared_ptr<XPUEvent> event;
  bool enable_timing;

  void record(const c10::xpu::XPUStream& stream) {
    std::lock_guard<std::mutex> lock(mutex);
    const bool is_shared = event.use_count() > 1;
    const auto device = event->device_index();
    // On a stream of a wrong device the old event raises, and is as before.
    if (!is_shared || (device >= 0 && device != stream.device_index())) {
      event->record(stream);
      return;
    }
    auto fresh = std::make_shared<XPUEvent>(enable_timing);
    fresh->record(stream);
    event = std::move(fresh);
  }
};

/// The event of a PyEvent as long as a thread uses it. It is given back under
/// the mutex, so that who finds it unshared sees all that was done with it.
class UsedEvent {
 public:
  explicit UsedEvent(PyEvent& owner) : owner_(owner) {
    std::lock_guard<std::mutex> lock(owner_.mutex);
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): locked
    event_ = owner_.event;
  }
  ~UsedEvent() {
    std::lock_guard<std::mutex> lock(owner_.mutex);
    event_.reset();
  }
  UsedEvent(const UsedEvent&) = delete;
  UsedEvent& operator=(const UsedEvent&) = delete;

  const XPUEvent& operator*() const {
    return *event_;
  }

 private:
  PyEvent& owner_;
  std::shared_ptr<const XPUEvent> event_;
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
  return withoutGil([&] { return read(*UsedEvent(get(self))); });
}

PyObject* eventNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  int enable_timing = 0;
  const std::array<const char*, 2> names = {"enable_timing", nullptr};
  if (!PyArg_ParseTupleAndKeywords(
          args, kwargs, "|p", argumentNames(names), &enable_timing)) {
    return nullptr;
  }
  auto event = std::make_shared<XPUEvent>(enable_timing != 0);
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) {
    return nullptr;
  }
  new (&get(self).mutex) std::mutex;
  new (&get(self).event) std::shared_ptr<XPUEvent>(std::move(event));
  get(self).enable_timing = enable_timing != 0;
  return self;
  END_HANDLE_TH_ERRORS
}

void eventDealloc(PyObject* self) {
  get(self).event.~shared_ptr();
  get(self).mutex.~mutex();
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
  withoutGil([&] { get(self).record(on); });
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
    const UsedEvent first(from);
    const UsedEvent second(to);
    return (*first).elapsed_time(*second);
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
