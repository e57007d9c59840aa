#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/native/layer_norm.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelSources.h>
#include <ATen/xpu/detail/Reduce.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <algorithm>
#include <array>
#include <tuple>

// Softmax and layer_norm, kernels/Rows.sycl.

namespace at::xpu::detail {

namespace {

const char* rowsSource() {
  return
#include <ATen/xpu/kernels/Rows.sycl>
      ;
}

std::string rowsSourceOf(int type) {
  return typedSource(type) + reduceSource() + rowsSource();
}

const KernelFamily kRowsFamily("rows", &rowsSourceOf, FLOATING);
const NamedKernel kSoftmaxRow(kRowsFamily, "softmax_row");
const NamedKernel kSoftmaxGradRow(kRowsFamily, "softmax_grad_row");
const NamedKernel kLayerNormRow(kRowsFamily, "layer_norm_row");
const NamedKernel kLayerNormGradRow(kRowsFamily, "layer_norm_grad_row");
const NamedKernel kSoftmaxEach(kRowsFamily, "softmax_each");
const NamedKernel kLogSoftmaxEach(kRowsFamily, "log_softmax_each");
const NamedKernel kSoftmaxGradEach(kRowsFamily, "softmax_grad_each");
const NamedKernel kLogSoftmaxGradEach(kRowsFamily, "log_softmax_grad_each");
const ReduceKernels kSoftmaxRows(kRowsFamily, "softmax");
const ReduceKernels kSoftmaxGradRows(kRowsFamily, "softmax_grad");
const ReduceKernels kLogSoftmaxGradRows(kRowsFamily, "log_softmax_grad");
const ReduceKernels kLayerNormColumns(kRowsFamily, "layer_norm_weight");

/// Rows in a tensor without gaps. The elements of one are `inner` apart.
struct Rows {
  const std::string& op; // for the profiler
  KernelType type;
  DeviceIndex device;
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;

