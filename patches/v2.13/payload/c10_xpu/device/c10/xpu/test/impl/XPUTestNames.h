#pragma once

#include <c10/core/Stream.h>

#include <cstddef>

/// What other releases of PyTorch have other names for.

namespace c10::xpu::test {

/// How c10::MemoryReportingInfoBase is told a sum.
using ReportedSum = size_t;

/// A stream that was packed and unpacked by c10::Stream.
inline Stream repacked(Stream stream) {
  const auto [id, index, type] = stream.pack3();
  return Stream::unpack3(id, index, type);
}

} // namespace c10::xpu::test
