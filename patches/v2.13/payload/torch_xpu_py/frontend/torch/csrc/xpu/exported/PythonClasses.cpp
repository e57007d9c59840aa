#include <c10/macros/Export.h>

// What PyTorch's torch/csrc/xpu/Stream.h declares, by which C++ knows a
// torch.xpu.Stream. It is here since extensions link to libtorch_xpu; the
// Python module sets it.

struct _object; // Python's PyObject
C10_EXPORT _object* THXPStreamClass = nullptr;
