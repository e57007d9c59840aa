#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h> // the meta classes
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/Index.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/Pointwise.h>
#include <ATen/xpu/detail/StructuredCall.h>
#include <c10/util/irange.h>
#include <c10/xpu/XPUGuard.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

// Operators that move or make elements by their place: flip, roll, tril, triu,
// arange, range, linspace, logspace, eye, diag.

namespace at::xpu::detail {

namespace {

/// A copy whose result moves backwards in the dimensions that are flipped.
Tensor flip(const Tensor& self, IntArrayRef dims) {
  const auto device = kernelDevice(self);
  if (!device) {
    return OnHost<at::_ops::flip>::call(self, dims);
  }
  const c10::xpu::XPUGuard guard(*device);
  if (self.scalar_type() == kComplexDouble) { // no kernel moves so many bytes
    DimVector wrapped(dims);
    maybe_wrap_dims(wrapped, self.dim());
    return at::view_as_complex(at::flip(at::view_as_real(self), wrapped));
  }
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  auto result = at::empty_like(self, MemoryFormat::Preserve);
  if (self.numel() == 0) {
    return result;
  }
  // Dimensions that are flipped have strides of 0 in it.
  DimVector strides(self.strides());
  for (const auto d : c10::irange(self.dim())) {
    strides[d] = flipped[d] && self.size(d) > 1 ? 0 : strides[d];
  }
  const auto flips = self.as_strided(self.sizes(), strides);
  auto iter = TensorIteratorConfig()
                  .set_check_mem_overlap(false)
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .add_owned_output(result)
                  .add_owned_input(self)
                  .add_owned_input(flips)
                  .build();
  auto* data = static_cast<char*>(iter.data_ptr(0));
  DimVector moves(iter.strides(0));
  for (const auto d : c10::irange(iter.ndim())) {
    if (iter.strides(2)[d] == 0 && iter.strides(1)[d] != 0) {
      data += moves[d] * (iter.shape()[d] - 1);
      moves[d] = -moves[d];
    }
  }
  iter._unsafe_set_arg_strides(0, moves);
  iter._unsafe_set_arg_data(0, data);
  return runCopy(iter) ? result : OnHost<at::_ops::flip>::call(self, dims);
}

template <bool upper>
struct Triangle {
  template <class Meta>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex device,
      const Tensor& self,
      int64_t diagonal) {
    static const std::string name = upper ? "aten::triu" : "aten::tril";
    if (!areOn(device, self) || self.dim() < 2) {
      return false;
    }
    op.meta(self, diagonal);
    const auto& result = op.maybe_get_output(0);
    const auto from = self.contiguous();
    const auto to = result.is_contiguous()
        ? result
        : at::empty(result.sizes(), result.options());
    if (!runTriangle(name, to, from, diagonal, upper)) {
      return false;
    }
    copyUnlessSame(result, to);
    return true;
  }
};

/// Writes a sequence to a tensor that has this size or none. Returns false if
/// no kernel fits, or if the host has to warn or raise.
bool writeSequence(
    const std::string& op,
    Tensor& out,
    double size,
    const Sequence& numbers) {
  if (!(size >= 0) || size > double(kMostElements) ||
      (out.numel() != int64_t(size) && out.numel() != 0) ||
      !kernelDevice(out) || !hasSequences(out)) {
    return false;
  }
  const c10::xpu::XPUGuard guard(out.device());
  if (out.numel() != int64_t(size)) {
    out.resize_({int64_t(size)});
  }
  const auto to =
      out.is_contiguous() ? out : at::empty_like(out, MemoryFormat::Contiguous);
  runSequence(op, to, numbers);
  copyUnlessSame(out, to);
  return true;
}

/// How many steps there are to the end, or NaN. PyTorch computes with double,
/// or if the type of the result is int64 with that.
double stepsTo(
    const Scalar& start,
    const Scalar& end,
    const Scalar& step,
    ScalarType type) {
  const auto invalid = std::numeric_limits<double>::quiet_NaN();
  if (start.isComplex() || end.isComplex() || step.isComplex()) {
    return invalid;
  }
  const double from = start.toDouble();
  const double to = end.toDouble();
  const double by = step.toDouble();
  if (!std::isfinite(from) || !std::isfinite(to) || !(by > 0 || by < 0) ||
      (by > 0 ? to < from : to > from)) {
    return invalid;
  }
  if (type == kLong) {
    const auto whole = step.toLong();
    return whole == 0 ? invalid
                      : double(end.toLong() - start.toLong()) / double(whole);
  }
  return (to - from) / by;
}

/// arange; or range, whose end is in it and which counts with double.
template <class Op>
Tensor& arangeOut(
    const Scalar& start,
    const Scalar& end,
    const Scalar& step,
    Tensor& out) {
  static const std::string name = Op::name;
  constexpr bool closed = std::is_same_v<Op, at::_ops::range_out>;
  const auto type = closed ? kDouble : out.scalar_type();
  const auto steps = stepsTo(start, end, step, type);
  const auto size = closed ? std::floor(steps) + 1 : std::ceil(steps);
  return writeSequence(name, out, size, {start, step, 0, int64_t(size)})
      ? out
      : OnHost<Op>::call(start, end, step, out);
}

bool writeLinspace(
    const std::string& op,
    const Scalar& start,
    const Scalar& end,
    int64_t steps,
    Tensor& out) {
  if (out.is_complex() && steps >= 0 && kernelDevice(out) &&
      kernelTypeOfParts(out.scalar_type(), out.device().index())) {
    if (out.numel() != steps) {
      out.resize_({steps});
    }
    const auto from = start.toComplexDouble();
    const auto to = end.toComplexDouble();
    auto re = at::real(out);
    auto im = at::imag(out);
    return writeLinspace(op, from.real(), to.real(), steps, re) &&
        writeLinspace(op, from.imag(), to.imag(), steps, im);
  }
  if (!out.is_floating_point() || steps < 0 || start.isComplex() ||
      end.isComplex()) {
    return false;
  }
  const double from = start.toDouble();
  const double to = end.toDouble();
  const double step = steps > 1 ? (to - from) / double(steps - 1) : 0;
  return writeSequence(
      op, out, double(steps), {from, step, to, steps == 1 ? 1 : steps / 2});
}

Tensor& linspaceOut(
    const Scalar& start,
    const Scalar& end,
    int64_t steps,
    Tensor& out) {
  static const std::string name = "aten::linspace";
  return writeLinspace(name, start, end, steps, out)
      ? out
      : OnHost<at::_ops::linspace_out>::call(start, end, steps, out);
}

Tensor& logspaceOut(
    const Scalar& start,
    const Scalar& end,
    int64_t steps,
    double base,
    Tensor& out) {
  static const std::string name = "aten::logspace";
  const auto type = out.scalar_type();
  if ((out.is_floating_point() || out.is_complex()) && out.is_xpu() &&
      (out.numel() == steps || out.numel() == 0)) {
    const bool is_narrow = type == kHalf || type == kBFloat16;
    auto exponents =
        at::empty({0}, out.options().dtype(is_narrow ? kFloat : type));
    if (writeLinspace(name, start, end, steps, exponents)) {
      const c10::xpu::XPUGuard guard(out.device());
      if (out.numel() != steps) {
        out.resize_({steps});
      }
      out.copy_(at::pow(base, exponents).view(out.sizes()));
      return out;
    }
  }
  return OnHost<at::_ops::logspace_out>::call(start, end, steps, base, out);
}

Tensor& eyeOfSizes(int64_t n, int64_t m, Tensor& out) {
  if (kernelDevice(out) && n >= 0 && m >= 0) {
    const c10::xpu::XPUGuard guard(out.device());
    out.resize_({n, m});
    out.zero_();
    out.diagonal().fill_(1);
    return out;
  }
  return OnHost<at::_ops::eye_m_out>::call(n, m, out);
}

Tensor& eyeOut(int64_t n, Tensor& out) {
  return eyeOfSizes(n, n, out);
}

#if __has_include(<ATen/NamedTensorUtils.h>)
// Later releases make it of other operators.
Tensor& diagOut(const Tensor& self, int64_t diagonal, Tensor& out) {
  if (!kernelDevice(self, out) || !areOn(self.device().index(), out) ||
      self.dim() < 1 || self.dim() > 2 ||
      self.scalar_type() != out.scalar_type()) {
    return OnHost<at::_ops::diag_out>::call(self, diagonal, out);
  }
  const c10::xpu::XPUGuard guard(self.device());
  if (self.dim() == 2) {
    const auto from = self.diagonal(diagonal);
    out.resize_(from.sizes());
    return out.copy_(from);
  }
  const auto size = self.numel() + std::abs(diagonal);
  out.resize_({size, size});
  out.zero_();
  out.diagonal(diagonal).copy_(self);
  return out;
}
#endif

/// Zeros without memory, of which autograd makes no more than it needs.
Tensor efficientZeros(
    IntArrayRef size,
    c10::optional<ScalarType> dtype,
    c10::optional<Layout> /*layout*/,
    c10::optional<Device> device,
    c10::optional<bool> /*pin_memory*/) {
  const c10::xpu::OptionalXPUGuard guard(device);
  at::native::ZeroTensorAllocator allocator(
      Device(kXPU, c10::xpu::current_device()));
  return at::detail::empty_generic(
      size,
      &allocator,
      DispatchKeySet(DispatchKey::XPU) |
          DispatchKeySet(DispatchKey::ZeroTensor),
      dtype_or_default(dtype),
      c10::nullopt);
}

void registerSequences(torch::Library& library) {
  library.impl("_efficientzerotensor", &efficientZeros);
#define XPU_ADD_TRIANGLE(name, upper) \
  addStructured<                      \
      at::meta::structured_##name,    \
      Triangle<upper>,                \
      at::_ops::name,                 \
      at::_ops::name##_,              \
      at::_ops::name##_out>(library);
  XPU_ADD_TRIANGLE(tril, false)
  XPU_ADD_TRIANGLE(triu, true)
#undef XPU_ADD_TRIANGLE
  library.impl("flip", &flip);
  addOfOther<at::_ops::roll>(library);
  library.impl("arange.start_out", &arangeOut<at::_ops::arange_start_out>);
  library.impl("range.out", &arangeOut<at::_ops::range_out>);
  library.impl("linspace.out", &linspaceOut);
  library.impl("logspace.out", &logspaceOut);
#if __has_include(<ATen/NamedTensorUtils.h>)
  library.impl("diag.out", &diagOut);
#endif
  library.impl("eye.out", &eyeOut);
  library.impl("eye.m_out", &eyeOfSizes);
}

[[maybe_unused]] const bool kSequencesAdded = addKernels(&registerSequences);

} // namespace

} // namespace at::xpu::detail
