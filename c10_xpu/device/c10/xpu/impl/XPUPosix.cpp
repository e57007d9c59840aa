#include <c10/xpu/impl/XPUInternal.h>

#include <dlfcn.h>
#include <pthread.h>

namespace c10::xpu::impl {

int callInForkedChild(void (*handler)()) {
  return pthread_atfork(nullptr, nullptr, handler);
}

std::string libraryFolderOf(void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || !info.dli_fname) {
    return "";
  }
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

} // namespace c10::xpu::impl
