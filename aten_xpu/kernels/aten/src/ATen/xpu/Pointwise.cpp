#include <ATen/xpu/detail/Pointwise.h>

#include <ATen/ATen.h>
#include <ATen/xpu/detail/KernelErrors.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Strides.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/util/SmallVector.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace at::xpu::detail {

namespace {

/// How many tensors an expression reads: it names the last of `a`, `b`, `c`.
int inputsOf(const std::string& expression) {
  int inputs = 1;
  std::string word;
  for (const char letter : expression + " ") {
    if (isalnum(static_cast<unsigned char>(letter)) || letter == '_') {
      word += letter;
      continue;
    }
    inputs = std::max(inputs, word == "c" ? 3 : word == "b" ? 2 : 1);
    word.clear();
  }
  return inputs;
}

struct Row {
  std::string name;
  std::string op; // for the profiler
  const char* output; // the type, in the source
  const char* third; // the type of the third argument
  uint32_t types;
  const char* expression;
  std::optional<KernelType> converts_to{};
  // Whether a number is rounded to the type before it is compared.
  bool rounds = isBool() || name == "fmod" || name == "remainder" ||
      name == "hardshrink" || name == "hardshrink_backward" ||
      name == "softshrink_backward";
  // The types that numbers are cast to, and need not be of.
  uint32_t casts = isBool()                          ? ALL
      : name == "nan_to_num" || name == "pow_Scalar" ? FLOATING
                                                     : 0;

