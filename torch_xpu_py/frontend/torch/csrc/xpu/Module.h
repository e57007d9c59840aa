#pragma once

#include <torch/csrc/python_headers.h>

// This header is free of SYCL: who includes it needs no C++17.

namespace torch {
namespace xpu {

/// Adds what torch/xpu is built on to the module torch._C: the functions
/// _xpu_*, and the classes _XpuStreamBase, _XpuEventBase and
/// _XpuDeviceProperties. Starts no SYCL runtime.
void initModule(PyObject* module);

} // namespace xpu
} // namespace torch
