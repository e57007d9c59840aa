#include <ATen/xpu/detail/Widening.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/detail/Boxed.h>
#include <ATen/xpu/detail/FallbackOperator.h>
#include <ATen/xpu/detail/WideningTable.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace at::xpu::detail {

namespace {

using torch::jit::Stack;

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

ScalarType widened(ScalarType type) {
  return type == kHalf || type == kBFloat16 ? kFloat
      : type == kComplexHalf                ? kComplexFloat
                                            : type;
}

/// The type of a result, where the argument that it is like has `like`.
ScalarType narrowed(ScalarType type, ScalarType like) {
  if (like == kBFloat16) {
    return type == kFloat ? kBFloat16 : type;
  }
  if (like == kHalf || like == kComplexHalf) {
    return type == kFloat ? kHalf : type == kComplexFloat ? kComplexHalf : type;
  }
  return type;
}

bool isFloating(const Tensor& tensor) {
  return tensor.defined() &&
      (isFloatingType(tensor.scalar_type()) ||
       isComplexType(tensor.scalar_type()));
}

bool hasWider(const Stack& arguments) {
  bool found = false;
  for (const auto& argument : arguments) {
    forEachTensor(argument, [&](const Tensor& tensor) {
      found |= isFloating(tensor) && !narrowType(tensor.scalar_type()) &&
          tensor.dim() > 0;
    });
  }
  return found;
}

bool hasComplex(at::ArrayRef<c10::IValue> arguments) {
  bool found = false;
  for (const auto& argument : arguments) {
    found |= argument.isComplexDouble();
    forEachTensor(argument, [&](const Tensor& tensor) {
      found |= tensor.defined() && isComplexType(tensor.scalar_type());
    });
  }
  return found;
}

/// How much a tensor counts for the type of a result, as in type promotion.
int rank(const Tensor& tensor) {
  return !isFloating(tensor)                              ? 0
      : tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 1
      : tensor.dim() == 0                                 ? 2
                                                          : 3;
}

/// The types of the floating tensors of the first argument that counts most.
std::vector<ScalarType> mostFloating(const Stack& arguments) {
  std::vector<ScalarType> types;
  int most = 0;
  for (const auto& argument : arguments) {
    int here = 0;
    forEachTensor(argument, [&](const Tensor& tensor) {
      here = std::max(here, rank(tensor));
    });
    if (here > most) {
      most = here;
      types.clear();
      forEachTensor(argument, [&](const Tensor& tensor) {
        if (isFloating(tensor)) {
          types.push_back(tensor.scalar_type());
        }
      });
    }
  }
  return types;
}

/// Calls the CPU's kernel with float32 for what is narrow among the arguments.
void callWidened(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    const Stack& arguments,
    Stack* stack) {
  struct Argument {
    Tensor given;
    Tensor wide;
    bool written;
  };
  const at::AutoDispatchBelowADInplaceOrView guard;
  const size_t first = stack->size();
  std::vector<Argument> tensors;
  // What results are like; one in a list is like the tensor at its place.
  const bool asked = op.dtype >= 0 && arguments[op.dtype].isInt();
  const auto like_types = asked
      ? std::vector<ScalarType>{arguments[op.dtype].toScalarType()}
      : mostFloating(arguments);
  for (const auto i : c10::irange(arguments.size())) {
    if (asked && int(i) == op.dtype) {
      stack->emplace_back(widened(like_types[0]));
      continue;
    }
    stack->push_back(mapTensors(arguments[i], [&](const Tensor& given) {
      tensors.push_back({given, given, op.written[i]});
      auto& wide = tensors.back().wide;
      if (given.defined()) {
        wide = given.to(widened(given.scalar_type()));
      }
      return wide;
    }));
  }
  handle.redispatchBoxed(kCpu, stack);
  for (const auto& tensor : tensors) {
    if (tensor.written && !tensor.wide.is_same(tensor.given)) {
      tensor.given.resize_(tensor.wide.sizes()).copy_(tensor.wide);
    }
  }
  for (size_t i = first; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    size_t place = 0;
    value = mapTensors(std::move(value), [&](const Tensor& result) {
      const auto like = like_types[std::min(place++, like_types.size() - 1)];
      for (const auto& tensor : tensors) {
        if (result.is_same(tensor.wide)) {
          return tensor.given;
        }
      }
      return result.defined() ? result.to(narrowed(result.scalar_type(), like))
                              : result;
    });
  }
}

/// Calls the CPU's kernel with the arguments as they are. False where it raises
/// an error.
bool tryAsTheyAre(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    const Stack& arguments,
    Stack* stack) {
  try {
    if (op.writes_list) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      Stack copies;
      for (const auto& argument : arguments) {
        copies.push_back(mapTensors(argument, [](const Tensor& tensor) {
          return tensor.defined() ? tensor.clone() : tensor;
        }));
      }
      handle.redispatchBoxed(kCpu, &copies);
    }
    handle.redispatchBoxed(kCpu, stack);
    return true;
  } catch (const c10::Error&) {
    return false; // an error that is not about types is raised again
  }
}

} // namespace

NarrowTypes typesThatCpuLacks(const std::string& op) {
  auto name = op.substr(op.find(':') + 2);
  if (name.back() == '_') {
    name.pop_back();
  }
  name = ' ' + name + ' ';
  auto lacks = kNoNarrowType;
  for (const auto& group : kLacking) {
    if (group.ops.find(name) != std::string_view::npos) {
      lacks = lacks | group.types;
    }
  }
  return lacks;
}

void callCpu(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    NarrowTypes narrow,
    Stack* stack) {
  const auto count = op.written.size();
  if ((narrow & kNarrowHalf) && hasComplex(torch::jit::last(*stack, count))) {
    narrow = narrow | kNarrowComplexHalf; // the type of both together
  }
  if (C10_LIKELY(!(narrow & op.lacks))) {
    return handle.redispatchBoxed(kCpu, stack);
  }
  const size_t first = stack->size() - count;
  const Stack arguments(stack->begin() + int64_t(first), stack->end());
  const bool may_take = !op.in_table || hasWider(arguments);
  if (!may_take || !tryAsTheyAre(op, handle, arguments, stack)) {
    stack->resize(first);
    callWidened(op, handle, arguments, stack);
  }
}

} // namespace at::xpu::detail
