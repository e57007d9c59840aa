#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

/// What other releases of PyTorch have other names for.

namespace c10::xpu::test {

/// How c10::MemoryReportingInfoBase is told a sum.
using ReportedSum = int64_t;

/// A stream that was packed and unpacked by c10::Stream.
inline Stream repacked(Stream stream) {
  return Stream::unpack(stream.pack());
}

} // namespace c10::xpu::test
