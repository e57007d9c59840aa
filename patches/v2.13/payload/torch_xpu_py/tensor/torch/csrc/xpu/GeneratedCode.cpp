#include <ATen/xpu/EmptyTensor.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>
#include <c10/util/env.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/impl/XPULaunch.h>
#include <c10/xpu/impl/XPUNative.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/xpu/Bindings.h>

#include <sycl/queue.hpp>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>

// Note [What inductor's code calls]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Python that inductor generates allocates, sets the device and launches
// kernels, for each of which PyTorch has a function of C for CUDA: in Python
// they would take longer than a small kernel. So they are here for XPU, by
// CPython's own interface, which costs less than pybind11.
//
// The launcher is for NVIDIA devices. Kernels are launched on the native stream
// of the queue that inductor calls the raw stream, by CUDA's driver, or into
// the graph that the queue records.

namespace py = pybind11;

namespace torch::xpu {

namespace {

using at::xpu::detail::RecordWork;
using sycl::ext::oneapi::experimental::queue_state;

// -- CUDA's driver ----------------------------------------------------------

struct Driver {
  int (*launch)(
      void* function,
      unsigned grid_x,
      unsigned grid_y,
      unsigned grid_z,
      unsigned block_x,
      unsigned block_y,
      unsigned block_z,
      unsigned shared_bytes,
      void* stream,
      void** parameters,
      void** extra);
  int (*attribute)(void* value, int attribute, uintptr_t pointer);
  int (*name)(int code, const char** text);
};

template <typename Function>
void lookUp(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  TORCH_CHECK(function, "CUDA's driver has no ", name, ": install a newer one");
}

const Driver& driver() {
  static const Driver found = [] {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    TORCH_CHECK(
        library,
        "CUDA's driver cannot be loaded: put the folder of libcuda.so.1 into "
        "LD_LIBRARY_PATH");
    Driver driver{};
    lookUp(library, "cuLaunchKernel", driver.launch);
    lookUp(library, "cuPointerGetAttribute", driver.attribute);
    lookUp(library, "cuGetErrorName", driver.name);
    return driver;
  }();
  return found;
}

void check(int code, const char* call) {
  if (C10_UNLIKELY(code != 0)) {
    const char* name = nullptr;
    driver().name(code, &name);
    TORCH_CHECK(
        false,
        "CUDA's ",
        call,
        " failed with error ",
        code,
        name ? c10::str(" (", name, ")") : std::string());
  }
}

/// The stream of CUDA behind a queue, and the context of its card.
struct Native {
  void* stream;
  void* context;
};

/// Of the queue at an address, which PyTorch calls a raw stream. The GIL keeps
/// what is known.
Native nativeOf(uintptr_t queue) {
  static std::unordered_map<uintptr_t, Native> known;
  const auto found = known.find(queue);
  if (C10_LIKELY(found != known.end())) {
    return found->second;
  }
  const auto [stream, context, lasts] =
      py::module::import("torch_xpu_triton.driver")
          .attr("native_of")(queue)
          .cast<std::tuple<uintptr_t, uintptr_t, bool>>();
  const Native native{
      .stream = reinterpret_cast<void*>(stream),
      .context = reinterpret_cast<void*>(context)};
  // The address of someone else's queue may be another's later.
  if (lasts) {
    known.emplace(queue, native);
  }
  return native;
}

/// Calls `launch` with the stream of CUDA behind the queue at an address, in
/// the context of its card, or where the queue records a graph with one that
/// records into that. A profiler gets the name. The GIL is held, but not for
/// waiting.
void launchOn(
    uintptr_t address,
    const std::string& name,
    c10::function_ref<void(void* stream)> launch) {
  auto& queue = *reinterpret_cast<sycl::queue*>(address);
  if (C10_UNLIKELY(queue.ext_oneapi_get_state() == queue_state::recording)) {
    c10::xpu::impl::recordOnCuda(queue, launch);
    return;
  }
  const auto native = nativeOf(address);
  c10::xpu::impl::enterCudaContext(native.context);
  const auto stream = c10::xpu::getCurrentXPUStream(); // that of the queue
  {
    const RecordWork recorded(RecordWork::By::Stream, name, stream);
    launch(native.stream);
  }
  static const bool blocking =
      c10::utils::check_env("TORCH_XPU_LAUNCH_BLOCKING") == true;
  if (C10_UNLIKELY(blocking)) {
    withoutGil([&] { c10::xpu::impl::waitFor(stream); });
  }
}

// -- arguments of kernels ---------------------------------------------------

/// Raises OverflowError for a number that the kernel's parameter cannot have.
template <typename Number>
uint64_t integer(PyObject* value) {
  const auto number = [&] {
    if constexpr (std::is_signed_v<Number>) {
      return PyLong_AsLongLong(value);
    } else {
      return PyLong_AsUnsignedLongLong(value);
    }
  }();
  if (C10_UNLIKELY(number == decltype(number)(-1) && PyErr_Occurred())) {
    throw python_error();
  }
  if (C10_UNLIKELY(static_cast<Number>(number) != number)) {
    PyErr_Format(
        PyExc_OverflowError,
        "%S does not fit a parameter of %d bits",
        value,
        int(8 * sizeof(Number)));
    throw python_error();
  }
  return static_cast<uint64_t>(number); // its low bytes are what is read
}

template <typename Number>
uint64_t floating(PyObject* value) {
  const double number = PyFloat_AsDouble(value);
  if (C10_UNLIKELY(number == -1 && PyErr_Occurred())) {
    throw python_error();
  }
  const auto narrow = static_cast<Number>(number);
  uint64_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof(narrow));
  return bits;
}

/// Of a tensor, an integer, or None.
uint64_t pointer(PyObject* value) {
  if (C10_LIKELY(THPVariable_Check(value))) {
    const auto& tensor = THPVariable_Unpack(value);
    const auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
    if (C10_UNLIKELY(!tensor.is_xpu() && address)) { // as pinned memory may be
      constexpr int kDevicePointer = 3;
      uintptr_t there = 0;
      if (driver().attribute(&there, kDevicePointer, address) != 0) {
        PyErr_Format(
            PyExc_ValueError,
            "A kernel for xpu cannot reach the memory of a tensor on %s: move "
            "it to xpu",
            tensor.device().str().c_str());
        throw python_error();
      }
      return there;
    }
    return address;
  }
  return value == Py_None ? 0 : integer<uint64_t>(value);
}

/// By the letters of inductor's static launcher.
uint64_t parameter(char type, PyObject* value) {
  switch (type) {
    case 'O':
      return pointer(value);
    case 'b':
      return integer<int8_t>(value);
    case 'h':
      return integer<int16_t>(value);
    case 'i':
      return integer<int32_t>(value);
    case 'l':
      return integer<int64_t>(value);
    case 'B':
      return integer<uint8_t>(value);
    case 'H':
      return integer<uint16_t>(value);
    case 'I':
      return integer<uint32_t>(value);
    case 'K':
      return integer<uint64_t>(value);
    case 'f':
      return floating<float>(value);
    default:
      return floating<double>(value);
  }
}

// -- the launcher -----------------------------------------------------------

struct Launcher {
  PyObject_HEAD vectorcallfunc call;
  void* function;
  unsigned threads;
  unsigned shared;
  size_t scratch; // parameters for memory of the kernel's own, which are null
  std::string types;
  std::string name; // for a profiler
};

constexpr size_t kGrid = 3;
constexpr size_t kBeforeArguments = kGrid + 1; // and the stream

void launch(const Launcher& launcher, PyObject* const* arguments) {
  std::array<unsigned, kGrid> grid{};
  for (const auto i : c10::irange(kGrid)) {
    grid[i] = static_cast<unsigned>(integer<uint32_t>(arguments[i]));
  }
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
    return;
  }
  const auto raw_stream = integer<uint64_t>(arguments[kGrid]);
  const auto count = launcher.types.size();
  c10::SmallVector<uint64_t, 32> values(count + launcher.scratch, 0);
  c10::SmallVector<void*, 32> parameters(values.size());
  for (const auto i : c10::irange(values.size())) {
    if (i < count) {
      values[i] = parameter(launcher.types[i], arguments[kBeforeArguments + i]);
    }
    parameters[i] = &values[i];
  }
  launchOn(raw_stream, launcher.name, [&](void* stream) {
    // It waits where the stream has many launches, and a host function in it
    // may need the GIL.
    PyThreadState* const thread = PyEval_SaveThread();
    const int code = driver().launch(
        launcher.function,
        grid[0],
        grid[1],
        grid[2],
        launcher.threads,
        1,
        1,
        launcher.shared,
        stream,
        parameters.data(),
        nullptr);
    PyEval_RestoreThread(thread);
    check(code, "cuLaunchKernel");
  });
}

