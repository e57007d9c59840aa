#pragma once

#include <string>

// The texts of kernels/*.sycl.

namespace at::xpu::detail {

/// What a source for tensors of a type begins with.
std::string typedSource(int type);

const char* pointwiseSource();
const char* reduceSource();

} // namespace at::xpu::detail