  bool isBool() const {
    return output == std::string_view("b8");
  }
  bool isMasked() const {
    return third == std::string_view("b8");
  }
  bool isSpecial() const {
    return types & SPECIAL & ~ALL;
  }
  bool mayDivideByZero(KernelType type) const {
    return types & DIVISION & ~ALL && INTEGRAL & (1 << type);
  }
};

constexpr uint32_t kFloats = FLOATING & ~(1u << f64); // that become float8

const auto& rows() {
  static const auto& all = *new std::vector<Row>{
  // never destroyed
#define XPU_ROW_OF(name, output, third, types, ...) \
  {#name, "aten::" #name, output, third, types, #__VA_ARGS__},
#define XPU_USUAL(name, types, ...) \
  XPU_ROW_OF(name, "T", "T", types, __VA_ARGS__)
#define XPU_NEW XPU_USUAL
#define XPU_GRADIENT XPU_USUAL
#define XPU_TENSOR XPU_USUAL
#define XPU_TENSORS XPU_USUAL
#define XPU_PLAIN XPU_USUAL
#define XPU_OTHER XPU_USUAL
#define XPU_COMPARE(name, types, ...) \
  XPU_ROW_OF(name, "b8", "T", types, __VA_ARGS__)
#define XPU_IS XPU_COMPARE
#define XPU_LOGICAL XPU_COMPARE
#define XPU_MASKED(name, types, ...) \
  XPU_ROW_OF(name, "T", "b8", types, __VA_ARGS__)
#include <ATen/xpu/kernels/Pointwise.def>
#define XPU_CONVERSION(type) \
  {"to_" #type, "aten::copy_", #type, "T", ALL, "a", type}
      XPU_CONVERSION(f64),
      XPU_CONVERSION(f32),
      XPU_CONVERSION(f16),
      XPU_CONVERSION(bf16),
      XPU_CONVERSION(i64),
      XPU_CONVERSION(i32),
      XPU_CONVERSION(i16),
      XPU_CONVERSION(i8),
      XPU_CONVERSION(u8),
      XPU_CONVERSION(b8),
      // clang-format off
      {"to_e4m3", "aten::copy_", "u8", "T", kFloats, "to_float8<4, 3>(a)", u8},
      {"to_e5m2", "aten::copy_", "u8", "T", kFloats, "to_float8<5, 2>(a)", u8},
      {"from_e4m3", "aten::copy_", "f32", "T", 1u << u8, "from_float8<4, 3>(a)", f32},
      {"from_e5m2", "aten::copy_", "f32", "T", 1u << u8, "from_float8<5, 2>(a)", f32},
      // clang-format on
  };
  return all;
}

constexpr size_t kRows = size_t(Pointwise::from_e5m2) + 1;

/// As the kernels of a type have it: what is of the same type is copied.
std::string functionOf(const Row& row, const char* type = "") {
  const bool copies = row.name == std::string("to_") + type;
  return "XPU_FUNCTION(" + row.name + ", " +
      std::to_string(copies ? 0 : inputsOf(row.expression)) + ", (" +
      row.expression + "))\n";
}

/// How many elements an item has where they are side by side: 16 bytes of the
/// larger type, or of the smaller one if that is half as large. Of special
/// operators one: they take longer to compute than to read.
uint32_t vectorOf(const Row& row, KernelType type) {
  constexpr size_t kBytes = 16;
  const auto sizeOf = [](KernelType one) {
    return c10::elementSize(kKernelTypes[one].type);
  };
  const auto input = sizeOf(type);
  const auto output = row.converts_to ? sizeOf(*row.converts_to)
      : row.isBool()                  ? 1
                                      : input;
  const auto size = std::max(input, output);
  const bool half = row.converts_to && *row.converts_to != b8 &&
      size == 2 * std::min(input, output);
  return row.isSpecial() ? 1 : uint32_t(kBytes / size * (half ? 2 : 1));
}

std::string sourceWith(std::string source, int type, bool special) {
  for (const auto& row : rows()) {
    if (!(row.types & (1 << type)) || row.isSpecial() != special) {
      continue;
    }
    source += functionOf(row, kKernelTypes[type].name);
    source += "XPU_POINTWISE(" + row.name + ", " + row.output + ", " +
        row.third + ", " + std::to_string(vectorOf(row, KernelType(type))) +
        ")\n";
  }
  return source;
}
std::string sourceOf(int type) {
  return sourceWith(typedSource(type) + pointwiseSource(), type, false);
}
std::string specialSourceOf(int type) {
  const auto usual = typedSource(type) + pointwiseSource();
  return sourceWith(usual + specialSource(), type, true);
}

const KernelFamily kPointwiseFamily("pointwise", &sourceOf);
const KernelFamily kSpecialFamily(
    "special",
    &specialSourceOf,
    1 << f64 | 1 << f32);

const Kernel* findPointwise(
    Pointwise kernel,
    KernelType type,
    DeviceIndex device) {
  static std::array<std::array<KernelSlot, kKernelTypes.size()>, kRows> slots;
  const auto& row = rows()[size_t(kernel)];
  const auto& family = row.isSpecial() ? kSpecialFamily : kPointwiseFamily;
  auto& slot = slots[size_t(kernel)][type];
  return findKernel(
      slot, device, family[type], [&]() -> const auto& { return row.name; });
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

// As in kernels/Pointwise.sycl.
constexpr uint32_t kScalar = 1; // shifted by the argument's number
constexpr uint32_t kRepeat = 8;
constexpr uint32_t kVectors = 64;

/// One launch.
struct PointwiseCall {
  const Row& row;
  const Kernel& kernel;
  c10::xpu::XPUStream stream;
  std::array<KernelArgument, 3> numbers; // alpha, beta, gamma
  // Of the arguments: the number and whether it is one.
  std::array<KernelArgument, 3> inputs;
  uint32_t flags = 0;
  uint32_t vector = 0; // elements that an item has where they are side by side
};

/// What items have: an element, until they have vectors.
struct Items {
  Pointers pointers{};
  c10::SmallVector<int64_t, 6> shape;
  std::array<c10::SmallVector<int64_t, 6>, kOperands> strides;
  uint32_t flags = 0;

  bool haveVectors(const TensorIteratorBase& iter, uint32_t vector) const {
    if (vector == 1 || shape.empty() || shape[0] < vector ||
        (shape.size() > 1 && shape[0] % vector != 0)) {
      return false;
    }
    for (const auto k : c10::irange(iter.ntensors())) {
      const auto bytes = iter.element_size(k) * vector;
      const auto fits = [&](int64_t at) { return at % int64_t(bytes) == 0; };
      const bool repeated = k > 0 && strides[k][0] == 0;
      if (pointers[k] && !repeated &&
          (strides[k][0] != int64_t(iter.element_size(k)) ||
           !fits(reinterpret_cast<intptr_t>(pointers[k])) ||
           !std::all_of(strides[k].begin() + 1, strides[k].end(), fits))) {
        return false;
      }
    }
    return true;
  }
  void makeVectors(uint32_t vector) {
    flags |= kVectors;
    shape[0] = (shape[0] + vector - 1) / vector;
    for (const auto k : c10::irange(kOperands)) {
      if (strides[k][0] == 0 && k > 0) {
        flags |= kRepeat << (k - 1);
      }
      strides[k][0] *= vector;
    }
  }
};

/// With the strides as eachStrided gives them.
c10::SmallVector<KernelArgument, 32> argumentsOf(
    const PointwiseCall& call,
    const Pointers& pointers,
    uint32_t flags,
    uint32_t elements,
    c10::ArrayRef<KernelArgument> strides) {
  c10::SmallVector<KernelArgument, 32> arguments;
  arguments.append(pointers.begin(), pointers.end());
  arguments.append(call.inputs.begin(), call.inputs.end());
  arguments.append(call.numbers.begin(), call.numbers.end());
  arguments.push_back(flags);
  arguments.push_back(elements);
  arguments.append(strides.begin(), strides.end());
  return arguments;
}

void launchPart(const PointwiseCall& call, TensorIteratorBase& iter) {
  Items items;
  items.shape = iter.shape();
  items.flags = call.flags;
  for (auto& strides : items.strides) {
    strides.resize(iter.ndim());
  }
  for (const auto k : c10::irange(iter.ntensors())) {
    if (k == 0 || !(call.flags & (kScalar << (k - 1)))) {
      items.pointers[k] = static_cast<char*>(iter.data_ptr(k));
      items.strides[k] = iter.strides(k);
    }
  }
  const bool vectors = items.haveVectors(iter, call.vector);
  if (vectors) {
    items.makeVectors(call.vector);
  }
  Strides strides;
  std::copy(items.strides.begin(), items.strides.end(), strides.begin());
  eachStrided(
      items.pointers,
      items.shape,
      strides,
      [&](const Pointers& moved,
          uint32_t count,
          c10::ArrayRef<KernelArgument> given) {
        // The last vector may not be whole.
        const auto elements = vectors
            ? std::min(count * call.vector, uint32_t(iter.numel()))
            : count;
        launchKernel(
            call.kernel,
            call.stream,
            call.row.op,
            count,
            argumentsOf(call, moved, items.flags, elements, given));
      });
}

/// The types of a kernel, and what tensors it takes.
struct Types {
  KernelType kernel;
  ScalarType input;
  ScalarType output;
  ScalarType third;

  ScalarType of(int operand) const {
    return operand == 0 ? output : operand == 3 ? third : input;
  }
};

bool runTyped(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const PointwiseNumbers& numbers);

/// The same with arguments and output of the types of the kernel.
bool runConverted(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const PointwiseNumbers& numbers) {
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
        iter.is_cpu_scalar(k) ? argument : argument.to(types.of(k)));
  }
  auto converted = config.build();
  if (!runTyped(converted, kernel, types, numbers)) {
    return false;
  }
  copyUnlessSame(result, to);
  return true;
}

bool runTyped(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const Types& types,
    const PointwiseNumbers& numbers) {
  const auto device = iter.device(0).index();
  const auto& row = rows()[size_t(kernel)];
  const auto type = types.kernel;
  const auto* const found =
      row.types & (1 << type) ? findPointwise(kernel, type, device) : nullptr;
  if (!found) {
    return false;
  }
  if (iter.numel() == 0) {
    return true;
  }
  const auto rounded = [&](const Scalar& number) -> Scalar {
    return !row.rounds ? number
        : type == f16  ? Half(static_cast<float>(number.to<double>()))
        : type == bf16 ? BFloat16(static_cast<float>(number.to<double>()))
                       : number;
  };
  uint32_t flags = 0;
  bool same = iter.dtype(0) == types.output;
  const auto zero = kernelNumber(0, type);
  std::array<KernelArgument, 3> inputs{zero, zero, zero};
  for (int k = 1; k < iter.ntensors(); ++k) {
    if (iter.is_cpu_scalar(k)) {
      flags |= kScalar << (k - 1);
      inputs[k - 1] =
          kernelNumber(rounded(numberOf(iter, k)), type, /*checked=*/false);
    } else {
      same &= iter.dtype(k) == types.of(k);
    }
  }
  if (!same) {
    return runConverted(iter, kernel, types, numbers);
  }
  std::array<KernelArgument, 3> given{zero, zero, zero};
  for (const auto i : c10::irange(numbers.size())) {
    given[i] = kernelNumber(
        rounded(numbers[i]), type, /*checked=*/!(row.casts & (1 << type)));
  }
  if (row.mayDivideByZero(type)) {
    static const auto code =
        errorCode({"a division of integers", IndexWords::Division, false});
    const auto at = reinterpret_cast<uint64_t>(kernelErrors(device));
    if (type == i64) {
      given = {at, zero, uint64_t(code)};
    } else {
      given = {uint32_t(at), uint32_t(at >> 32), code};
    }
  }
  const c10::xpu::XPUGuard guard(device);
  const PointwiseCall call{
      row,
      *found,
      c10::xpu::getCurrentXPUStream(device),
      given,
      inputs,
      flags,
      vectorOf(row, type)};
  if (iter.can_use_32bit_indexing()) {
    launchPart(call, iter);
  } else {
    for (auto& part : iter.with_32bit_indexing()) {
      launchPart(call, part);
    }
  }
  return true;
}

#if __has_include(<c10/util/Float8_e4m3fn.h>)
/// 0 for float8_e4m3fn and 1 for float8_e5m2, the order of their kernels;
/// nothing for other types.
std::optional<int> float8Of(ScalarType type) {
  return type == kFloat8_e4m3fn ? std::make_optional(0)
      : type == kFloat8_e5m2    ? std::make_optional(1)
                                : std::nullopt;
}

/// Copies from or to float8, by way of float if the other type is another.
bool copyFloat8(const Tensor& result, const Tensor& from) {
  const auto to_float8 = float8Of(result.scalar_type());
  const auto of_float8 = float8Of(from.scalar_type());
  const auto other = to_float8 ? from.scalar_type() : result.scalar_type();
  const bool direct = !(to_float8 && of_float8) &&
      (other == kFloat ||
       (to_float8 && (other == kHalf || other == kBFloat16)));
  if (!direct) {
    result.copy_(from.to(kFloat));
    return true;
  }
  const auto type =
      kernelType(to_float8 ? other : kByte, result.device().index());
  auto iter = TensorIteratorConfig()
                  .set_check_mem_overlap(false)
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .add_owned_output(to_float8 ? result.view(kByte) : result)
                  .add_owned_input(of_float8 ? from.view(kByte) : from)
                  .build();
  const auto first = to_float8 ? Pointwise::to_e4m3 : Pointwise::from_e4m3;
  const auto kernel =
      Pointwise(int(first) + (to_float8 ? *to_float8 : *of_float8));
  return type &&
      runTyped(
             iter,
             kernel,
             {*type, iter.dtype(1), iter.dtype(0), iter.dtype(1)},
             {});
}
#endif

} // namespace

bool runPointwise(
    TensorIteratorBase& iter,
    Pointwise kernel,
    const PointwiseNumbers& numbers) {
  const auto& row = rows()[size_t(kernel)];
  if (row.types & ROUNDING & ~ALL &&
      isIntegralType(iter.common_dtype(), /*includeBool=*/false)) {
    return runCopy(iter);
  }
  auto common = row.isMasked() ? iter.dtype(0) : iter.common_dtype();
  if (row.isSpecial() && (common == kHalf || common == kBFloat16)) {
    common = kFloat;
  }
  const auto type = kernelType(common, iter.device(0).index());
  const auto other = [&](bool is_bool) { return is_bool ? kBool : common; };
  return type &&
      runTyped(
             iter,
             kernel,
             {*type, common, other(row.isBool()), other(row.isMasked())},
             numbers);
}

uint32_t pointwiseTypes(Pointwise kernel) {
  return rows()[size_t(kernel)].types;
}

std::string pointwiseFunction(Pointwise kernel) {
  return functionOf(rows()[size_t(kernel)]);
}

int pointwiseInputs(Pointwise kernel) {
  return inputsOf(rows()[size_t(kernel)].expression);
}

bool runCopy(TensorIteratorBase& iter) {
  const auto device = iter.device(0).index();
#if __has_include(<c10/util/Float8_e4m3fn.h>)
  if (iter.dtype(0) != iter.dtype(1) && !iter.is_cpu_scalar(1) &&
      (float8Of(iter.dtype(0)) || float8Of(iter.dtype(1)))) {
    return copyFloat8(iter.tensor(0), iter.tensor(1));
  }
#endif
  const auto to = iter.dtype(0);
  const auto from = iter.is_cpu_scalar(1) ? to : iter.dtype(1);
  auto type = kernelType(from, device);
  if (to == from && !iter.is_cpu_scalar(1)) {
    type = type ? type : typeOfSize(c10::elementSize(to));
    return type &&
        runTyped(iter, convertTo(*type), {*type, from, to, from}, {});
  }
  const auto result = kernelType(to, device);
  return type && result &&
      runTyped(iter, convertTo(*result), {*type, from, to, from}, {});
}

} // namespace at::xpu::detail
