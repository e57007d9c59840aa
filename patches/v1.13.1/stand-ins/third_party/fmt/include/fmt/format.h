// The installed fmt, with what PyTorch 1.13 uses of fmt 8 and fmt 9 has no more.
#pragma once

#include_next <fmt/format.h>

#if FMT_VERSION >= 90000
#include <iterator>
#include <utility>

namespace fmt {

// Appends to a buffer, as through a std::back_inserter.
template <typename... Args>
void format_to(memory_buffer& buffer, format_string<Args...> form, Args&&... args) {
  format_to(std::back_inserter(buffer), form, std::forward<Args>(args)...);
}

} // namespace fmt
#endif
