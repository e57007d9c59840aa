#pragma once

// The generator is PyTorch's own class: code that was compiled with PyTorch's
// header makes and calls it.
#include_next <ATen/xpu/XPUGeneratorImpl.h>
