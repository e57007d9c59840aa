#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>

namespace at::xpu::detail {

/// An argument as How takes it.
template <typename T>
const T& plainArgument(const T& argument) {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): for one call
  return argument;
}
inline IntArrayRef plainArgument(const c10::SymIntArrayRef& sizes) {
#ifdef C10_AS_INTARRAYREF_SLOW
  return C10_AS_INTARRAYREF_SLOW(sizes);
#else // in PyTorch 1.13
  return c10::asIntArrayRefSlow(sizes);
#endif
}

/// An operator with one result or two, and its variant with out=. How::run
/// takes the results and the arguments. It returns false, and changes nothing,
/// if no kernel fits.
template <
    class Op,
    class OutOp,
    class Meta,
    class How,
    class Schema = typename Op::schema>
struct StructuredOperator;

template <class Op, class OutOp, class Meta, class How, class... Args>
struct StructuredOperator<Op, OutOp, Meta, How, Tensor(Args...)> {
  static Tensor call(Args... args) {
    if (const auto device = kernelDevice(args...)) {
      const c10::xpu::XPUGuard guard(*device);
      WithOutput<Meta> op(WithOutput<Meta>::Kind::New, Tensor());
      op.meta(metaArgument(plainArgument(args))...);
      if (How::run(op.maybe_get_output(0), Tensor(), plainArgument(args)...)) {
        return op.maybe_get_output(0);
      }
    }
    return OnHost<Op>::call(plainArgument(args)...);
  }

  static Tensor& out(Args... args, Tensor& out) {
    const auto device = kernelDevice(args...);
    if (device && out.is_xpu()) {
      const c10::xpu::XPUGuard guard(*device);
      WithOutput<Meta> op(WithOutput<Meta>::Kind::Out, out);
      op.meta(metaArgument(plainArgument(args))...);
      if (How::run(out, Tensor(), plainArgument(args)...)) {
        return out;
      }
    }
    return OnHost<OutOp>::call(plainArgument(args)..., out);
  }
};

template <class Op, class OutOp, class Meta, class How, class... Args>
struct StructuredOperator<
    Op,
    OutOp,
    Meta,
    How,
    std::tuple<Tensor, Tensor>(Args...)> {
  static std::tuple<Tensor, Tensor> call(Args... args) {
    if (const auto device = kernelDevice(args...)) {
      const c10::xpu::XPUGuard guard(*device);
      WithOutput<Meta> op(WithOutput<Meta>::Kind::New, Tensor());
      op.meta(metaArgument(plainArgument(args))...);
      if (How::run(
              op.maybe_get_output(0),
              op.maybe_get_output(1),
              plainArgument(args)...)) {
        return {op.maybe_get_output(0), op.maybe_get_output(1)};
      }
    }
    return OnHost<Op>::call(plainArgument(args)...);
  }

  static std::tuple<Tensor&, Tensor&> out(
      Args... args,
      Tensor& first,
      Tensor& second) {
    const auto device = kernelDevice(args...);
    if (device && first.is_xpu() && second.is_xpu()) {
      const c10::xpu::XPUGuard guard(*device);
      WithOutput<Meta> op(WithOutput<Meta>::Kind::Out, first, second);
      op.meta(metaArgument(plainArgument(args))...);
      if (How::run(first, second, plainArgument(args)...)) {
        return {first, second};
      }
    }
    return OnHost<OutOp>::call(plainArgument(args)..., first, second);
  }
};

template <class Op, class OutOp, class Meta, class How>
void addStructured(torch::Library& library) {
  using Both = StructuredOperator<Op, OutOp, Meta, How>;
  library.impl(nameOf<Op>().c_str(), &Both::call);
  library.impl(nameOf<OutOp>().c_str(), &Both::out);
}

} // namespace at::xpu::detail
