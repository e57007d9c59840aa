#pragma once

#include <c10/xpu/XPUMacros.h>
#include <c10/xpu/impl/XPUBlock.h>

#include <cstddef>
#include <limits>
#include <string>

namespace c10::xpu::impl {

/// The settings of PYTORCH_XPU_ALLOC_CONF, "key:value" pairs separated by
/// commas:
///   max_split_size_mb             more than 20; larger blocks are neither
///   split
///                                 nor given to smaller requests
///   roundup_power2_divisions      a power of two; sizes are rounded up to one
///                                 of that many steps between powers of two
///   garbage_collection_threshold  between 0 and 1, exclusive; the part of the
///                                 memory limit above which idle segments are
///                                 given back before new ones are asked for
struct C10_XPU_API AllocatorConfig {
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();
  /// No request above this can succeed; rounding cannot overflow below it.
  static constexpr size_t kMaxRequest = size_t{1} << 60;

  size_t max_split_size = kUnlimited; // bytes
  size_t roundup_power2_divisions = 0; // 0: round to 512 bytes only
  double garbage_collection_threshold = 0; // 0: off

  /// Raises an error that names the allowed keys or values.
  static AllocatorConfig parse(const std::string& text);

  /// The size of the block for a request of `size` bytes, at most kMaxRequest.
  size_t roundSize(size_t size) const {
    if (roundup_power2_divisions != 0 &&
        size > kMinBlockSize * roundup_power2_divisions) {
      size = roundToDivision(size);
    }
    return (size + kMinBlockSize - 1) / kMinBlockSize * kMinBlockSize;
  }

 private:
  size_t roundToDivision(size_t size) const;
};

/// For messages: "1.50 MiB".
C10_XPU_API std::string formatSize(size_t size);

} // namespace c10::xpu::impl
