#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <c10/util/SmallVector.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// A user's elementwise function, see torch/xpu/jiterator.py.

namespace at::xpu::detail {

namespace {

/// What a kernel is made of, beside the type of the tensors.
struct UserFunction {
  std::string name;
  std::string code;
  size_t inputs;
  size_t numbers;
  size_t outputs;
  bool by_reference; // it writes its results to its last arguments
};

/// With the functions of SYCL by their names alone, as CUDA has them.
constexpr const char* kUserBegin = R"sycl(
namespace user {
using namespace xpu;
using sycl::abs, sycl::acos, sycl::acosh, sycl::asin, sycl::asinh, sycl::atan,
    sycl::atan2, sycl::atanh, sycl::cbrt, sycl::ceil, sycl::copysign, sycl::cos,
    sycl::cosh, sycl::erf, sycl::erfc, sycl::exp, sycl::exp2, sycl::expm1,
    sycl::fabs, sycl::floor, sycl::fma, sycl::fmax, sycl::fmin, sycl::fmod,
    sycl::hypot, sycl::isfinite, sycl::isinf, sycl::isnan, sycl::ldexp,
    sycl::lgamma, sycl::log, sycl::log10, sycl::log1p, sycl::log2, sycl::max,
    sycl::min, sycl::nextafter, sycl::pow, sycl::rint, sycl::round, sycl::rsqrt,
    sycl::signbit, sycl::sin, sycl::sinh, sycl::sqrt, sycl::tan, sycl::tanh,
    sycl::tgamma, sycl::trunc;
)sycl";

std::string userSourceOf(const UserFunction& function, KernelType type) {
  std::string parameters;
  std::string given;
  std::string results;
  std::string stores;
  const auto append = [](std::string& list, const std::string& text) {
    list += (list.empty() ? "" : ", ") + text;
  };
  for (const auto k : c10::irange(function.outputs)) {
    const auto number = std::to_string(k);
    append(parameters, "T* out" + number);
    results += "  C result" + number + "{};\n";
    stores += c10::str(
        "  out", number, "[i] = Store<T>::from(result", number, ");\n");
  }
  for (const auto k : c10::irange(function.inputs)) {
    append(parameters, "const T* in" + std::to_string(k));
    append(given, "load(in" + std::to_string(k) + "[i])");
  }
  for (const auto k : c10::irange(function.numbers)) {
    append(parameters, "C number" + std::to_string(k));
    append(given, "number" + std::to_string(k));
  }
  if (function.by_reference) {
    for (const auto k : c10::irange(function.outputs)) {
      append(given, "result" + std::to_string(k));
    }
  }
  return typedSource(type) + kUserBegin + "#line 1\n" + function.code +
      "\n} // namespace user\n"
      "namespace xpu {\n"
      "XPU_KERNEL xpu_user(" +
      parameters +
      ", u32 n) {\n"
      "  const u32 i = globalId();\n"
      "  if (i >= n) {\n"
      "    return;\n"
      "  }\n" +
      results + (function.by_reference ? "  " : "  result0 = ") +
      "user::" + function.name + "<C>(" + given + ");\n" + stores +
      "}\n"
      "} // namespace xpu\n";
}

/// The place of a kernel, for as long as the process lives.
KernelSlot& slotOf(const std::string& source) {
  static std::mutex mutex;
  static auto& all = // never destroyed
      *new std::map<std::string, std::unique_ptr<KernelSlot>>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& slot = all[source];
  if (!slot) {
    slot = std::make_unique<KernelSlot>();
  }
  return *slot;
}

/// Tensors of one type, shape and order of elements, without gaps.
struct UserInputs {
  std::vector<Tensor> tensors;
  ScalarType type;
  std::vector<int64_t> shape;
  Device device;
};

UserInputs prepared(const std::string& name, TensorList given) {
  std::optional<Device> device;
  at::native::ResultTypeState state{};
  std::vector<int64_t> shape;
  for (const auto& tensor : given) {
    if (tensor.is_xpu()) {
      TORCH_CHECK(
          !device || *device == tensor.device(),
          "Expected all tensors to be on the same device, but found at least two devices, ",
          *device,
          " and ",
          tensor.device(),
          "!");
      device = tensor.device();
    }
    state = at::native::update_result_type_state(tensor, state);
    shape = at::infer_size(shape, tensor.sizes());
  }
  TORCH_CHECK(device, "'", name, "' needs a tensor on XPU among its arguments");
  UserInputs result{{}, at::native::result_type(state), shape, *device};
  for (const auto& tensor : given) {
    TORCH_CHECK(
        tensor.is_xpu() || tensor.dim() == 0,
        "Expected all tensors to be on the same device, but found at least two devices, ",
        *device,
        " and ",
        tensor.device(),
        "!");
    result.tensors.push_back(
        tensor.to(*device, result.type).resolve_conj().resolve_neg());
  }
  const auto& first = result.tensors[0];
  const bool same = std::all_of(
      result.tensors.begin(), result.tensors.end(), [&](const Tensor& tensor) {
        return tensor.sizes() == result.shape &&
            tensor.strides() == first.strides() &&
            tensor.is_non_overlapping_and_dense();
      });
  for (auto& tensor : result.tensors) {
    tensor = same ? tensor : tensor.expand(result.shape).contiguous();
  }
  return result;
}

std::vector<Tensor> callUserFunction(
    std::string name,
    std::string code,
    TensorList tensors,
    at::ArrayRef<Scalar> numbers,
    int64_t outputs,
    bool by_reference) {
  const at::NoGradGuard no_grad;
  const UserFunction function{
      std::move(name),
      std::move(code),
      tensors.size(),
      numbers.size(),
      size_t(outputs),
      by_reference};
  constexpr size_t kMostArguments = 31;
  TORCH_CHECK(
      tensors.size() + numbers.size() + function.outputs <= kMostArguments,
      "'",
      function.name,
      "' has more than ",
      kMostArguments,
      " arguments and results");
  const auto inputs = prepared(function.name, tensors);
  const auto device = inputs.device.index();
  const auto type = kernelType(inputs.type, device);
  TORCH_CHECK(
      type,
      "'",
      function.name,
      "' cannot be called with ",
      inputs.type,
      " on ",
      inputs.device);
  const c10::xpu::XPUGuard guard(device);
  std::vector<Tensor> results;
  for (const auto k : c10::irange(function.outputs)) {
    (void)k;
    results.push_back(at::empty_like(inputs.tensors[0]));
  }
  const auto source = userSourceOf(function, *type);
  const auto& kernel =
      compileKernel(slotOf(source), device, function.name, source);
  const auto n = inputs.tensors[0].numel();
  constexpr int64_t kMost = int64_t(1) << 30; // of one launch
  for (int64_t begin = 0; begin < n; begin += kMost) {
    c10::SmallVector<KernelArgument, 32> arguments;
    const auto add = [&](const Tensor& tensor) {
      arguments.emplace_back(
          static_cast<char*>(tensor.data_ptr()) +
          begin * int64_t(tensor.element_size()));
    };
    std::for_each(results.begin(), results.end(), add);
    std::for_each(inputs.tensors.begin(), inputs.tensors.end(), add);
    for (const auto& number : numbers) {
      arguments.push_back(kernelNumber(number, *type));
    }
    const auto count = std::min(n - begin, kMost);
    arguments.emplace_back(uint32_t(count));
    launchKernel(
        kernel,
        c10::xpu::getCurrentXPUStream(device),
        function.name,
        count,
        arguments);
  }
  return results;
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def(
      "_call_user_function(str name, str code, Tensor[] tensors, Scalar[] numbers, int outputs, bool by_reference) -> Tensor[]",
      &callUserFunction);
}

} // namespace at::xpu::detail
