#pragma once

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/Exception.h>
#include <c10/xpu/test/impl/XPUTraceInterpreter.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace c10 {
namespace xpu {
namespace test {

/// Stands for a Python interpreter and records what the trace hooks tell it.
/// The process has one, and it stays: GPUTrace knows no way back.
class TraceRecorder final : public TraceInterpreter {
 public:
  static TraceRecorder& get() {
    static auto* recorder = [] {
      auto* made = new TraceRecorder;
      c10::impl::GPUTrace::set_trace(new c10::impl::PyInterpreter(made));
      return made;
    }();
    return *recorder;
  }

  /// What was recorded since the last call.
  std::vector<std::string> take() {
    std::vector<std::string> taken;
    taken.swap(calls_);
    return taken;
  }

  /// Called by each hook, as Python is.
  std::function<void()> also;

  static std::string call(const char* name, const void* a) {
    return c10::str(name, " ", reinterpret_cast<uintptr_t>(a));
  }
  static std::string call(const char* name, const void* a, const void* b) {
    return call(name, a) + c10::str(" ", reinterpret_cast<uintptr_t>(b));
  }

 private:
  TraceRecorder() = default;

  void add(std::string call) const override {
    calls_.push_back(std::move(call));
    if (also) {
      also();
    }
  }

  // The hooks are const.
  mutable std::vector<std::string> calls_;
};

} // namespace test
} // namespace xpu
} // namespace c10
