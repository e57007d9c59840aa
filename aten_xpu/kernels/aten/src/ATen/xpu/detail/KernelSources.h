#pragma once

// The texts of kernels/*.sycl.

namespace at::xpu::detail {

const char* commonSource();
const char* pointwiseSource();
const char* reduceSource();

} // namespace at::xpu::detail
