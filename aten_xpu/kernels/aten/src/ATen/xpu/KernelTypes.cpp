#include <ATen/xpu/detail/KernelTypes.h>

#include <c10/util/irange.h>
#include <c10/xpu/XPUFunctions.h>

namespace at::xpu::detail {

namespace {

std::vector<const KernelUnit*>& units() {
  static std::vector<const KernelUnit*> all;
  return all;
}

} // namespace

KernelFamily::KernelFamily(
    const char* name,
    std::string (*source)(int type),
    uint32_t types)
    : types_(types) {
  for (const auto i : c10::irange(units_.size())) {
    if (!(types & (1 << i))) {
      continue;
    }
    units_[i] = {
        std::string(name) + "-" + kKernelTypes[i].name, source, int(i)};
    units().push_back(&units_[i]);
  }
}

std::optional<KernelType> NamedKernel::typeFor(const Tensor& tensor) const {
  const auto type = kernelTypeOf(tensor, family_.types());
  return type && find(*type, tensor.device().index()) ? type : std::nullopt;
}

void NamedKernel::launch(
    const std::string& op,
    KernelType type,
    DeviceIndex device,
    int64_t items,
    c10::ArrayRef<KernelArgument> arguments,
    uint32_t group_size) const {
  if (items > 0) {
    launchKernel(
        requireKernel(find(type, device), op),
        c10::xpu::getCurrentXPUStream(device),
        op,
        items,
        arguments,
        group_size);
  }
}

std::vector<const KernelUnit*> kernelUnits() {
  return units();
}

std::optional<KernelType> kernelType(ScalarType type, DeviceIndex device) {
  for (const auto i : c10::irange(kKernelTypes.size())) {
    if (kKernelTypes[i].type == type) {
      const auto& properties = c10::xpu::get_device_properties(device);
      const bool has = type == kDouble ? properties.has_fp64
          : type == kHalf              ? properties.has_fp16
                                       : true;
      return has ? std::make_optional(KernelType(i)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<KernelType> kernelTypeOfParts(
    ScalarType type,
    DeviceIndex device) {
  return type == kComplexHalf ? std::nullopt
                              : kernelType(toRealValueType(type), device);
}

std::optional<KernelType> typeOfSize(size_t size) {
  for (const auto i : c10::irange(kKernelTypes.size())) {
    if (MOVED & (1 << i) && c10::elementSize(kKernelTypes[i].type) == size) {
      return KernelType(i);
    }
  }
  return std::nullopt;
}

std::optional<KernelType> kernelTypeOf(const Tensor& tensor, uint32_t types) {
  const auto device = kernelDevice(tensor);
  const auto type =
      device ? kernelType(tensor.scalar_type(), *device) : std::nullopt;
  return type && (types & (1 << *type)) ? type : std::nullopt;
}

KernelArgument kernelNumber(
    const Scalar& number,
    KernelType type,
    bool checked) {
  const auto as = [&](auto like, auto wide) {
    using Number = decltype(like);
    return checked ? number.to<Number>()
                   : static_cast<Number>(number.to<decltype(wide)>());
  };
  switch (type) {
    case f64:
      return number.to<double>();
    case f32:
    case f16:
    case bf16:
      return as(float(), double());
    case i64:
      return number.to<int64_t>();
    case i32:
      return as(int32_t(), int64_t());
    case i16:
      return int32_t(as(int16_t(), int64_t()));
    case i8:
      return int32_t(as(int8_t(), int64_t()));
    case u8:
      return int32_t(as(uint8_t(), int64_t()));
    case b8:
      return int32_t(number.to<bool>());
  }
  TORCH_INTERNAL_ASSERT(false);
}

} // namespace at::xpu::detail