  int64_t count() const {
    return outer * inner;
  }
};

/// What is known of each row, in the type that is computed with: two numbers.
Tensor numbersOf(const Rows& rows, const Tensor& like) {
  return at::empty(
      {2, rows.count()}, like.options().dtype(computedType(rows.type)));
}

/// A reduction of rows or columns of `a` and `b`.
void launchRows(
    const Rows& rows,
    const ReduceKernels& kernels,
    std::initializer_list<KernelArgument> inputs,
    void* first,
    void* second,
    const Scalar& p = 0) {
  const bool columns = &kernels == &kLayerNormColumns;
  launchReduce(
      {rows.op,
       kernels,
       rows.type,
       rows.device,
       first,
       second,
       inputs,
       /*state_bytes=*/16,
       sumNumber(rows.size, rows.type),
       sumNumber(p, rows.type),
       columns ? ReduceDims{rows.size, 1}
               : ReduceDims{rows.inner, 1, rows.outer, rows.size * rows.inner},
       columns ? ReduceDims{rows.outer, rows.size}
               : ReduceDims{rows.size, rows.inner}});
}

/// Launches a kernel that makes the elements of `to` one by one.
void launchEach(
    const Rows& rows,
    const NamedKernel& kernel,
    const Tensor& to,
    const void* a,
    const void* b,
    const Tensor& numbers) {
  constexpr int64_t kElements = 4; // as in the source
  kernel.launch(
      rows.op,
      rows.type,
      rows.device,
      (to.numel() + kElements - 1) / kElements,
      {to.data_ptr(),
       a,
       b,
       numbers[0].data_ptr(),
       numbers[1].data_ptr(),
       uint32_t(to.numel()),
       uint32_t(rows.size),
       uint32_t(rows.inner)});
}

/// Launches a kernel of which a group has a row, or for rows of few elements a
/// sub-group: that takes no barriers, and groups of several keep more busy.
void launchRow(
    const Rows& rows,
    const NamedKernel& kernel,
    std::initializer_list<KernelArgument> own) {
  constexpr int64_t kVectorBytes = 16;
  constexpr int64_t kHeldBytes = 64; // of an item, as in the source
  constexpr int64_t kMost = 1024; // items of a group
  constexpr int64_t kRowsOfGroup = 4;
  constexpr uint32_t kAlone = 1;
  constexpr uint32_t kInVectors = 2;
  if (rows.outer == 0) {
    return;
  }
  const auto wanted = itemsWanted(rows.device);
  const auto lanes = lanesOf(rows.device);
  const auto bytes =
      rows.size * int64_t(c10::elementSize(kKernelTypes[rows.type].type));
  const bool alone =
      bytes <= kHeldBytes * lanes && rows.outer * 2 * lanes >= wanted;
  // Items hold their part of a row if they can, and have less of it where rows
  // are too few to keep the device busy.
  const auto groupOf = [&](int64_t of_item) {
    const auto items = (bytes + of_item - 1) / of_item;
    return std::min((items + lanes - 1) / lanes * lanes, kMost);
  };
  const auto group = alone
      ? lanes
      : std::max(
            groupOf(kHeldBytes),
            std::min(
                groupOf(kVectorBytes), wanted / rows.outer / lanes * lanes));
  // Softmax takes rows with edges. They must have more items than edges.
  bool in_vectors = bytes % kVectorBytes == 0 ||
      (bytes > kHeldBytes * lanes &&
       (&kernel == &kSoftmaxRow || &kernel == &kSoftmaxGradRow));
  for (const auto& argument : own) {
    in_vectors &= argument.size != KernelArgument::kPointer ||
        argument.bits % kVectorBytes == 0;
  }
  c10::SmallVector<KernelArgument, 12> arguments(own);
  const uint32_t flags = (alone ? kAlone : 0u) | (in_vectors ? kInVectors : 0u);
  arguments.append({uint32_t(rows.outer), uint32_t(rows.size), flags});
  kernel.launch(
      rows.op,
      rows.type,
      rows.device,
      rows.outer * group,
      arguments,
      alone ? kRowsOfGroup * lanes : group);
}

Rows rowsAlong(
    const std::string& op,
    KernelType type,
    const Tensor& self,
    int64_t dim) {
  Rows rows{op, type, self.device().index()};
  if (self.dim() > 0) {
    dim = maybe_wrap_dim(dim, self.dim());
    for (const auto d : c10::irange(self.dim())) {
      (d < dim        ? rows.outer
           : d == dim ? rows.size
                      : rows.inner) *= self.size(d);
    }
  }
  return rows;
}

// Softmax. A result of another type than the argument's is float of half.

template <bool log>
bool runSoftmax(const Tensor& result, const Tensor& self, int64_t dim) {
  static const std::string name = log ? "aten::_log_softmax" : "aten::_softmax";
  const auto input = self.to(result.scalar_type()).contiguous();
  const auto type = kSoftmaxEach.typeFor(input);
  if (!type) {
    return false;
  }
  if (input.numel() == 0) {
    return true;
  }
  const auto rows = rowsAlong(name, *type, input, dim);
  if (rows.inner > 1 && input.numel() > kMostElements) {
    return runSoftmax<log>(
        result.transpose(dim, -1), input.transpose(dim, -1), -1);
  }
  if (std::max(rows.count(), rows.size) > kMostElements) {
    return false;
  }
  const auto to = writable(result, input.scalar_type());
  const void* const a = input.data_ptr();
  if (rows.inner == 1) {
    launchRow(rows, kSoftmaxRow, {to.data_ptr(), a, uint32_t(log)});
  } else {
    const auto numbers = numbersOf(rows, input);
    launchRows(
        rows,
        kSoftmaxRows,
        {a, nullptr, nullptr, nullptr},
        numbers[0].data_ptr(),
        numbers[1].data_ptr(),
        log ? 1 : 0);
    launchEach(
        rows, log ? kLogSoftmaxEach : kSoftmaxEach, to, a, nullptr, numbers);
  }
  copyUnlessSame(result, to);
  return true;
}

template <bool log>
bool runSoftmaxBackward(
    const Tensor& result,
    const Tensor& grad,
    const Tensor& output,
    int64_t dim) {
  static const std::string name =
      log ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data";
  const auto type = kSoftmaxEach.typeFor(grad);
  if (!type || !alike(output, grad) || output.sizes() != grad.sizes()) {
    return false;
  }
  if (grad.numel() == 0) {
    return true;
  }
  const auto a = grad.contiguous();
  const auto b = output.contiguous();
  const auto rows = rowsAlong(name, *type, a, dim);
  if (rows.inner > 1 && a.numel() > kMostElements) {
    return runSoftmaxBackward<log>(
        result.transpose(dim, -1),
        a.transpose(dim, -1),
        b.transpose(dim, -1),
        -1);
  }
  if (std::max(rows.count(), rows.size) > kMostElements) {
    return false;
  }
  const auto to = writable(result, a.scalar_type());
  if (rows.inner == 1) {
    launchRow(
        rows,
        kSoftmaxGradRow,
        {to.data_ptr(), a.data_ptr(), b.data_ptr(), uint32_t(log)});
  } else {
    const auto numbers = numbersOf(rows, a);
    launchRows(
        rows,
        log ? kLogSoftmaxGradRows : kSoftmaxGradRows,
        {a.data_ptr(), b.data_ptr(), nullptr, nullptr},
        numbers.data_ptr(),
        nullptr);
    launchEach(
        rows,
        log ? kLogSoftmaxGradEach : kSoftmaxGradEach,
        to,
        a.data_ptr(),
        b.data_ptr(),
        numbers);
  }
  copyUnlessSame(result, to);
  return true;
}

// The host can make no float of half.

template <bool log>
struct Softmax {
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      int64_t dim,
      bool half_to_float) {
    if (runSoftmax<log>(result, self, dim)) {
      return true;
    }
    if (half_to_float) {
      const auto given = self.to(kFloat);
      result.copy_(
          log ? at::_log_softmax(given, dim, false)
              : at::_softmax(given, dim, false));
    }
    return half_to_float;
  }

  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& grad,
      const Tensor& output,
      int64_t dim,
      ScalarType type) {
    if (runSoftmaxBackward<log>(result, grad, output, dim)) {
      return true;
    }
    const auto its = grad.scalar_type();
    if (type != its) {
      result.copy_(
          log ? at::_log_softmax_backward_data(grad, output, dim, its)
              : at::_softmax_backward_data(grad, output, dim, its));
    }
    return type != its;
  }
};

