#include <torch/csrc/xpu/Stream.h>

#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Stream.h>
#include <torch/csrc/xpu/Bindings.h>
#include <torch/csrc/xpu/StreamFields.h>

#include <array>
#include <cstdint>
#include <functional>
#include <new>
#include <tuple>

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

using c10::xpu::XPUStream;

/// torch._C._XpuStreamBase; a torch.Stream, so that it is accepted where one
/// is.
struct PyStream {
  THPStream base{};
  XPUStream stream;
};

// Its members are set in bindStreams.
PyTypeObject* stream_type = nullptr;

const XPUStream& get(PyObject* self) {
  return reinterpret_cast<PyStream*>(self)->stream;
}

/// The stream that three numbers of Python name, see XPUStream::pack3.
XPUStream unpack(int64_t stream_id, int64_t device_index, int64_t device_type) {
  const auto device = useDevice(device_index);
  TORCH_CHECK(
      device_type >= 0 && device_type < c10::COMPILE_TIME_MAX_DEVICE_TYPES,
      "There is no device type ",
      device_type,
      ": that of an XPU stream is ",
      static_cast<int>(c10::kXPU));
  return XPUStream::unpack3(
      stream_id, device, static_cast<c10::DeviceType>(device_type));
}

/// A stream of the pool, or the one that three numbers name.
XPUStream makeStream(
    int priority,
    int64_t stream_id,
    int64_t device_index,
    int64_t device_type) {
  if (stream_id == 0 && device_index == 0 && device_type == 0) {
    useXPU();
    return withoutGil([&] { return c10::xpu::getStreamFromPool(priority); });
  }
  return unpack(stream_id, device_index, device_type);
}

