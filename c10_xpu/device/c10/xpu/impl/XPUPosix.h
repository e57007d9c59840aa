#pragma once

#include <string>

namespace c10::xpu::impl {

/// Has `handler` called in each child that is forked from now on. Returns 0 or
/// an error number.
int callInForkedChild(void (*handler)());

/// The folder of the library that has `function`, with a slash at its end;
/// empty if it is not known.
std::string libraryFolderOf(void* function);

} // namespace c10::xpu::impl