// Layer norm. What is known of rows is in float for half, as with CUDA.

using OptionalTensor = c10::optional<Tensor>;

Tensor definedOr(const OptionalTensor& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : Tensor();
}

std::tuple<Tensor, Tensor, Tensor> layerNorm(
    const Tensor& input,
    IntArrayRef shape,
    const OptionalTensor& weight_given,
    const OptionalTensor& bias_given,
    double eps) {
  static const std::string name = "aten::native_layer_norm";
  if (const auto device = kernelDevice(input)) {
    const c10::xpu::XPUGuard guard(*device);
    const auto weight = definedOr(weight_given);
    const auto bias = definedOr(bias_given);
    const auto [count, size] =
        at::native::_check_layer_norm_inputs(input, shape, weight, bias);
    const auto type = kSoftmaxEach.typeFor(input);
    if (type && size > 0 && std::max(count, size) <= kMostElements &&
        alike(weight, input) && alike(bias, input)) {
      const Rows rows{name, *type, *device, count, size};
      const auto x = input.contiguous();
      const auto y = at::empty(input.sizes(), input.options());
      DimVector known(input.sizes());
      std::fill(known.end() - shape.size(), known.end(), 1);
      const auto options = input.options().dtype(computedType(*type));
      const auto mean = at::empty(known, options);
      const auto factor = at::empty(known, options);
      launchRow(
          rows,
          kLayerNormRow,
          {y.data_ptr(),
           mean.data_ptr(),
           factor.data_ptr(),
           x.data_ptr(),
           pointerOf(weight),
           pointerOf(bias),
           sumNumber(eps, *type)});
      return {y, mean, factor};
    }
  }
  return OnHost<at::_ops::native_layer_norm>::call(
      input, shape, weight_given, bias_given, eps);
}

