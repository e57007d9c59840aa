#pragma once

#include <ATen/xpu/detail/Widening.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace at::xpu::detail {

/// Calls of an operator that fell back, and the bytes that were copied for
/// them.
struct FallbackCounter {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> bytes_copied{0};
};

/// The counter of the operator with this name. It is never removed.
FallbackCounter& fallbackCounter(const std::string& name);

/// What the fallback has to know of an operator.
struct FallbackOperator {
  explicit FallbackOperator(const c10::OperatorHandle& handle);

  /// Warns or raises as TORCH_XPU_FALLBACK says, see Note [Fallback].
  void tell() const;

  const std::string name; // such as aten::add.out
  // By argument.
  std::vector<bool> written;
  std::vector<bool> may_be_on_cpu;
  int generator = -1;
  int dtype = -1; // of the result
  bool mixes_devices = false; // takes indices of the CPU
  bool copies = false; // from one device to another
  bool writes_list = false;
  bool in_table = false; // that of Note [float16]: it is PyTorch's
  NarrowTypes lacks = kAllNarrowTypes;
  FallbackCounter& counter;
};

/// An operator may be removed, and one with other arguments take its name.
std::shared_ptr<const FallbackOperator> findFallbackOperator(
    const c10::OperatorHandle& handle);

} // namespace at::xpu::detail