PyObject* launcherCall(
    PyObject* self,
    PyObject* const* arguments,
    size_t flagged_count,
    PyObject* names) {
  HANDLE_TH_ERRORS
  const auto& launcher = *reinterpret_cast<Launcher*>(self);
  const size_t count = PyVectorcall_NARGS(flagged_count);
  if (C10_UNLIKELY(
          names || count != kBeforeArguments + launcher.types.size())) {
    PyErr_Format(
        PyExc_TypeError,
        "the launcher takes a grid of 3, a stream and %zu arguments by their "
        "place, and got %zu in all",
        launcher.types.size(),
        count);
    return nullptr;
  }
  launch(launcher, arguments);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* launcherNew(
    PyTypeObject* type,
    PyObject* args,
    PyObject* /*kwargs*/) {
  HANDLE_TH_ERRORS
  unsigned long long function = 0;
  unsigned warps = 0;
  unsigned shared = 0;
  const char* types = nullptr;
  unsigned scratch = 0;
  const char* name = nullptr;
  if (!PyArg_ParseTuple(
          args,
          "KIIsIs",
          &function,
          &warps,
          &shared,
          &types,
          &scratch,
          &name)) {
    return nullptr;
  }
  const std::string letters(types);
  const auto wrong = letters.find_first_not_of("ObhilBHIKfd");
  if (wrong != std::string::npos) {
    PyErr_Format(
        PyExc_ValueError,
        "'%c' is no type of a parameter: they are ObhilBHIKfd",
        letters[wrong]);
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self) {
    auto& launcher = *reinterpret_cast<Launcher*>(self);
    launcher.call = &launcherCall;
    launcher.function = reinterpret_cast<void*>(function);
    constexpr unsigned kWarp = 32;
    launcher.threads = kWarp * warps;
    launcher.shared = shared;
    launcher.scratch = scratch;
    new (&launcher.types) std::string(letters);
    new (&launcher.name) std::string(name);
  }
  return self;
  END_HANDLE_TH_ERRORS
}

void launcherDelete(PyObject* self) {
  auto& launcher = *reinterpret_cast<Launcher*>(self);
  std::destroy_at(&launcher.types);
  std::destroy_at(&launcher.name);
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject* launcherType() {
  static PyTypeObject type = [] {
    PyTypeObject type{};
    type.ob_base = {PyObject_HEAD_INIT(nullptr) 0};
    type.tp_name = "torch._C._XpuTritonLauncher";
    type.tp_doc =
        "_XpuTritonLauncher(function, warps, shared, types, scratch, name): launches "
        "a kernel of an NVIDIA device when it is called with the grid, the raw "
        "stream and the arguments. See Note [What inductor's code calls]";
    type.tp_basicsize = sizeof(Launcher);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(Launcher, call);
    type.tp_call = &PyVectorcall_Call;
    type.tp_new = &launcherNew;
    type.tp_dealloc = &launcherDelete;
    return type;
  }();
  return &type;
}

// -- the device -------------------------------------------------------------

struct Guard {
  PyObject_HEAD c10::DeviceIndex device;
  c10::DeviceIndex before;
};

PyObject* guardNew(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  HANDLE_TH_ERRORS
  long long device = 0;
  if (!PyArg_ParseTuple(args, "L", &device)) {
    return nullptr;
  }
  const auto index = useDevice(device);
  PyObject* self = type->tp_alloc(type, 0);
  if (self) {
    reinterpret_cast<Guard*>(self)->device = index;
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* guardEnter(PyObject* self, PyObject* /*none*/) {
  HANDLE_TH_ERRORS
  auto& guard = *reinterpret_cast<Guard*>(self);
  guard.before = c10::xpu::exchange_device(guard.device);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* guardExit(
    PyObject* self,
    PyObject* const* /*error*/,
    Py_ssize_t /*count*/) {
  HANDLE_TH_ERRORS
  c10::xpu::exchange_device(reinterpret_cast<Guard*>(self)->before);
  Py_RETURN_FALSE;
  END_HANDLE_TH_ERRORS
}

PyTypeObject* guardType() {
  static std::array<PyMethodDef, 3> methods{
      {{"__enter__", &guardEnter, METH_NOARGS, nullptr},
       {"__exit__",
        reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&guardExit)),
        METH_FASTCALL,
        nullptr},
       {nullptr, nullptr, 0, nullptr}}};
  static PyTypeObject type = [] {
    PyTypeObject type{};
    type.ob_base = {PyObject_HEAD_INIT(nullptr) 0};
    type.tp_name = "torch._C._XpuDeviceGuard";
    type.tp_doc =
        "_XpuDeviceGuard(index): the current device is this one inside `with`";
    type.tp_basicsize = sizeof(Guard);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_methods = methods.data();
    type.tp_new = &guardNew;
    return type;
  }();
  return &type;
}

// -- memory -----------------------------------------------------------------

c10::SmallVector<int64_t, 8> numbers(PyObject* tuple) {
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "sizes and strides must be tuples");
    throw python_error();
  }
  c10::SmallVector<int64_t, 8> found(PyTuple_GET_SIZE(tuple));
  for (const auto i : c10::irange(found.size())) {
    found[i] = static_cast<int64_t>(
        integer<int64_t>(PyTuple_GET_ITEM(tuple, Py_ssize_t(i))));
  }
  return found;
}

/// The size, the stride and the data type; on the current device.
PyObject* emptyStrided(
    PyObject* /*module*/,
    PyObject* const* arguments,
    Py_ssize_t count) {
  HANDLE_TH_ERRORS
  if (count != 3 || !THPDtype_Check(arguments[2])) {
    PyErr_SetString(
        PyExc_TypeError, "it takes a size, a stride and a data type");
    return nullptr;
  }
  const auto size = numbers(arguments[0]);
  const auto stride = numbers(arguments[1]);
  const auto type = reinterpret_cast<THPDtype*>(arguments[2])->scalar_type;
  useXPU();
  return THPVariable_Wrap(at::Tensor(withoutGil([&] {
    return at::detail::empty_strided_xpu(
        size, stride, type, c10::Device(c10::kXPU));
  })));
  END_HANDLE_TH_ERRORS
}

} // namespace

void bindGeneratedCode(py::module& module) {
  static PyMethodDef method = {
      "_xpu_emptyStrided",
      reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&emptyStrided)),
      METH_FASTCALL,
      nullptr};
  addType(module, "_XpuTritonLauncher", *launcherType());
  addType(module, "_XpuDeviceGuard", *guardType());
  module.def(
      "_xpu_launchOnCuda",
      torch::wrap_pybind_function([](uintptr_t raw_stream,
                                     const std::string& name,
                                     const py::function& launch) {
        launchOn(raw_stream, name, [&](void* stream) {
          launch(reinterpret_cast<uintptr_t>(stream));
        });
      }),
      py::arg("raw_stream"),
      py::arg("name"),
      py::arg("launch"));
  module.attr("_xpu_emptyStrided") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

} // namespace torch::xpu
