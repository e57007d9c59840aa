#include <c10/xpu/XPUCachingAllocator.h>

#include <c10/core/AllocatorConfig.h>
#include <c10/xpu/impl/XPUDeviceAllocator.h>

#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

// The settings that PyTorch has for the allocators of all accelerators: those
// of PYTORCH_ALLOC_CONF and torch._C._accelerator_setAllocatorSettings. PyTorch
// has checked keys and values by the time they come here.

namespace c10::xpu::impl {

namespace {

using Stock = c10::CachingAllocator::AcceleratorAllocatorConfig;

/// The key:value pairs between commas. A value may be a list in brackets.
std::vector<std::string> optionsOf(const std::string& text) {
  std::vector<std::string> options(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      options.emplace_back();
    } else if (c != ' ') {
      options.back() += c;
    }
  }
  return options;
}

/// Warns of what has no effect here.
AllocatorConfig parse(const std::string& text) {
  AllocatorConfig config;
  for (const auto& option : optionsOf(text)) {
    if (option.empty() || config.set(option)) {
      continue;
    }
    // What is off is as XPU has it.
    if (option.substr(option.find(':') + 1) != "False") {
      TORCH_WARN(
          c10::str("The allocator setting '", option, "' has no effect on "),
          "XPU, which has ",
          kAllocatorOptions);
    }
  }
  return config;
}

AllocatorConfig in_use; // written by init alone

AllocatorConfig readForInit() {
  return in_use = parse(Stock::last_allocator_settings());
}

// PYTORCH_XPU_ALLOC_CONF has precedence over these settings.
void onChange(const std::string& text) {
  if (std::getenv("PYTORCH_XPU_ALLOC_CONF")) {
    return;
  }
  const auto values = [](const AllocatorConfig& config) {
    return std::tuple(
        config.max_split_size,
        config.roundup_power2_divisions,
        config.garbage_collection_threshold);
  };
  const auto config = parse(text);
  TORCH_CHECK(
      !XPUCachingAllocator::initialized() || values(config) == values(in_use),
      c10::str("The allocator settings '", text, "' come too late: the XPU "),
      "allocator is in use. Change them before the first use of a device");
}

[[maybe_unused]] const bool registered = [] {
  common_config = &readForInit;
  Stock::registerDeviceConfigParserHook(&onChange, {});
  return true;
}();

} // namespace

} // namespace c10::xpu::impl
