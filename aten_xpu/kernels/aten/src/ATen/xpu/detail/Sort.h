#pragma once

#include <ATen/core/Tensor.h>

#include <string>

// Rows in order, by kernels/Sort.sycl; see Note [Sorting] there.

namespace at::xpu::detail {

/// Whether a dimension of the tensor can be sorted on its device.
bool canSort(const Tensor& self);

/// Writes the first elements along a dimension in the order of all, NaN as the
/// largest, and their places. What is the same stays in its order. How many is
/// said by the results' size there. Without `sorted` they may be in any order,
/// which is the same each time, and the last one is at the end.
void sortTo(
    const std::string& op,
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim,
    bool descending,
    bool sorted = true);

/// Writes where values belong in rows which are in order, or are by `sorter` if
/// that is defined. The tensors have no gaps, `out` is int64 or int32, and
/// there are as many rows as the values have, or one.
void runSearch(
    const std::string& op,
    const Tensor& out,
    const Tensor& values,
    const Tensor& rows,
    const Tensor& sorter,
    bool right);

} // namespace at::xpu::detail
