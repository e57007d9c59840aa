#include <c10/xpu/impl/XPUAllocatorConfig.h>

#include <c10/util/Exception.h>
#include <c10/util/llvmMathExtras.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iomanip>
#include <sstream>

namespace c10::xpu::impl {

namespace {

constexpr const char* kVariable = "PYTORCH_XPU_ALLOC_CONF";
constexpr size_t kMiB = size_t{1} << 20;

std::string strip(const std::string& text) {
  constexpr const char* blanks = " \t\n";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The whole of the text as a number; false if it is anything else.
bool toSize(const std::string& text, size_t& value) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) {
    return false;
  }
  errno = 0;
  value = std::strtoull(text.c_str(), nullptr, 10);
  return errno == 0;
}

bool toDouble(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

} // namespace

AllocatorConfig AllocatorConfig::parse(const std::string& text) {
  AllocatorConfig config;
  std::istringstream stream(text);
  for (std::string option; std::getline(stream, option, ',');) {
    option = strip(option);
    if (option.empty()) {
      continue;
    }
    const size_t colon = option.find(':');
    const std::string key = strip(option.substr(0, colon));
    const std::string value =
        colon == option.npos ? "" : strip(option.substr(colon + 1));
    if (key == "max_split_size_mb") {
      size_t mib = 0;
      TORCH_CHECK(
          toSize(value, mib) && mib > kLargeBuffer / kMiB,
          kVariable,
          ": max_split_size_mb is '",
          value,
          "', but must be a whole number greater than ",
          kLargeBuffer / kMiB);
      config.max_split_size = std::min(mib, kUnlimited / kMiB) * kMiB;
    } else if (key == "roundup_power2_divisions") {
      size_t divisions = 0;
      TORCH_CHECK(
          toSize(value, divisions) && llvm::isPowerOf2_64(divisions),
          kVariable,
          ": roundup_power2_divisions is '",
          value,
          "', but must be a power of two (1, 2, 4, 8, ...)");
      config.roundup_power2_divisions = divisions;
    } else if (key == "garbage_collection_threshold") {
      double threshold = 0;
      TORCH_CHECK(
          toDouble(value, threshold) && threshold > 0 && threshold < 1,
          kVariable,
          ": garbage_collection_threshold is '",
          value,
          "', but must be a number greater than 0 and less than 1");
      config.garbage_collection_threshold = threshold;
    } else {
      TORCH_CHECK(
          false,
          kVariable,
          ": unknown option '",
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
  constexpr std::array<const char*, 3> units = {"KiB", "MiB", "GiB"};
  if (size < 1024) {
    return c10::str(size, " bytes");
  }
  double value = static_cast<double>(size) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value << ' ' << units[unit];
  return text.str();
}

} // namespace c10::xpu::impl
