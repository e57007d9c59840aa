#include <ATen/xpu/detail/Widening.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/xpu/detail/Boxed.h>
#include <ATen/xpu/detail/FallbackOperator.h>
#include <c10/util/irange.h>

#include <algorithm>
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

} // namespace

void callCpu(
    const FallbackOperator& op,
    const c10::OperatorHandle& handle,
    c10::optional<ScalarType> narrow,
    Stack* stack) {
  if (C10_LIKELY(!narrow)) {
    return handle.redispatchBoxed(kCpu, stack);
  }
  const size_t first = stack->size() - op.written.size();
  const Stack arguments(stack->begin() + int64_t(first), stack->end());
  const auto has_wider = [&] {
    bool found = false;
    for (const auto& argument : arguments) {
      forEachTensor(argument, [&](const Tensor& tensor) {
        found |= isFloating(tensor) && !isNarrow(tensor) && tensor.dim() > 0;
      });
    }
    return found;
  };
  const auto& lacks = *narrow == kBFloat16 ? op.lacks_bfloat16 : op.lacks_half;
  auto& takes = *narrow == kBFloat16 ? op.takes_bfloat16 : op.takes_half;
  const bool wider =
      (op.writes_list || lacks.load(std::memory_order_relaxed)) && has_wider();
  if (!lacks.load(std::memory_order_relaxed) || wider) {
    try {
      if (op.writes_list && (!takes || wider)) {
        const at::AutoDispatchBelowADInplaceOrView guard;
        Stack copies;
        for (const auto& argument : arguments) {
          copies.push_back(mapTensors(argument, [](const Tensor& tensor) {
            return tensor.defined() ? tensor.clone() : tensor;
          }));
        }
        handle.redispatchBoxed(kCpu, &copies);
        takes = takes || !wider; // wider ones tell nothing of others
      }
      return handle.redispatchBoxed(kCpu, stack);
    } catch (const c10::Error& error) {
      // "..." not implemented for 'Half'; multinomial and embedding_bag have
      // words of their own.
      const auto says = [&](const char* type) {
        return error.msg().find(type) != std::string::npos;
      };
      if (says("BFloat16'") || says("got CPUBFloat16Type")) {
        op.lacks_bfloat16.store(true, std::memory_order_relaxed);
      } else if (says("Half'") || says("not implemented for half")) {
        op.lacks_half.store(true, std::memory_order_relaxed);
      } else {
        throw;
      }
    }
  }
  stack->resize(first);
  callWidened(op, handle, arguments, stack);
}

} // namespace at::xpu::detail
