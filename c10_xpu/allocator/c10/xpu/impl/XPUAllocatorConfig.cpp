#include <c10/xpu/impl/XPUAllocatorConfig.h>

#include <c10/util/Exception.h>
#include <c10/util/llvmMathExtras.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iomanip>
#include <sstream>

namespace c10::xpu::impl {

namespace {

std::string strip(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  return first == std::string::npos
      ? ""
      : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// The whole of the text as a number that is not negative, or -1.
double toNumber(const std::string& text, bool whole) {
  const char* const allowed = whole ? "0123456789" : "0123456789.eE+-";
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(text.c_str(), &end);
  const bool good = !text.empty() && *end == '\0' && errno == 0 &&
      text.find_first_not_of(allowed) == std::string::npos;
  return good ? value : -1;
}

} // namespace

AllocatorConfig AllocatorConfig::parse(const std::string& text) {
  constexpr double kMiB = 1 << 20;
  AllocatorConfig config;
  std::istringstream stream(text);
  for (std::string option; std::getline(stream, option, ',');) {
    option = strip(option);
    if (option.empty()) {
      continue;
    }
    const size_t colon = std::min(option.find(':'), option.size());
    const std::string key = strip(option.substr(0, colon));
    const std::string value =
        strip(option.substr(std::min(colon + 1, option.size())));
    const auto check = [&](bool good, const char* allowed) {
      TORCH_CHECK(
          good,
          "PYTORCH_XPU_ALLOC_CONF: ",
          key,
          " is '",
          value,
          "', but must be ",
          allowed);
    };
    if (key == "max_split_size_mb") {
      const double mib = toNumber(value, /*whole=*/true);
      check(mib > kLargeBuffer / kMiB, "a whole number greater than 20");
      config.max_split_size = mib * kMiB < static_cast<double>(kMaxRequest)
          ? static_cast<size_t>(mib * kMiB)
          : kUnlimited;
    } else if (key == "roundup_power2_divisions") {
      const double divisions = toNumber(value, /*whole=*/true);
      check(
          divisions >= 1 && divisions <= (1 << 20) &&
              llvm::isPowerOf2_64(static_cast<uint64_t>(divisions)),
          "a power of two (1, 2, 4, 8, ...)");
      config.roundup_power2_divisions = static_cast<size_t>(divisions);
    } else if (key == "garbage_collection_threshold") {
      const double threshold = toNumber(value, /*whole=*/false);
      check(
          threshold > 0 && threshold < 1,
          "a number greater than 0 and less than 1");
      config.garbage_collection_threshold = threshold;
    } else {
      TORCH_CHECK(
          false,
          "PYTORCH_XPU_ALLOC_CONF: unknown option '",
          key,
          "'; allowed are max_split_size_mb, roundup_power2_divisions and"
          " garbage_collection_threshold, as key:value pairs separated by"
          " commas");
    }
  }
  return config;
}

size_t AllocatorConfig::roundToDivision(size_t size) const {
  const size_t step =
      static_cast<size_t>(llvm::PowerOf2Floor(size)) / roundup_power2_divisions;
  return (size + step - 1) / step * step;
}

std::string formatSize(size_t size) {
  if (size < 1024) {
    return c10::str(size, " bytes");
  }
  const int unit = size < (1 << 20) ? 0 : size < (1 << 30) ? 1 : 2;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2)
       << static_cast<double>(size) / static_cast<double>(1024U << (10 * unit))
       << ' ' << "KMG"[unit] << "iB";
  return text.str();
}

} // namespace c10::xpu::impl
