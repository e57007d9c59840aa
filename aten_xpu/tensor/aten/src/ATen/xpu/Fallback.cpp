#include <ATen/xpu/Fallback.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <ATen/xpu/detail/SparseCsr.h>
#include <c10/util/irange.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::xpu {

namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;

enum class Mode { Silent, Warn, Error };

Mode mode() {
  static const Mode mode = [] {
    const char* const value = std::getenv("TORCH_XPU_FALLBACK");
    const std::string name = value ? value : "";
    TORCH_CHECK(
        name.empty() || name == "warn" || name == "error",
        "TORCH_XPU_FALLBACK is '",
        name,
        "': it must be 'warn' or 'error', or not be set");
    return name == "warn" ? Mode::Warn
        : name == "error" ? Mode::Error
                          : Mode::Silent;
  }();
  return mode;
}

/// What is known of an operator once it has fallen back.
struct Operator {
  explicit Operator(const OperatorHandle& handle)
      : name(c10::toString(handle.operator_name())) {
    for (const auto& argument : handle.schema().arguments()) {
      const auto* alias = argument.alias_info();
      written.push_back(alias && alias->isWrite());
      may_be_on_cpu.push_back(argument.name().rfind("cpu_", 0) == 0);
      const auto type = argument.type()->str();
      if (type == "Generator?" || type == "Generator") {
        generator = int(written.size()) - 1;
      } else if (argument.real_type()->str().rfind("ScalarType", 0) == 0) {
        dtype = int(written.size()) - 1;
      }
      writes_list |= written.back() && type == "Tensor[]";
    }
    const auto& plain = handle.schema().name();
    mixes_devices = plain == "aten::index" || plain == "aten::index_put_" ||
        plain == "aten::_index_put_impl_" || plain == "aten::_unsafe_index";
    if (mixes_devices) {
      may_be_on_cpu[1] = true;
    }
    copies = plain == "aten::copy_" || plain == "aten::copy_sparse_to_sparse_";
  }

  const std::string name;
  // By argument.
  std::vector<bool> written;
  std::vector<bool> may_be_on_cpu;
  int generator = -1;
  int dtype = -1; // of the result
  bool mixes_devices = false; // takes indices of the CPU
  bool copies = false; // from one device to another
  bool writes_list = false;
  // See Note [float16]
  std::atomic<bool> lacks_half{false};
  std::atomic<bool> lacks_bfloat16{false};
  std::atomic<bool> takes_half{false}; // of one that writes a list
  std::atomic<bool> takes_bfloat16{false};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> bytes_copied{0};
};

struct Operators {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Operator>> by_name;
};

Operators& operators() {
  static auto* const all = new Operators(); // threads may outlive statics
  return *all;
}

Operator& findOperator(const OperatorHandle& handle) {
  // By the schema, which stays where it is as long as the operator is there.
  thread_local std::unordered_map<const c10::FunctionSchema*, Operator*> known;
  auto& found = known[&handle.schema()];
  if (C10_UNLIKELY(!found)) {
    auto& all = operators();
    std::lock_guard<std::mutex> lock(all.mutex);
    auto& entry = all.by_name[c10::toString(handle.operator_name())];
    if (!entry) {
      entry = std::make_unique<Operator>(handle);
    }
    found = entry.get();
  }
  return *found;
}

template <typename Function>
void forEachTensor(const IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) {
      function(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor) {
        function(*tensor);
      }
    }
  }
}

/// A value with each of its tensors replaced.
template <typename Function>
IValue mapTensors(IValue value, const Function& function) {
  if (value.isTensor()) {
    return function(std::move(value).toTensor());
  }
  if (value.isTensorList()) {
    c10::List<Tensor> mapped;
    for (const Tensor& tensor : value.toTensorVector()) {
      mapped.push_back(function(tensor));
    }
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<c10::optional<Tensor>> mapped;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(
          tensor ? c10::optional<Tensor>(function(*tensor)) : c10::nullopt);
    }
    return mapped;
  }
  return value;
}

/// The one device of the arguments. Raises where there are two, as CUDA does.
DeviceIndex deviceOf(const Operator& op, const Stack& stack, size_t first) {
  c10::optional<Device> device;
  c10::optional<Device> other;
  for (size_t i = first; i < stack.size(); ++i) {
    const bool written = op.written[i - first];
    const bool may_differ = op.may_be_on_cpu[i - first];
    forEachTensor(stack[i], [&](const Tensor& tensor) {
      const bool on_cpu = tensor.defined() && tensor.device().is_cpu();
      if (!tensor.defined() ||
          (on_cpu && (may_differ || (tensor.dim() == 0 && !written)))) {
        return;
      }
      auto& to = tensor.is_xpu() && !device ? device : other;
      if (!device || tensor.device() != *device) {
        to = tensor.device();
      }
    });
  }
  if (other && device && !(op.copies && other->is_cpu())) {
    TORCH_CHECK(
        !op.mixes_devices || stack[first].toTensor().is_xpu(),
        "indices should be either on cpu or on the same device as the indexed "
        "tensor (cpu)");
    TORCH_CHECK(
        false,
        "Expected all tensors to be on the same device, but found at least two "
        "devices, ",
        *device,
        " and ",
        *other,
        "! (when checking the arguments of ",
        op.name,
        ")");
  }
  if (!device) {
    for (size_t i = first; i < stack.size(); ++i) {
      if (stack[i].isDevice() && stack[i].toDevice().is_xpu()) {
        device = stack[i].toDevice();
      }
    }
  }
  return device && device->has_index() ? device->index()
                                       : c10::xpu::current_device();
}

