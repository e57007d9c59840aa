#pragma once

#include <ATen/xpu/detail/Pointwise.h>

namespace at::xpu::detail {

/// Whether the operator of a kernel takes complex numbers.
bool takesComplex(Pointwise kernel);

/// runPointwise, also for complex numbers.
bool runPointwiseOrComplex(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const PointwiseNumbers& numbers = {});

/// abs or angle of complex numbers; undefined if another is asked for.
Tensor realOfComplex(Pointwise kernel, const Tensor& self);

} // namespace at::xpu::detail
