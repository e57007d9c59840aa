#pragma once

#include <c10/xpu/XPUStream.h>
#include <torch/csrc/python_headers.h>

namespace torch {
namespace xpu {

/// The stream of a torch.xpu.Stream, or of a torch.Stream of an XPU device.
/// TypeError for another object.
c10::xpu::XPUStream streamOf(PyObject* object);

} // namespace xpu
} // namespace torch
