#include <c10/xpu/XPUStream.h>
#include <pybind11/pybind11.h>

#include <string>

// Sets the bytes of a storage, on the current stream.
void fill(uintptr_t address, size_t bytes, int value) {
  sycl::queue& queue = c10::xpu::getCurrentXPUStream();
  queue.memset(reinterpret_cast<void*>(address), value, bytes);
}

pybind11::bytes contents(uintptr_t address, size_t bytes) {
  sycl::queue& queue = c10::xpu::getCurrentXPUStream();
  std::string text(bytes, '\0');
  queue.memcpy(text.data(), reinterpret_cast<void*>(address), bytes).wait();
  return text;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("fill", &fill);
  module.def("contents", &contents);
}
