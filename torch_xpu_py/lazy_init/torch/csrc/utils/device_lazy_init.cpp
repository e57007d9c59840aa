#include <torch/csrc/utils/device_lazy_init.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/object_ptr.h>

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <string>

namespace torch {
namespace utils {
namespace {

// Atomic, so that it can be read without the GIL.
std::array<std::atomic<bool>, c10::COMPILE_TIME_MAX_DEVICE_TYPES>
    is_initialized{};

std::atomic<bool>& flag_of(c10::DeviceType device_type) {
  TORCH_INTERNAL_ASSERT(
      is_lazily_initialized(device_type),
      "device type ",
      device_type,
      " has no lazy initialisation");
  return is_initialized[static_cast<size_t>(device_type)];
}

// The error is taken along: the caller may have no GIL, and then the thread's
// error indicator may be gone with the GIL that was acquired here.
[[noreturn]] void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

// Not a name that is missing further down, in a module that does exist.
bool is_missing(const std::string& module_name) {
  if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
    return false;
  }
  python_error error;
  error.persist();
  THPObjectPtr name(PyObject_GetAttrString(error.value, "name"));
  const bool missing = name && PyUnicode_Check(name.get()) &&
      PyUnicode_CompareWithASCIIString(name.get(), module_name.c_str()) == 0;
  error.restore();
  return missing;
}

THPObjectPtr import_module_of(c10::DeviceType device_type) {
  const auto name =
      "torch." + c10::DeviceTypeName(device_type, /*lower_case=*/true);
  THPObjectPtr module(PyImport_ImportModule(name.c_str()));
  if (!module) {
    if (is_missing(name)) {
      PyErr_Clear();
      TORCH_CHECK(
          false,
          "Cannot initialize ",
          c10::DeviceTypeName(device_type),
          ": there is no Python module ",
          name,
          ", which does it. This PyTorch has no support for devices of this "
          "type; use one that has, or a device of another type.");
    }
    throw_python_error();
  }
  return module;
}

THPObjectPtr call(PyObject* module, const char* function) {
  THPObjectPtr result(PyObject_CallMethod(module, function, nullptr));
  if (!result) {
    throw_python_error();
  }
  return result;
}

} // namespace

void device_lazy_init(c10::DeviceType device_type) {
  auto& flag = flag_of(device_type);
  if (flag.load(std::memory_order_acquire)) {
    return;
  }

  // See Note [Lazy initialisation of devices] for why this is all
  pybind11::gil_scoped_acquire gil;
  auto module = import_module_of(device_type);
  call(module.get(), "_lazy_init");
  const auto complete = call(module.get(), "is_initialized");
  if (complete.get() == Py_True) {
    flag.store(true, std::memory_order_release);
  }
}

void set_requires_device_init(c10::DeviceType device_type, bool value) {
  flag_of(device_type).store(!value, std::memory_order_release);
}

} // namespace utils
} // namespace torch