/// The CPU's generator has an algorithm of its own: it gets a seed that depends
/// on the state of the XPU generator alone, whose offset moves on.
IValue hostGenerator(const IValue& given, DeviceIndex device) {
  Generator generator = given.isGenerator()
      ? given.toGenerator()
      : detail::getDefaultXPUGenerator(device);
  if (generator.device().type() != kXPU) {
    return given;
  }
  auto* xpu = generator.get<XPUGeneratorImpl>();
  std::pair<uint64_t, uint64_t> state;
  {
    std::lock_guard<std::mutex> lock(generator.mutex());
    state = xpu->philox_engine_inputs(1);
  }
  uint64_t seed = state.first + 0x9E3779B97F4A7C15 * (state.second + 1);
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9;
  seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EB;
  return at::detail::createCPUGenerator(seed ^ (seed >> 31));
}

void tell(const Operator& op) {
  if (C10_LIKELY(mode() == Mode::Silent)) {
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      mode() != Mode::Error,
      op.name,
      " has no kernel for XPU, and TORCH_XPU_FALLBACK=error forbids the CPU's");
  if (op.calls.load(std::memory_order_relaxed) == 0) {
    TORCH_WARN(op.name, " has no kernel for XPU: the CPU's is used");
  }
}

// Note [float16]
// ~~~~~~~~~~~~~~
// A GPU computes with float16 and bfloat16, and some of the CPU's kernels do
// not: they raise an error before they compute. An operator whose kernel has
// done so gets float32 from then on, and what it returns and writes is rounded.
// One that writes a list, where the first may be written before the second
// fails, is tried on copies first. Where another argument has a wider type, the
// kernel is tried each time: it may compute in that. A dtype that was asked for
// is the result's, and float32 is asked for in place of a narrow one.

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

bool isNarrow(ScalarType type) {
  return widened(type) != type;
}

bool isNarrow(const Tensor& tensor) {
  return tensor.defined() && isNarrow(tensor.scalar_type());
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

/// `run` calls the operator with the arguments on the stack, which are on the
/// CPU. It gets what is known of the operator, and if one of them is narrow,
/// its type.
template <typename Run>
void runOnHost(
    const OperatorHandle& handle,
    Stack* stack,
    bool pinned,
    const Run& run) {
  detail::registerFallbacks();
  auto& op = findOperator(handle);
  tell(op);
  const size_t first = stack->size() - op.written.size();
  const auto device = deviceOf(op, *stack, first);
  HostCall call(device, op.name.c_str(), pinned);
  const bool host_memory = call.onHostMemory();
  if (!host_memory) {
    for (size_t i = first; i < stack->size(); ++i) {
      forEachTensor(
          (*stack)[i], [&](const Tensor& tensor) { call.expect(tensor); });
    }
  }
  c10::optional<ScalarType> narrow;
  for (const auto i : c10::irange(op.written.size())) {
    auto& value = (*stack)[first + i];
    if (int(i) == op.dtype && value.isInt()) {
      const auto asked = value.toScalarType();
      if (isNarrow(asked)) {
        narrow = asked;
      }
    } else if (int(i) == op.generator) {
      value = hostGenerator(value, device);
    } else if (value.isDevice()) {
      if (value.toDevice().is_xpu()) {
        value = Device(kCPU);
      }
    } else {
      value = mapTensors(std::move(value), [&](const Tensor& tensor) {
        if (C10_UNLIKELY(isNarrow(tensor))) {
          narrow = tensor.scalar_type();
        }
        return call.toHost(tensor, op.written[i]);
      });
    }
  }
  std::optional<detail::RecordWork> record;
  if (host_memory) {
    record.emplace(
        detail::RecordWork::By::Host,
        op.name,
        c10::xpu::getCurrentXPUStream(device));
  }
  run(op, narrow);
  record.reset();
  // What is below is the caller's.
  for (size_t i = first; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    value = mapTensors(std::move(value), [&](const Tensor& tensor) {
      return call.toDevice(tensor);
    });
  }
  call.finish();
  op.calls.fetch_add(1, std::memory_order_relaxed);
  if (!host_memory) {
    op.bytes_copied.fetch_add(call.bytesCopied(), std::memory_order_relaxed);
  }
}

/// For tensors that are not dense, where the CPU's kernel depends on which are
/// which.
void dispatchingFallback(const OperatorHandle& handle, Stack* stack) {
  runOnHost(
      handle,
      stack,
      /*pinned=*/false,
      [&](Operator& /*op*/, c10::optional<ScalarType> /*narrow*/) {
        const at::AutoDispatchBelowADInplaceOrView guard;
        handle.callBoxed(stack);
      });
}

/// Calls the CPU's kernel with float32 for what is narrow among the arguments.
void callWidened(
    const Operator& op,
    const OperatorHandle& handle,
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
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
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

void callCpu(
    Operator& op,
    const OperatorHandle& handle,
    c10::optional<ScalarType> narrow,
    Stack* stack) {
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
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

} // namespace

void fallback(const OperatorHandle& handle, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      "Could not run '",
      c10::toString(handle.operator_name()),
      "' with arguments from the 'XPU' backend: it has no kernel for XPU, and "
      "none for the CPU to fall back to");
  runOnHost(
      handle,
      stack,
      /*pinned=*/true,
      [&](Operator& op, c10::optional<ScalarType> narrow) {
        callCpu(op, handle, narrow, stack);
      });
}

std::vector<FallbackCount> fallbackStatistics() {
  auto& all = operators();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<FallbackCount> counts;
  for (const auto& entry : all.by_name) {
    const auto& op = *entry.second;
    if (const uint64_t calls = op.calls.load(std::memory_order_relaxed)) {
      counts.push_back(
          {op.name, calls, op.bytes_copied.load(std::memory_order_relaxed)});
    }
  }
  return counts;
}

void resetFallbackStatistics() {
  auto& all = operators();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& entry : all.by_name) {
    entry.second->calls.store(0, std::memory_order_relaxed);
    entry.second->bytes_copied.store(0, std::memory_order_relaxed);
  }
}

