#include <ATen/xpu/detail/Pointwise.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <c10/util/SmallVector.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <limits>

namespace at::xpu::detail {

namespace {

constexpr int kMostDims = 5; // of Note [Strides] in kernels/Common.sycl
constexpr uint32_t kVectorBytes = 16;

struct Row {
  std::string name;
  std::string op; // for the profiler
  const char* output; // the type, in the source
  bool binary;
  uint32_t types;
  const char* expression;
};

const auto& rows() {
  static const auto& all = *new std::vector<Row>{
  // never destroyed
#define XPU_ROW_OF(name, output, binary, types, ...) \
  {#name, "aten::" #name, output, binary, types, #__VA_ARGS__},
#define XPU_UNARY(name, types, ...) \
  XPU_ROW_OF(name, "T", false, types, __VA_ARGS__)
#define XPU_PLAIN XPU_UNARY
#define XPU_BINARY(name, types, ...) \
  XPU_ROW_OF(name, "T", true, types, __VA_ARGS__)
#define XPU_ALPHA XPU_BINARY
#define XPU_EXTREMUM XPU_BINARY
#define XPU_COMPARE(name, types, ...) \
  XPU_ROW_OF(name, "b8", true, types, __VA_ARGS__)
#include <ATen/xpu/kernels/Pointwise.def>
#define XPU_CONVERSION(type) \
  {"to_" #type, "aten::copy_", #type, false, ALL, "a"}
      XPU_CONVERSION(f64),
      XPU_CONVERSION(f32),
      XPU_CONVERSION(f16),
      XPU_CONVERSION(bf16),
      XPU_CONVERSION(i64),
      XPU_CONVERSION(i32),
      XPU_CONVERSION(i16),
      XPU_CONVERSION(u8),
      XPU_CONVERSION(b8),
  };
  return all;
}

constexpr size_t kRows = size_t(convertTo(b8)) + 1;

std::string sourceOf(int type) {
  std::string source = commonSource();
  source += std::string("#define XPU_T ") + kKernelTypes[type].name + "\n";
  source += pointwiseSource();
  for (const auto& row : rows()) {
    if (row.types & (1 << type)) {
      source += "XPU_POINTWISE(" + row.name + ", " + row.output + ", " +
          (row.binary ? "true" : "false") + ", (" + row.expression + "))\n";
    }
  }
  return source;
}

const KernelFamily kPointwiseFamily("pointwise", &sourceOf);

enum class Access { Contiguous, Strided };

const Kernel* findPointwise(
    Pointwise kernel,
    KernelType type,
    Access access,
    DeviceIndex device) {
  static std::
      array<std::array<std::array<KernelSlot, 2>, kKernelTypes.size()>, kRows>
          slots;
  auto& slot = slots[size_t(kernel)][type][size_t(access)];
  if (const auto* found = slot.kernels[device].load(std::memory_order_acquire);
      C10_LIKELY(found != nullptr)) {
    return found == &kNoKernel ? nullptr : found;
  }
  const auto name = rows()[size_t(kernel)].name +
      (access == Access::Contiguous ? "_contiguous" : "_strided");
  return loadKernel(slot, device, kPointwiseFamily[type], name.c_str());
}

/// The number that a scalar of the CPU is.
Scalar numberOf(const TensorIteratorBase& iter, int operand) {
  const void* const data = iter.data_ptr(operand);
  switch (iter.dtype(operand)) {
    case kDouble:
      return *static_cast<const double*>(data);
    case kFloat:
      return *static_cast<const float*>(data);
    case kLong:
      return *static_cast<const int64_t*>(data);
    case kBool:
      return *static_cast<const bool*>(data);
    default:
      return iter.tensor(operand).item();
  }
}

/// One launch.
struct PointwiseCall {
  const Row& row;
  Pointwise kernel{};
  KernelType type{};
  DeviceIndex device = 0;
  c10::xpu::XPUStream stream;
  KernelArgument alpha;
  // Of the arguments: the number and whether it is one.
  std::array<KernelArgument, 2> numbers;
  uint32_t scalars = 0;
  uint32_t vector = 0; // elements that a work-item has if all is contiguous

  const Kernel& get(Access access) const {
    const auto* found = findPointwise(kernel, type, access, device);
    TORCH_CHECK(
        found,
        "A kernel of ",
        row.op,
        " cannot be compiled, but another could");
    return *found;
  }
};

/// Divides by a size: the quotient of n is (n * factor / 2^32 + n) / 2^shift.
uint64_t factorOf(uint32_t size, uint32_t& shift) {
  shift = 0;
  while ((uint64_t(1) << shift) < size) {
    ++shift;
  }
  const auto factor =
      ((uint64_t(1) << 32) * ((uint64_t(1) << shift) - size)) / size + 1;
  return size | (factor & 0xFFFFFFFF) << 32;
}

void launchStrided(
    const PointwiseCall& call,
    std::array<char*, 3> pointers,
    IntArrayRef shape,
    const std::array<IntArrayRef, 3>& strides) {
  const auto dims = shape.size();
  if (dims > kMostDims) {
    for (const auto i : c10::irange(shape.back())) {
      auto moved = pointers;
      for (const auto k : c10::irange(moved.size())) {
        moved[k] += moved[k] ? i * strides[k].back() : 0;
      }
      launchStrided(
          call,
          moved,
          shape.slice(0, dims - 1),
          {strides[0].slice(0, dims - 1),
           strides[1].slice(0, dims - 1),
           strides[2].slice(0, dims - 1)});
    }
    return;
  }
  uint32_t count = 1;
  std::array<uint64_t, size_t(3) * kMostDims> packed{};
  for (const auto d : c10::irange(dims)) {
    count *= uint32_t(shape[d]);
    uint32_t shift = 0;
    packed[3 * d] = factorOf(uint32_t(shape[d]), shift);
    packed[3 * d + 1] = shift | uint64_t(strides[0][d]) << 32;
    packed[3 * d + 2] = uint32_t(strides[1][d]) | uint64_t(strides[2][d]) << 32;
  }
  const auto& kernel = call.get(Access::Strided);
  c10::SmallVector<KernelArgument, 24> arguments{
      pointers[0],
      pointers[1],
      pointers[2],
      call.numbers[0],
      call.numbers[1],
      call.alpha,
      call.scalars,
      count,
      uint32_t(dims)};
  arguments.append(packed.begin(), packed.end());
  launchKernel(kernel, call.stream, call.row.op, count, arguments);
}

void launchPart(const PointwiseCall& call, TensorIteratorBase& iter) {
  const int inputs = iter.ntensors() - 1;
  std::array<char*, 3> pointers{};
  std::array<IntArrayRef, 3> strides;
  static constexpr std::array<int64_t, 64>
      kZeros{}; // PyTorch's most dimensions
  strides.fill(IntArrayRef(kZeros.data(), iter.ndim()));
  bool contiguous = iter.ndim() <= 1;
  for (const auto k : c10::irange(inputs + 1)) {
    if (k > 0 && call.scalars & (1 << (k - 1))) {
      continue;
    }
    pointers[k] = static_cast<char*>(iter.data_ptr(k));
    strides[k] = iter.strides(k);
    const auto size = int64_t(iter.element_size(k));
    contiguous &=
        iter.ndim() == 0 || iter.numel() == 1 || strides[k][0] == size;
    contiguous &=
        reinterpret_cast<uintptr_t>(pointers[k]) % (size * call.vector) == 0;
  }
  if (!contiguous) {
    launchStrided(call, pointers, iter.shape(), strides);
    return;
  }
  const auto& kernel = call.get(Access::Contiguous);
  const auto count = uint32_t(iter.numel());
  launchKernel(
      kernel,
      call.stream,
      call.row.op,
      (count + call.vector - 1) / call.vector,
      {pointers[0],
       pointers[1],
       pointers[2],
       call.numbers[0],
       call.numbers[1],
       call.alpha,
       call.scalars,
       count});
}

/// The types of a kernel, and what tensors it takes.
struct Types {
  KernelType kernel;
  ScalarType input;
  ScalarType output;
};

bool runTyped(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const Scalar& alpha);

/// The same with arguments and output of the types of the kernel.
bool runConverted(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const Scalar& alpha) {
  const auto& result = iter.tensor(0);
  const auto to = iter.dtype(0) == types.output
      ? result
      : at::empty_like(result, result.options().dtype(types.output));
  TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .allow_cpu_scalars(true)
      .resize_outputs(false)
      .add_owned_output(to);
  for (int k = 1; k < iter.ntensors(); ++k) {
    const auto& argument = iter.tensor(k);
    config.add_owned_input(
        iter.is_cpu_scalar(k) ? argument : argument.to(types.input));
  }
  auto converted = config.build();
  if (!runTyped(converted, kernel, types, alpha)) {
    return false;
  }
  if (!to.is_same(result)) {
    result.copy_(to);
  }
  return true;
}

bool runTyped(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const Scalar& alpha) {
  const auto device = iter.device(0).index();
  const auto& row = rows()[size_t(kernel)];
  const auto type = types.kernel;
  if (!(row.types & (1 << type)) ||
      !findPointwise(kernel, type, Access::Contiguous, device)) {
    return false;
  }
  if (iter.numel() == 0) {
    return true;
  }
  uint32_t scalars = 0;
  bool same = iter.dtype(0) == types.output;
  std::array<KernelArgument, 2> numbers{
      kernelNumber(0, type), kernelNumber(0, type)};
  for (int k = 1; k < iter.ntensors(); ++k) {
    if (iter.is_cpu_scalar(k)) {
      scalars |= 1 << (k - 1);
      numbers[k - 1] = kernelNumber(numberOf(iter, k), type);
    } else {
      same &= iter.dtype(k) == types.input;
    }
  }
  if (!same) {
    return runConverted(iter, kernel, types, alpha);
  }
  const c10::xpu::XPUGuard guard(device);
  const PointwiseCall call{
      row,
      kernel,
      type,
      device,
      c10::xpu::getCurrentXPUStream(device),
      kernelNumber(alpha, type),
      numbers,
      scalars,
      kVectorBytes /
          uint32_t(
              std::max(
                  c10::elementSize(types.input),
                  c10::elementSize(types.output)))};
  if (iter.can_use_32bit_indexing()) {
    launchPart(call, iter);
  } else {
    for (auto& part : iter.with_32bit_indexing()) {
      launchPart(call, part);
    }
  }
  return true;
}

/// The type whose elements are copied as those of another of the same size.
std::optional<KernelType> typeOfSize(size_t size) {
  switch (size) {
    case 1:
      return u8;
    case 2:
      return i16;
    case 4:
      return i32;
    case 8:
      return i64;
    default:
      return std::nullopt;
  }
}

} // namespace

bool runPointwise(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Scalar& alpha) {
  const auto common = iter.common_dtype();
  const auto type = kernelType(common, iter.device(0).index());
  const bool is_bool = rows()[size_t(kernel)].output == std::string("b8");
  return type &&
      runTyped(iter, kernel, {*type, common, is_bool ? kBool : common}, alpha);
}

bool runCopy(TensorIteratorBase& iter) {
  const auto device = iter.device(0).index();
  const auto to = iter.dtype(0);
  const auto from = iter.is_cpu_scalar(1) ? to : iter.dtype(1);
  if (to == from && !iter.is_cpu_scalar(1)) { // as they are, NaN too
    const auto type = typeOfSize(c10::elementSize(to));
    return type && runTyped(iter, convertTo(*type), {*type, from, to}, 1);
  }
  const auto type = kernelType(from, device);
  const auto result = kernelType(to, device);
  return type && result &&
      runTyped(iter, convertTo(*result), {*type, from, to}, 1);
}

} // namespace at::xpu::detail