std::tuple<Tensor, Tensor, Tensor> layerNormBackward(
    const Tensor& grad,
    const Tensor& input,
    IntArrayRef shape,
    const Tensor& mean_given,
    const Tensor& factor_given,
    const OptionalTensor& weight_given,
    const OptionalTensor& bias_given,
    std::array<bool, 3> mask) {
  static const std::string name = "aten::native_layer_norm_backward";
  if (const auto device = kernelDevice(grad, input)) {
    const c10::xpu::XPUGuard guard(*device);
    const auto weight = definedOr(weight_given);
    const auto type = kSoftmaxEach.typeFor(input);
    const auto size = c10::multiply_integers(shape);
    if (type && size > 0 &&
        std::max(size, input.numel() / size) <= kMostElements &&
        alike(grad, input) && alike(weight, input) &&
        grad.sizes() == input.sizes() &&
        mean_given.device() == input.device() &&
        factor_given.device() == input.device()) {
      const Rows rows{name, *type, *device, input.numel() / size, size};
      const auto a = grad.contiguous();
      const auto b = input.contiguous();
      const auto known = computedType(*type);
      const auto mean = mean_given.to(known).contiguous();
      const auto factor = factor_given.to(known).contiguous();
      std::array<Tensor, 3> grads;
      for (const auto i : c10::irange(1, 3)) {
        if (mask[i]) {
          grads[i] = rows.outer > 0 ? at::empty(shape, input.options())
                                    : at::zeros(shape, input.options());
        }
      }
      if (rows.outer > 0 && (mask[1] || mask[2])) {
        launchRows(
            rows,
            kLayerNormColumns,
            {a.data_ptr(), b.data_ptr(), mean.data_ptr(), factor.data_ptr()},
            mask[2] ? grads[2].data_ptr() : nullptr,
            mask[1] ? grads[1].data_ptr() : nullptr);
      }
      if (mask[0]) {
        grads[0] = at::empty(input.sizes(), input.options());
        launchRow(
            rows,
            kLayerNormGradRow,
            {grads[0].data_ptr(),
             a.data_ptr(),
             b.data_ptr(),
             pointerOf(weight),
             mean.data_ptr(),
             factor.data_ptr()});
      }
      return {grads[0], grads[1], grads[2]};
    }
  }
  return OnHost<at::_ops::native_layer_norm_backward>::call(
      grad,
      input,
      shape,
      mean_given,
      factor_given,
      weight_given,
      bias_given,
      mask);
}

void registerRows(torch::Library& library) {
  XPU_ADD_STRUCTURED(_softmax, _softmax_out, Softmax<false>)
  XPU_ADD_STRUCTURED(
      _softmax_backward_data, _softmax_backward_data_out, Softmax<false>)
  XPU_ADD_STRUCTURED(_log_softmax, _log_softmax_out, Softmax<true>)
  XPU_ADD_STRUCTURED(
      _log_softmax_backward_data, _log_softmax_backward_data_out, Softmax<true>)
  library.impl("native_layer_norm", &layerNorm);
  library.impl("native_layer_norm_backward", &layerNormBackward);
}

[[maybe_unused]] const bool kRowsAdded = addKernels(&registerRows);

} // namespace

} // namespace at::xpu::detail
