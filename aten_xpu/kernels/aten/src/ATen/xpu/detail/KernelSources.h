#pragma once

#include <ATen/xpu/detail/Kernel.h>
#include <ATen/xpu/detail/KernelTypes.h>

#include <string>
#include <vector>

// The texts of kernels/*.sycl, and what is compiled of them.

namespace at::xpu::detail {

const char* pointwiseSource();
const char* reduceSource();

/// The start of a source for tensors of a type.
std::string typedSource(int type);

// The sources of the families, by type.
std::string pointwiseUnitSource(int type);
std::string reduceUnitSource(int type);

enum class KernelFamily { Pointwise, Reduce };

/// The kernels of a family for a type.
const KernelUnit& kernelUnit(KernelFamily family, KernelType type);

/// Those of all families, for all types.
const std::vector<KernelUnit>& kernelUnits();

} // namespace at::xpu::detail
