#pragma once

#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Structured.h>

#include <tuple>
#include <utility>

namespace at::xpu::detail {

/// An operator with one result, of which PyTorch has a meta class.
///
///   How::run(op, device, args...)
///
/// runs the meta class and computes the result on the device. It returns false
/// if it cannot: then the host does.
template <class Op, class Meta, class How, class Schema = typename Op::schema>
struct StructuredCall;

/// A new result.
template <class Op, class Meta, class How, class... Args>
struct StructuredCall<Op, Meta, How, Tensor(Args...)> {
  static Tensor call(Args... args) {
    if (const auto device = kernelDevice(args...)) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::New, Tensor());
      if (How::run(op, *device, args...)) {
        return op.maybe_get_output(0);
      }
    }
    return OnHost<Op>::call(args...);
  }
};

/// In place.
template <class Op, class Meta, class How, class... Args>
struct StructuredCall<Op, Meta, How, Tensor&(Tensor&, Args...)> {
  static Tensor& call(Tensor& self, Args... args) {
    if (const auto device = kernelDevice(self, args...)) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::InPlace, self);
      if (How::run(op, *device, self, args...)) {
        return self;
      }
    }
    return OnHost<Op>::call(self, args...);
  }
};

/// To an output that is given, the last argument.
template <class Op, class Meta, class How, class First, class... Args>
struct StructuredCall<Op, Meta, How, Tensor&(const First&, Args...)> {
  static Tensor& call(const First& first, Args... args) {
    return callWith(
        std::forward_as_tuple(first, args...),
        std::make_index_sequence<sizeof...(Args)>());
  }

 private:
  template <class Tuple, size_t... inputs>
  static Tensor& callWith(
      const Tuple& args,
      std::index_sequence<inputs...> /*all but the last*/) {
    Tensor& out = std::get<sizeof...(inputs)>(args);
    const auto device = kernelDevice(out, std::get<inputs>(args)...);
    if (device && out.is_xpu()) {
      WithOutput<Meta> op(WithOutput<Meta>::Kind::Out, out);
      if (How::run(op, *device, std::get<inputs>(args)...)) {
        return out;
      }
    }
    return OnHost<Op>::call(std::get<inputs>(args)..., out);
  }
};

} // namespace at::xpu::detail
