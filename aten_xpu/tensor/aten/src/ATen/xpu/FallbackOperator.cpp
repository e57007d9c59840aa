#include <ATen/xpu/detail/FallbackOperator.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace at::xpu::detail {

namespace {

enum class Mode { Silent, Warn, Error };

Mode mode() {
  static const Mode mode = [] {
    const char* const value = std::getenv("TORCH_XPU_FALLBACK");
    const std::string name = value ? value : "";
    TORCH_CHECK(
        name.empty() || name == "warn" || name == "error",
        "TORCH_XPU_FALLBACK is '",
        name,
        "': it must be 'warn' or 'error', or not be set");
    return name == "warn" ? Mode::Warn
        : name == "error" ? Mode::Error
                          : Mode::Silent;
  }();
  return mode;
}

// Note [Writes without a mark]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The schema says which arguments an operator writes, but for these operators
// of PyTorch. Where memory is copied, they would change only the copy.

struct UnmarkedWrite {
  const char* op; // all of its overloads
  const char* argument;
};

constexpr std::array<UnmarkedWrite, 6> kUnmarkedWrites{{
    {"aten::batch_norm_update_stats", "running_mean"},
    {"aten::batch_norm_update_stats", "running_var"},
    {"aten::native_batch_norm", "running_mean"},
    {"aten::native_batch_norm", "running_var"},
    {"aten::rrelu_with_noise", "noise"}, // marked in later releases
    {"aten::rrelu_with_noise_", "noise"},
}};

bool isWritten(const std::string& op, const c10::Argument& argument) {
  const auto* alias = argument.alias_info();
  return (alias && alias->isWrite()) ||
      std::any_of(
             kUnmarkedWrites.begin(),
             kUnmarkedWrites.end(),
             [&](const UnmarkedWrite& one) {
               return op == one.op && argument.name() == one.argument;
             });
}

/// Each operator that has fallen back, by the address of its schema, which
/// another operator may have once this one is removed.
struct KnownOperators final : c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle& /*op*/) final {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) final {
    std::lock_guard<std::mutex> lock(mutex);
    known.erase(&op.schema());
    removals.fetch_add(1, std::memory_order_release);
  }

  std::mutex mutex;
  std::unordered_map<
      const c10::FunctionSchema*,
      std::shared_ptr<const FallbackOperator>>
      known;
  std::atomic<uint64_t> removals{0};
};

KnownOperators& knownOperators() {
  struct Registration {
    KnownOperators* const known = new KnownOperators();
    const c10::RegistrationHandleRAII handle =
        c10::Dispatcher::singleton().addRegistrationListener(
            std::unique_ptr<c10::OpRegistrationListener>(known));
  };
  // Never destroyed: the dispatcher may be gone by then.
  static auto* const registration = new Registration();
  return *registration->known;
}

} // namespace

FallbackOperator::FallbackOperator(const c10::OperatorHandle& handle)
    : name(c10::toString(handle.operator_name())),
      counter(fallbackCounter(name)) {
  const auto& plain = handle.schema().name();
  for (const auto& argument : handle.schema().arguments()) {
    written.push_back(isWritten(plain, argument));
    may_be_on_cpu.push_back(argument.name().rfind("cpu_", 0) == 0);
    const auto type = argument.type()->str();
    if (type == "Generator?" || type == "Generator") {
      generator = int(written.size()) - 1;
    } else if (argument.real_type()->str().rfind("ScalarType", 0) == 0) {
      dtype = int(written.size()) - 1;
    }
    writes_list |= written.back() && type == "Tensor[]";
  }
  mixes_devices = plain == "aten::index" || plain == "aten::index_put_" ||
      plain == "aten::_index_put_impl_" || plain == "aten::_unsafe_index";
  if (mixes_devices) {
    may_be_on_cpu[1] = true;
  }
  copies = plain == "aten::copy_" || plain == "aten::copy_sparse_to_sparse_";
  in_table = plain.rfind("aten::", 0) == 0;
  if (in_table) {
    lacks = typesThatCpuLacks(plain);
  }
}

void FallbackOperator::tell() const {
  if (C10_LIKELY(mode() == Mode::Silent)) {
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      mode() != Mode::Error,
      name,
      " has no kernel for XPU, and TORCH_XPU_FALLBACK=error forbids the CPU's");
  if (counter.calls.load(std::memory_order_relaxed) == 0) {
    TORCH_WARN(name, " has no kernel for XPU: the CPU's is used");
  }
}

std::shared_ptr<const FallbackOperator> findFallbackOperator(
    const c10::OperatorHandle& handle) {
  struct Cache {
    uint64_t removals = 0;
    std::unordered_map<
        const c10::FunctionSchema*,
        std::shared_ptr<const FallbackOperator>>
        known;
  };
  thread_local Cache cache;
  auto& all = knownOperators();
  const auto removals = all.removals.load(std::memory_order_acquire);
  if (C10_UNLIKELY(cache.removals != removals)) {
    cache.known.clear();
    cache.removals = removals;
  }
  auto& found = cache.known[&handle.schema()];
  if (C10_UNLIKELY(!found)) {
    std::lock_guard<std::mutex> lock(all.mutex);
    auto& entry = all.known[&handle.schema()];
    if (!entry) {
      entry = std::make_shared<FallbackOperator>(handle);
    }
    found = entry;
  }
  return found;
}

} // namespace at::xpu::detail
