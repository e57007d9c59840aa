#pragma once

#include <ATen/core/Tensor.h>
#include <c10/xpu/XPUStream.h>

namespace at::xpu::detail {

/// Whether it is an XPUGraph that the stream records.
C10_EXPORT bool canKeepForGraph(c10::xpu::XPUStream stream);

/// Keeps the tensor for as long as the XPUGraph that the stream records, which
/// reads it in each replay. It is none of the graph's pool, whose memory the
/// work of the graph may use again.
C10_EXPORT void keepForGraph(const Tensor& tensor, c10::xpu::XPUStream stream);

} // namespace at::xpu::detail