namespace {

/// Has what no kernel of XPU is for fall back; and the operators that have a
/// kernel for the CPU, although they could go through other operators: that is
/// faster and rounds as on the CPU.
void registerFallback(
    c10::DispatchKey cpu,
    c10::DispatchKey xpu,
    torch::CppFunction (*function)()) {
  // These live as long as the process.
  static auto* const libraries = new std::vector<torch::Library>();
  libraries->emplace_back(torch::Library::IMPL, "_", xpu, __FILE__, __LINE__)
      .fallback(function());
  auto& aten = libraries->emplace_back(
      torch::Library::IMPL, "aten", xpu, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(cpu)) {
    const auto op = dispatcher.findOp(name);
    if (op && name.name.rfind("aten::", 0) == 0 &&
        !op->hasKernelForDispatchKey(xpu)) {
      aten.impl(c10::toString(name).c_str(), function());
    }
  }
}

torch::CppFunction denseFunction() {
  return torch::CppFunction::makeFromBoxedFunction<&fallback>();
}

} // namespace

namespace detail {

torch::CppFunction dispatchingFunction() {
  return torch::CppFunction::makeFromBoxedFunction<&dispatchingFallback>();
}

void registerFallbacks() {
  static const bool once = [] {
    using c10::DispatchKey;
    registerFallback(DispatchKey::CPU, DispatchKey::XPU, &denseFunction);
    const auto dispatching = [](DispatchKey cpu, DispatchKey xpu) {
      registerFallback(cpu, xpu, &dispatchingFunction);
    };
    dispatching(DispatchKey::SparseCPU, DispatchKey::SparseXPU);
    dispatching(DispatchKey::SparseCsrCPU, sparseCsrKey());
    dispatching(DispatchKey::QuantizedCPU, DispatchKey::QuantizedXPU);
    dispatching(DispatchKey::NestedTensorCPU, DispatchKey::NestedTensorXPU);
    return true;
  }();
  (void)once;
}

} // namespace detail

TORCH_LIBRARY_IMPL(aten, XPU, m) {
  // These make tensors of an XPU that may have none yet.
  for (const auto* name : {"tril_indices", "triu_indices"}) {
    m.impl(name, denseFunction());
  }
}

TORCH_LIBRARY_IMPL(aten, SparseXPU, m) {
  for (const auto* name :
       {"empty.memory_format",
        "_sparse_coo_tensor_with_dims",
        "_sparse_coo_tensor_with_dims_and_tensors"}) {
    m.impl(name, detail::dispatchingFunction());
  }
}

TORCH_LIBRARY_IMPL(aten, QuantizedXPU, m) {
  for (const auto* name :
       {"empty.memory_format",
        "_empty_affine_quantized",
        "_empty_per_channel_affine_quantized"}) {
    m.impl(name, detail::dispatchingFunction());
  }
}

} // namespace at::xpu
