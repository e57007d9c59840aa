#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

// What the files of this folder share.
//
// Note [XPU bindings]
// ~~~~~~~~~~~~~~~~~~~
// The bindings are thin: they turn Python's values into those of c10/xpu and
// ATen/xpu, and leave what is allowed to these. Three things are theirs:
//
//   first use   Whatever needs a device calls useDevice or useXPU, which runs
//               torch.xpu._lazy_init unless it has succeeded before. So there
//               is one way to come up, whoever comes first, and a child of fork
//               gets its error from there.
//   narrowing   A device index and a device type are 8 bits in C++ and any
//               number in Python. They are checked before they are narrowed:
//               xpu:256 is not xpu:0.
//   the GIL     It is released around all that may wait for a device or for a
//               lock which a thread that waits for a device may hold.

namespace torch {
namespace xpu {

/// Brings XPU up unless that has been done.
void useXPU();

/// As useXPU; returns the device of an index. Raises if there is no such.
c10::DeviceIndex useDevice(int64_t index);

/// Runs `action` without the GIL.
template <typename Action>
decltype(auto) withoutGil(Action&& action) {
  pybind11::gil_scoped_release no_gil;
  return std::forward<Action>(action)();
}

/// Deletes an object without the GIL, since its end may wait for the device.
struct DeleteWithoutGil {
  template <typename T>
  void operator()(T* object) const {
    withoutGil([&] { delete object; });
  }
};

/// Names of arguments, the last of them null, as CPython takes them
/// before 3.13: as if it wrote to them.
template <size_t N>
char** argumentNames(const std::array<const char*, N>& names) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return const_cast<char**>(names.data());
}

void bindDevices(pybind11::module& module);
void bindProperties(pybind11::module& module);
void bindMemory(pybind11::module& module);
void bindStreams(pybind11::module& module);
void bindEvents(pybind11::module& module);

/// Adds a type that is complete but for PyType_Ready.
void addType(pybind11::module& module, const char* name, PyTypeObject& type);

} // namespace xpu
} // namespace torch
