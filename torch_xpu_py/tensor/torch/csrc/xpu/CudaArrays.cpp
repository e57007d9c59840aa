#include <ATen/ATen.h>
#include <ATen/dlpack.h>
#include <c10/xpu/XPUEvent.h>
#include <c10/xpu/XPUFunctions.h>
#include <c10/xpu/XPUStream.h>
#include <c10/xpu/impl/XPUNative.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/xpu/Bindings.h>

#include <cstdint>
#include <string>
#include <vector>

// What torch/xpu/_cuda_arrays.py needs: memory of an NVIDIA device, exchanged
// with libraries that know it as CUDA's.

namespace py = pybind11;

namespace torch {
namespace xpu {
namespace {

/// The number that CUDA gives a device of XPU, or None.
py::object cudaDevice(int64_t device) {
  const auto index = useDevice(device);
  const auto number = withoutGil([&] {
    return c10::xpu::impl::cudaDevice(c10::xpu::get_raw_device(index));
  });
  return number ? py::cast(*number) : py::none();
}

/// Lets a CUstream wait for what was submitted to the current stream of a
/// device.
void letCudaStreamWait(uintptr_t stream, int64_t device) {
  const auto index = useDevice(device);
  withoutGil([&] {
    c10::xpu::XPUEvent event;
    event.record(c10::xpu::getCurrentXPUStream(index));
    c10::xpu::impl::letCudaStreamWait(stream, event.event());
  });
}

/// The part of DLPack's DLManagedTensorVersioned before its DLTensor, which the
/// dlpack.h of older releases does not have.
struct VersionedHead {
  uint32_t major;
  uint32_t minor;
  void* manager_ctx;
  void (*deleter)(void*);
  uint64_t flags;
};

/// Changes the device that a DLPack capsule names. The tensor must not have
/// been taken from it.
void setDLPackDevice(const py::capsule& capsule, int type, int index) {
  const std::string name = capsule.name() ? capsule.name() : "";
  auto* address = static_cast<char*>(capsule.get_pointer<void>());
  DLTensor* tensor = nullptr;
  if (name == "dltensor") {
    tensor = &reinterpret_cast<DLManagedTensor*>(address)->dl_tensor;
  } else if (name == "dltensor_versioned") {
    address += sizeof(VersionedHead);
    tensor = reinterpret_cast<DLTensor*>(address);
  }
  TORCH_CHECK(
      tensor,
      "A DLPack capsule is named '",
      name,
      "': it must be 'dltensor' or 'dltensor_versioned', of which nobody has "
      "taken the tensor");
  tensor->device.device_type = static_cast<DLDeviceType>(type);
  tensor->device.device_id = index;
}

/// A tensor over memory of a device that `owner` keeps alive. The strides are
/// in elements.
at::Tensor tensorOver(
    uintptr_t data,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    const py::object& dtype,
    const py::object& owner) {
  useXPU();
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype");
  const auto type = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  auto* const memory =
      reinterpret_cast<void*>(data); // NOLINT(performance-no-int-to-ptr)
  const c10::Device where(
      c10::kXPU, withoutGil([&] {
        return c10::xpu::get_device_idx_from_pointer(memory);
      }));
  PyObject* const kept = owner.inc_ref().ptr();
  const auto release = [kept](void* /*data*/) {
    if (Py_IsInitialized()) {
      const py::gil_scoped_acquire gil;
      Py_DECREF(kept);
    }
  };
  return at::from_blob(
      memory, sizes, strides, release, at::device(where).dtype(type), where);
}

} // namespace

void bindCudaArrays(py::module& module) {
  const auto def = [&module](const char* name, auto function) {
    module.def(name, torch::wrap_pybind_function(function));
  };
  def("_xpu_cudaDevice", &cudaDevice);
  def("_xpu_letCudaStreamWait", &letCudaStreamWait);
  def("_xpu_setDLPackDevice", &setDLPackDevice);
  def("_xpu_tensorOver", &tensorOver);
  def("_xpu_synchronizeCudaStream", [](uintptr_t stream) {
    withoutGil([&] { c10::xpu::impl::synchronizeCudaStream(stream); });
  });
}

} // namespace xpu
} // namespace torch
