#include <ATen/ATen.h>
#include <ATen/xpu/detail/Foreach.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

// The operators of kernels/Foreach.def, and those beside them. What no kernel
// takes goes to PyTorch's functions that call an operator for each tensor.

namespace at::xpu::detail {

namespace {

/// The arguments of an operator.
struct ForeachArguments {
  c10::SmallVector<TensorList, 4> lists;
  c10::SmallVector<Scalar, 16> numbers; // of each tensor, or of all
  Tensor element; // in place of a number

  void look(TensorList list) {
    lists.push_back(list);
  }
  void look(ArrayRef<Scalar> each) {
    numbers.append(each.begin(), each.end());
    has_each = true;
  }
  void look(const Scalar& number) {
    numbers.push_back(number);
  }
  void look(const Tensor& tensor) {
    element = tensor;
  }

  bool has_each = false; // numbers of each
};

// What the number of a tensor is, as in the source.
enum class NumberIs : uint32_t { Alpha, Second, Element };

struct ForeachRun {
  const std::string& op;
  Foreach kernel;
  KernelType type;
  DeviceIndex device;
  NumberIs from;
  c10::SmallVector<KernelArgument, 16> numbers;
};

/// One tensor alone is as fast by its own operator.
constexpr size_t kFewest = 2;

/// Nothing if no kernel takes the arguments.
std::optional<ForeachRun> prepareForeach(
    const std::string& op,
    Foreach kernel,
    int inputs,
    const ForeachArguments& given,
    std::optional<ScalarType> other = std::nullopt) {
  const auto& lists = given.lists;
  const auto count = lists[0].size();
  const auto is_left = [](const Scalar& number) { // the operator may raise
    return number.isComplex() || number.isBoolean();
  };
  if (count < kFewest || (given.has_each && given.numbers.size() != count) ||
      std::any_of(given.numbers.begin(), given.numbers.end(), is_left)) {
    return std::nullopt;
  }
  const auto type = foreachType(lists, other);
  if (!type) {
    return std::nullopt;
  }
  const auto device = lists[0][0].device().index();
  const bool second = int(lists.size()) < inputs;
  ForeachRun run{
      op,
      kernel,
      *type,
      device,
      second ? NumberIs::Second : NumberIs::Alpha,
      {kernelNumber(1, *type)}};
  if (given.element.defined()) {
    const auto& element = given.element;
    const bool plain = given.numbers.empty() || given.numbers[0].equal(1);
    const auto is_of = [&](const Tensor& tensor) { // which may be written first
      return tensor.is_alias_of(element);
    };
    if (!plain || element.dim() != 0 ||
        std::any_of(lists[0].begin(), lists[0].end(), is_of) ||
        element.scalar_type() != lists[0][0].scalar_type() ||
        element.device() != lists[0][0].device()) {
      return std::nullopt;
    }
    run.from = NumberIs::Element;
    run.numbers = {element.data_ptr()};
  } else if (!given.numbers.empty()) {
    run.numbers.clear();
    for (const auto& number : given.numbers) {
      run.numbers.push_back(kernelNumber(number, *type));
    }
  }
  return findForeach(kernel, *type, device) ? std::make_optional(std::move(run))
                                            : std::nullopt;
}

void runTo(
    const ForeachRun& run,
    TensorList results,
    ArrayRef<TensorList> inputs) {
  const c10::xpu::XPUGuard guard(run.device);
  c10::SmallVector<TensorList, 4> lists{results};
  lists.append(inputs.begin(), inputs.end());
  const TensorTable table(run.device, lists, run.numbers);
  table.launch(
      run.op,
      findForeach(run.kernel, run.type, run.device),
      {uint32_t(run.from)});
}

std::vector<Tensor> emptyLikeEach(TensorList tensors) {
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    results.push_back(at::empty_like(tensor));
  }
  return results;
}

/// With the first list in place, or with new results.
template <class Op, Foreach kernel, int inputs, class Schema>
struct ForeachCall;

template <class Op, Foreach kernel, int inputs, class Result, class... Args>
struct ForeachCall<Op, kernel, inputs, Result(Args...)> {
  static Result call(Args... args) {
    static const std::string name = Op::name;
    ForeachArguments given;
    (given.look(args), ...);
    if (const auto run = prepareForeach(name, kernel, inputs, given)) {
      if constexpr (std::is_void_v<Result>) {
        return runTo(*run, given.lists[0], given.lists);
      } else {
        auto results = emptyLikeEach(given.lists[0]);
        runTo(*run, results, given.lists);
        return results;
      }
    }
    return callComposed<Op>(args...);
  }
};

#ifdef XPU_LATER_OPERATORS
using CopyOp = at::_ops::_foreach_copy_;

/// Types may differ, but not within a list.
void copyLists(TensorList self, TensorList src, bool non_blocking) {
  static const std::string name = CopyOp::name;
  if (!src.empty() && !self.empty() && isFloatingType(self[0].scalar_type())) {
    ForeachArguments given;
    given.lists = {src, self};
    const auto to = self[0].scalar_type();
    const auto kernel = to == kDouble ? Foreach::to_f64
        : to == kFloat                ? Foreach::to_f32
        : to == kHalf                 ? Foreach::to_f16
                                      : Foreach::to_bf16;
    if (const auto run = prepareForeach(name, kernel, 1, given, to)) {
      if (kernelType(to, run->device)) {
        runTo(*run, self, {src});
        return;
      }
    }
  }
  callComposed<CopyOp>(self, src, non_blocking);
}
#endif

// Norms, of which there are three kinds, as with CUDA.

using NormOp = at::_ops::_foreach_norm_Scalar;

std::optional<std::vector<Tensor>> runNorm(
    TensorList self,
    const Scalar& order_given) {
  static const std::string name = NormOp::name;
  if (order_given.isComplex() ||
      std::any_of(self.begin(), self.end(), [](const Tensor& tensor) {
        return tensor.numel() == 0;
      })) {
    return std::nullopt;
  }
  const auto order = order_given.to<double>();
  const bool largest = order == std::numeric_limits<double>::infinity();
  ForeachArguments given;
  given.look(self);
  const auto run = prepareForeach(name, Foreach::norm, 1, given);
  if (!run || !(order == 1 || order == 2 || largest)) {
    return std::nullopt;
  }
  const auto* const kernel = findForeach(Foreach::norm, run->type, run->device);
  const auto* const last = findForeach(Foreach::norms, run->type, run->device);
  constexpr uint32_t kItems = 256; // as in the source
  if (!last || groupSize(*kernel) != kItems || groupSize(*last) != kItems) {
    return std::nullopt;
  }
  const c10::xpu::XPUGuard guard(run->device);
  const TensorTable table(run->device, given.lists, run->numbers);
  const auto options = self[0].options();
  const auto chunks =
      at::empty({table.chunks()}, options.dtype(computedType(run->type)));
  const auto results = at::empty({int64_t(self.size())}, options);
  const auto kind = uint32_t(largest ? 2 : order - 1);
  table.launch(name, kernel, {chunks.data_ptr(), kind});
  table.launchEach(
      name,
      last,
      {results.data_ptr(), chunks.data_ptr(), kind, table.chunks()});
  return results.unbind(0);
}

/// Later releases give it the type of the result.
template <typename... Type>
std::vector<Tensor> foreachNorm(
    TensorList self,
    const Scalar& order,
    Type... type) {
  const bool same =
      ((!type || (!self.empty() && *type == self[0].scalar_type())) && ...);
  auto results = same ? runNorm(self, order) : std::nullopt;
  return results ? std::move(*results)
                 : callComposed<NormOp>(self, order, type...);
}

/// The operators that are registered, for the tests.
std::vector<std::string>& foreachTable() {
  static auto& lines = *new std::vector<std::string>; // never destroyed
  return lines;
}

template <class Op, Foreach kernel, int inputs>
void addForeach(torch::Library& library) {
  using Call = ForeachCall<Op, kernel, inputs, typename Op::schema>;
  library.impl(nameOf<Op>().c_str(), &Call::call);
  foreachTable().push_back(nameOf<Op>());
}

void registerForeach(torch::Library& library) {
#define XPU_ADD_MANY(op, kernel, inputs) \
  addForeach<at::_ops::op, Foreach::kernel, inputs>(library);
#define XPU_MANY_BOTH(name, kernel, inputs)     \
  XPU_ADD_MANY(_foreach_##name, kernel, inputs) \
  XPU_ADD_MANY(_foreach_##name##_, kernel, inputs)
#define XPU_MANY_OVERLOAD(name, overload, kernel, inputs)    \
  XPU_ADD_MANY(_foreach_##name##_##overload, kernel, inputs) \
  XPU_ADD_MANY(_foreach_##name##__##overload, kernel, inputs)
#define XPU_MANY_NUMBERS(name, kernel, inputs)    \
  XPU_MANY_OVERLOAD(name, Scalar, kernel, inputs) \
  XPU_MANY_OVERLOAD(name, ScalarList, kernel, inputs)
#define XPU_UNARY(name) XPU_MANY_BOTH(name, name, 1)
#define XPU_MANY_ALL(name, kernel)         \
  XPU_MANY_OVERLOAD(name, List, kernel, 2) \
  XPU_MANY_NUMBERS(name, kernel, 2)
#define XPU_BINARY(name) XPU_MANY_ALL(name, name)
#define XPU_TERNARY(name) XPU_MANY_NUMBERS(name, name, 3)
#define XPU_MANY(name)
  XPU_ADD_MANY(_foreach_zero_, zero, 1)
#ifdef XPU_LATER_OPERATORS
  XPU_MANY_ALL(clamp_max, minimum)
  XPU_MANY_ALL(clamp_min, maximum)
  XPU_MANY_ALL(maximum, maximum)
  XPU_MANY_ALL(minimum, minimum)
  XPU_MANY_OVERLOAD(add, Tensor, add, 2)
  XPU_MANY_OVERLOAD(div, Tensor, div, 2)
  XPU_MANY_OVERLOAD(mul, Tensor, mul, 2)
  XPU_MANY_OVERLOAD(lerp, List, lerp_Tensor, 3)
  XPU_MANY_NUMBERS(lerp, lerp_Scalar, 2)
  XPU_MANY_OVERLOAD(pow, List, pow_Tensor, 2)
  XPU_MANY_NUMBERS(pow, pow_Scalar, 1)
  library.impl("_foreach_copy_", &copyLists);
#else
  XPU_MANY_OVERLOAD(maximum, List, maximum, 2)
  XPU_MANY_OVERLOAD(minimum, List, minimum, 2)
#endif
#include <ATen/xpu/kernels/Foreach.def>
#undef XPU_ADD_MANY
#undef XPU_MANY_BOTH
#undef XPU_MANY_OVERLOAD
#undef XPU_MANY_NUMBERS
#undef XPU_MANY_ALL
  NormOp::schema* const norm = &foreachNorm;
  library.impl("_foreach_norm.Scalar", norm);
}

[[maybe_unused]] const bool kForeachAdded = addKernels(&registerForeach);

} // namespace

TORCH_LIBRARY_FRAGMENT(torch_xpu, m) {
  m.def("_foreach_table() -> str[]", [] { return foreachTable(); });
}

} // namespace at::xpu::detail
