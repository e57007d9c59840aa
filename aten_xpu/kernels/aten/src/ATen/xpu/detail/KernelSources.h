#pragma once

#include <string>

// The texts of kernels/*.sycl.

namespace at::xpu::detail {

/// What a source for tensors of a type begins with.
std::string typedSource(int type);

const char* atomicSource();
const char* pointwiseSource();
const char* reduceSource();
std::string specialSource();

/// The source with another in the place of a name.
std::string replaced(
    std::string source,
    const std::string& name,
    const char* by);

} // namespace at::xpu::detail