PyObject* streamNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  HANDLE_TH_ERRORS
  int priority = 0;
  long long stream_id = 0; // NOLINT(google-runtime-int): what "L" means
  long long device_index = 0; // NOLINT(google-runtime-int)
  long long device_type = 0; // NOLINT(google-runtime-int)
  const std::array<const char*, 5> names = {
      "priority", "stream_id", "device_index", "device_type", nullptr};
  if (!PyArg_ParseTupleAndKeywords(
          args,
          kwargs,
          "|iLLL",
          argumentNames(names),
          &priority,
          &stream_id,
          &device_index,
          &device_type)) {
    return nullptr;
  }
  const XPUStream stream =
      makeStream(priority, stream_id, device_index, device_type);
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) {
    return nullptr;
  }
  auto* object = reinterpret_cast<PyStream*>(self);
  setStream(object->base, stream.unwrap());
  new (&object->stream) XPUStream(stream);
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* streamCompare(PyObject* self, PyObject* other, int operation) {
  HANDLE_TH_ERRORS
  if ((operation != Py_EQ && operation != Py_NE) ||
      !PyObject_TypeCheck(other, stream_type)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  return PyBool_FromLong((get(self) == get(other)) == (operation == Py_EQ));
  END_HANDLE_TH_ERRORS
}

Py_hash_t streamHash(PyObject* self) {
  const auto hash = static_cast<Py_hash_t>(std::hash<XPUStream>{}(get(self)));
  return hash == -1 ? -2 : hash; // -1 stands for an error
}

PyObject* streamDevice(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  return THPDevice_New(get(self).device());
  END_HANDLE_TH_ERRORS
}

PyObject* streamPriority(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  return PyLong_FromLong(get(self).priority());
  END_HANDLE_TH_ERRORS
}

PyObject* streamQueue(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  return PyLong_FromVoidPtr(withoutGil([&] { return &get(self).queue(); }));
  END_HANDLE_TH_ERRORS
}

PyObject* streamNative(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  return PyLong_FromVoidPtr(
      withoutGil([&] { return get(self).native_stream(); }));
  END_HANDLE_TH_ERRORS
}

/// The protocol of NVIDIA's libraries: a version, and the CUstream.
PyObject* cudaStream(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  PyObject* const stream = streamNative(self, nullptr);
  return stream ? Py_BuildValue("(iN)", 0, stream) : nullptr;
  END_HANDLE_TH_ERRORS
}

/// The method __cuda_stream__. Only a stream of an NVIDIA device has it, so
/// that hasattr() tells.
PyObject* streamCudaStream(PyObject* self, void* /*closure*/) {
  HANDLE_TH_ERRORS
  static PyMethodDef method = {
      "__cuda_stream__", cudaStream, METH_NOARGS, nullptr};
  const auto device = get(self).device_index();
  if (c10::xpu::get_raw_device(device).get_backend() ==
      sycl::backend::ext_oneapi_cuda) {
    return PyCFunction_New(&method, self);
  }
  return PyErr_Format(
      PyExc_AttributeError,
      "a stream of xpu:%d has no __cuda_stream__: it is no NVIDIA device",
      static_cast<int>(device));
  END_HANDLE_TH_ERRORS
}

/// A member of pack3.
template <typename Member>
PyObject* packed(PyObject* self, Member c10::xpu::StreamData3::* member) {
  HANDLE_TH_ERRORS
  return PyLong_FromLongLong(static_cast<int64_t>(get(self).pack3().*member));
  END_HANDLE_TH_ERRORS
}

PyObject* streamId(PyObject* self, void* /*closure*/) {
  return packed(self, &c10::xpu::StreamData3::stream_id);
}

PyObject* streamDeviceIndex(PyObject* self, void* /*closure*/) {
  return packed(self, &c10::xpu::StreamData3::device_index);
}

PyObject* streamDeviceType(PyObject* self, void* /*closure*/) {
  return packed(self, &c10::xpu::StreamData3::device_type);
}

PyObject* streamQuery(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  return PyBool_FromLong(withoutGil([&] { return get(self).query(); }));
  END_HANDLE_TH_ERRORS
}

PyObject* streamSynchronize(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  withoutGil([&] { get(self).synchronize(); });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* streamPriorityRange(PyObject* /*type*/, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  const auto range = XPUStream::priority_range();
  return Py_BuildValue("(ii)", std::get<0>(range), std::get<1>(range));
  END_HANDLE_TH_ERRORS
}

std::array<PyGetSetDef, 9> stream_properties = {
    {{"device", streamDevice, nullptr, nullptr, nullptr},
     {"priority", streamPriority, nullptr, nullptr, nullptr},
     {"sycl_queue", streamQueue, nullptr, nullptr, nullptr},
     {"native_stream", streamNative, nullptr, nullptr, nullptr},
     {"__cuda_stream__", streamCudaStream, nullptr, nullptr, nullptr},
     {"stream_id", streamId, nullptr, nullptr, nullptr},
     {"device_index", streamDeviceIndex, nullptr, nullptr, nullptr},
     {"device_type", streamDeviceType, nullptr, nullptr, nullptr},
     {nullptr, nullptr, nullptr, nullptr, nullptr}}};

std::array<PyMethodDef, 4> stream_methods = {
    {{"query", streamQuery, METH_NOARGS, nullptr},
     {"synchronize", streamSynchronize, METH_NOARGS, nullptr},
     {"priority_range",
      streamPriorityRange,
      METH_STATIC | METH_NOARGS,
      nullptr},
     {nullptr, nullptr, 0, nullptr}}};

PyTypeObject makeStreamType() {
  PyTypeObject type{};
  type.ob_base = {PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = "torch._C._XpuStreamBase";
  type.tp_basicsize = sizeof(PyStream);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_base = THPStreamClass;
  type.tp_new = streamNew;
  type.tp_richcompare = streamCompare;
  type.tp_hash = streamHash;
  type.tp_getset = stream_properties.data();
  type.tp_methods = stream_methods.data();
  return type;
}

py::tuple asTuple(const XPUStream& stream) {
  const auto data = stream.pack3();
  return py::make_tuple(
      data.stream_id,
      static_cast<int64_t>(data.device_index),
      static_cast<int64_t>(data.device_type));
}

} // namespace

XPUStream streamOf(PyObject* object) {
  if (PyObject_TypeCheck(object, stream_type)) {
    return get(object);
  }
  const auto* stream = PyObject_TypeCheck(object, THPStreamClass)
      ? reinterpret_cast<const THPStream*>(object)
      : nullptr;
  TORCH_CHECK_TYPE(
      stream && streamOf(*stream).device_type() == c10::kXPU,
      "expected a torch.xpu.Stream, but got ",
      Py_TYPE(object)->tp_name);
  return XPUStream(streamOf(*stream));
}

void bindStreams(py::module& module) {
  static PyTypeObject type = makeStreamType();
  stream_type = &type;
  addType(module, "_XpuStreamBase", type);

  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_getCurrentStream", [](int64_t device) {
    return asTuple(c10::xpu::getCurrentXPUStream(useDevice(device)));
  });
  def("_xpu_getDefaultStream", [](int64_t device) {
    return asTuple(c10::xpu::getDefaultXPUStream(useDevice(device)));
  });
  // `queue` is the address of a sycl::queue.
  def("_xpu_getStreamFromExternal", [](uintptr_t queue, int64_t device) {
    const auto index = useDevice(device);
    return asTuple(withoutGil([&] {
      return c10::xpu::getStreamFromExternal(
          reinterpret_cast<sycl::queue*>(queue), index);
    }));
  });
  // For code that is generated, which submits to the queue itself.
  def("_xpu_getCurrentRawStream", [](int64_t device) {
    const auto index = useDevice(device);
    return withoutGil([&] {
      return reinterpret_cast<uintptr_t>(
          &c10::xpu::getCurrentXPUStream(index).queue());
    });
  });
  module.def(
      "_xpu_setStream",
      torch::wrap_pybind_function(
          [](int64_t stream_id, int64_t device_index, int64_t device_type) {
            const auto stream = unpack(stream_id, device_index, device_type);
            c10::xpu::set_device(stream.device_index());
            c10::xpu::setCurrentXPUStream(stream);
          }),
      py::arg("stream_id"),
      py::arg("device_index"),
      py::arg("device_type"));
  def("_xpu_synchronize", [](int64_t device) {
    const auto index = useDevice(device);
    withoutGil([&] { c10::xpu::syncStreamsOnDevice(index); });
  });
}

} // namespace xpu
} // namespace torch
