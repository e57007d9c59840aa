#include <ATen/xpu/Fallback.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/xpu/HostCall.h>
#include <ATen/xpu/XPUGeneratorImpl.h>
#include <ATen/xpu/detail/Boxed.h>
#include <ATen/xpu/detail/FallbackOperator.h>
#include <ATen/xpu/detail/Operators.h>
#include <ATen/xpu/detail/RecordWork.h>
#include <ATen/xpu/detail/Widening.h>
#include <c10/util/irange.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace at::xpu {

namespace {

using c10::IValue;
using c10::OperatorHandle;
using detail::FallbackOperator;
using detail::forEachTensor;
using detail::mapTensors;
using detail::NarrowTypes;
using torch::jit::Stack;

/// Raises for a generator of another type of device, as CUDA does.
void checkGenerator(const IValue& given, DeviceType expected) {
  if (!given.isGenerator()) {
    return;
  }
  const auto found = given.toGenerator().device().type();
  TORCH_CHECK(
      found == expected,
      "Expected a '",
      expected,
      "' device type for generator but found '",
      found,
      "'");
}

/// The one device of the arguments. Raises where there are two, as CUDA does.
DeviceIndex deviceOf(
    const FallbackOperator& op,
    const Stack& stack,
    size_t first) {
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
  if (op.generator >= 0) {
    // A generator of XPU brings a call here whose tensors are on the CPU.
    checkGenerator(stack[first + op.generator], device ? kXPU : kCPU);
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

/// `run` calls the operator with the arguments on the stack, which are on the
/// CPU. It gets what is known of the operator, and which narrow types they
/// have.
template <typename Run>
void runOnHost(
    const OperatorHandle& handle,
    Stack* stack,
    bool pinned,
    const Run& run) {
  detail::registerFallbacks();
  const auto known = detail::findFallbackOperator(handle);
  const auto& op = *known;
  op.tell();
  const size_t first = stack->size() - op.written.size();
  const auto device = deviceOf(op, *stack, first);
  c10::xpu::warn_or_error_on_sync();
  HostCall call(device, op.name.c_str(), pinned);
  const bool host_memory = call.onHostMemory();
  for (const auto i : c10::irange(op.written.size())) {
    if (op.written[i]) {
      forEachTensor((*stack)[first + i], &HostCall::willWrite);
    }
  }
  if (!host_memory) {
    for (size_t i = first; i < stack->size(); ++i) {
      forEachTensor(
          (*stack)[i], [&](const Tensor& tensor) { call.expect(tensor); });
    }
  }
  auto narrow = detail::kNoNarrowType;
  for (const auto i : c10::irange(op.written.size())) {
    auto& value = (*stack)[first + i];
    if (int(i) == op.dtype && value.isInt()) {
      narrow = narrow | detail::narrowType(value.toScalarType());
    } else if (int(i) == op.generator) {
      value = hostGenerator(value, device);
    } else if (value.isDevice()) {
      if (value.toDevice().is_xpu()) {
        value = Device(kCPU);
      }
    } else {
      value = mapTensors(std::move(value), [&](const Tensor& tensor) {
        if (tensor.defined()) {
          narrow = narrow | detail::narrowType(tensor.scalar_type());
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
  // The caller may have values below the results on the stack.
  for (size_t i = first; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    value = mapTensors(std::move(value), [&](const Tensor& tensor) {
      return call.toDevice(tensor);
    });
  }
  call.finish();
  op.counter.calls.fetch_add(1, std::memory_order_relaxed);
  if (!host_memory) {
    op.counter.bytes_copied.fetch_add(
        call.bytesCopied(), std::memory_order_relaxed);
  }
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
      [&](const FallbackOperator& op, NarrowTypes narrow) {
        detail::callCpu(op, handle, narrow, stack);
      });
}

void dispatchingFallback(const OperatorHandle& handle, Stack* stack) {
  runOnHost(
      handle,
      stack,
      /*pinned=*/false,
      [&](const FallbackOperator& /*op*/, NarrowTypes /*narrow*/) {
        const at::AutoDispatchBelowADInplaceOrView guard;
        handle.callBoxed(stack);
      });
}

} // namespace at::xpu
