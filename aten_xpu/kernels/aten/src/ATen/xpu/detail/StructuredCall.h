#pragma once

#include <ATen/native/Resize.h>
#include <ATen/xpu/Fallback.h>
#include <ATen/xpu/detail/KernelOps.h>
#include <ATen/xpu/detail/KernelTypes.h>
#include <ATen/xpu/detail/Structured.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/xpu/XPUGuard.h>

#include <tuple>
#include <type_traits>
#include <utility>

namespace at::xpu::detail {

/// Whether kernels take the tensors, which are of one type and device.
template <typename... Others>
bool haveKernels(const Tensor& self, const Others&... others) {
  return kernelDevice(self) &&
      kernelTypeOfParts(self.scalar_type(), self.device().index()) &&
      (alike(others, self) && ...);
}

template <typename... Others>
bool areFloating(const Tensor& self, const Others&... others) {
  return haveKernels(self, others...) && self.is_floating_point();
}

/// An argument as How and the host take it.
template <typename T>
const T& plainArgument(const T& argument) {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): for one call
  return argument;
}
inline Tensor& plainArgument(Tensor& result) {
  return result;
}
inline int64_t plainArgument(const c10::SymInt& number) {
  return number.expect_int();
}
inline IntArrayRef plainArgument(const c10::SymIntArrayRef& sizes) {
#ifdef C10_AS_INTARRAYREF_SLOW
  return C10_AS_INTARRAYREF_SLOW(sizes);
#else // in PyTorch 1.13
  return c10::asIntArrayRefSlow(sizes);
#endif
}

/// Has How make one output or two, or write them. The variants of an operator
/// have it in common.
template <class Meta, class How, typename... Args>
bool runStructured(
    Outputs::Kind kind,
    DeviceIndex device,
    Tensor& first,
    Tensor& second,
    const Args&... args) {
  const c10::xpu::XPUGuard guard(device);
  WithOutput<Meta> op(kind, std::move(first), std::move(second));
  const bool done = How::run(op, device, args...);
  first = op.maybe_get_output(0);
  second = op.maybe_get_output(1);
  return done;
}

/// An operator with one result or two, of which PyTorch has a meta class: it
/// makes them, is in place, or is given them as its last arguments.
///
///   How::run(op, device, args...)
///
/// runs the meta class with the arguments but given results, and computes on
/// the device, which is current. It returns false if it cannot: then the host
/// does.
template <class Op, class Meta, class How, class Schema = typename Op::schema>
struct StructuredCall;

template <class Op, class Meta, class How, class Result, class... Args>
struct StructuredCall<Op, Meta, How, Result(Args...)> {
  static Result call(Args... args) {
    const std::tuple<decltype(plainArgument(args))...> plain(
        plainArgument(args)...);
    return callWith(
        plain,
        std::make_index_sequence<sizeof...(Args) - kGiven>(),
        std::make_index_sequence<sizeof...(Args)>());
  }

 private:
  using Kind = Outputs::Kind;
  static constexpr bool kTwo =
      std::is_same_v<Result, std::tuple<Tensor&, Tensor&>>;
  static constexpr bool kOut = kTwo || std::is_same_v<Result, Tensor&>;
  static constexpr bool kInPlace = kOut && !kTwo &&
      std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, Tensor&>;
  static constexpr size_t kGiven = !kOut || kInPlace ? 0 : kTwo ? 2 : 1;

  template <class Tuple, size_t... inputs, size_t... all>
  static Result callWith(
      const Tuple& args,
      std::index_sequence<inputs...> /*that are no results*/,
      std::index_sequence<all...> /*arguments*/) {
    if (const auto device = kernelDevice(std::get<all>(args)...)) {
      constexpr size_t at = kInPlace ? 0 : sizeof...(inputs);
      Tensor first;
      Tensor second;
      if constexpr (kOut) {
        first = std::get<at>(args);
      }
      if constexpr (kTwo) {
        second = std::get<at + 1>(args);
      }
      const bool has = (!kOut || first.is_xpu()) && (!kTwo || second.is_xpu());
      if (has &&
          runStructured<Meta, How>(
              kInPlace   ? Kind::InPlace
                  : kOut ? Kind::Out
                         : Kind::New,
              *device,
              first,
              second,
              std::get<inputs>(args)...)) {
        if constexpr (kTwo) {
          return {std::get<at>(args), std::get<at + 1>(args)};
        } else if constexpr (kOut) {
          return std::get<at>(args);
        } else if constexpr (std::is_same_v<Result, Tensor>) {
          return first;
        } else {
          return {std::move(first), std::move(second)};
        }
      }
    }
    return OnHost<Op>::call(std::get<all>(args)...);
  }
};

/// Where the meta class takes the arguments as they are:
///
///   How::run(result, second, args...)
///
/// computes the results, or returns false and changes nothing.
template <class How>
struct WithResults {
  template <class Meta, typename... Args>
  static bool run(
      WithOutput<Meta>& op,
      DeviceIndex /*device*/,
      const Args&... args) {
    op.meta(metaArgument(args)...);
    return How::run(op.maybe_get_output(0), op.maybe_get_output(1), args...);
  }
};

/// An interpolation, whose gradient is given the size of its result as well:
///
///   How::interpolate(result, from, back, args...)
template <class How>
struct Interpolation {
  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& self,
      IntArrayRef /*output_size*/,
      const Args&... args) {
    return How::interpolate(result, self, /*back=*/false, args...);
  }

  template <typename... Args>
  static bool run(
      const Tensor& result,
      const Tensor& /*none*/,
      const Tensor& grad,
      IntArrayRef /*output_size*/,
      IntArrayRef /*input_size*/,
      const Args&... args) {
    return How::interpolate(result, grad, /*back=*/true, args...);
  }
};

/// Adds overloads that have the same meta class.
template <class Meta, class How, class... Ops>
void addStructured(torch::Library& library) {
  (library.impl(nameOf<Ops>().c_str(), &StructuredCall<Ops, Meta, How>::call),
   ...);
}

/// Adds an operator and its variant with out=, for the name of its meta class.
#define XPU_ADD_STRUCTURED(op, op_out, ...) \
  addStructured<                            \
      at::meta::structured_##op,            \
      WithResults<__VA_ARGS__>,             \
      at::_ops::op,                         \
      at::_ops::op_out>(library);

/// Adds its gradient too.
#define XPU_ADD_WITH_GRADIENT(op, ...)          \
  XPU_ADD_STRUCTURED(op, op##_out, __VA_ARGS__) \
  XPU_ADD_STRUCTURED(op##_backward, op##_backward_grad_input, __VA_ARGS__)

/// An argument as How::make takes it: a tensor that is not there is undefined.
template <typename T>
decltype(auto) kernelArgument(T& argument) {
  return plainArgument(argument);
}
inline Tensor kernelArgument(const c10::optional<Tensor>& tensor) {
  return tensorOf(tensor);
}

/// An operator without a meta class. How::make makes the result on the device,
/// which is current, or says whether it has written those that it was given.
/// What is not plain it leaves to the host with its checks.
template <class Op, class How, class Schema = typename Op::schema>
struct Unstructured;

template <class Op, class How, class Result, class... Args>
struct Unstructured<Op, How, Result(Args...)> {
  static Result call(Args... args) {
    auto made = make(args...);
    if (isMade(made)) {
      return resultOf(std::move(made), args...);
    }
    return OnHost<Op>::call(plainArgument(args)...);
  }

  template <class OutOp>
  static Tensor& out(Args... args, Tensor& out) {
    if (out.is_xpu()) {
      const auto result = make(args...);
      if (isMade(result) && alike(result, out)) {
        at::native::resize_output(out, result.sizes());
        return out.copy_(result);
      }
    }
    return OnHost<OutOp>::call(plainArgument(args)..., out);
  }

 private:
  static auto make(Args&... args) {
    using Made = decltype(How::make(kernelArgument(args)...));
    const auto device = kernelDevice(plainArgument(args)...);
    if (!device) {
      return Made();
    }
    const c10::xpu::XPUGuard guard(*device);
    return How::make(kernelArgument(args)...);
  }

  static bool isMade(bool written) {
    return written;
  }
  static bool isMade(const Tensor& result) {
    return result.defined();
  }
  template <class... Tensors>
  static bool isMade(const std::tuple<Tensors...>& results) {
    return std::get<1>(results).defined(); // the first may not be asked for
  }

  template <class Made>
  static Result resultOf(Made made, Args&... args) {
    if constexpr (!std::is_same_v<Made, bool>) {
      return made;
    } else if constexpr (std::is_same_v<Result, Tensor&>) {
      return std::get<0>(std::tuple_cat(written(args)...));
    } else if constexpr (!std::is_void_v<Result>) {
      return std::tuple_cat(written(args)...);
    }
  }
  static std::tuple<Tensor&> written(Tensor& result) {
    return result;
  }
  template <typename T>
  static std::tuple<> written(const T& /*argument*/) {
    return {};
  }
};

/// A function as How.
template <auto function>
struct By {
  template <typename... Args>
  static auto make(Args&&... args) {
    return function(std::forward<Args>(args)...);
  }
};

/// With OutOp, its variant with out=.
template <class Op, class How, class OutOp = void>
void addUnstructured(torch::Library& library) {
  using Operator = Unstructured<Op, How>;
  if constexpr (std::is_void_v<OutOp>) {
    library.impl(nameOf<Op>().c_str(), &Operator::call);
  } else {
    library.impl(nameOf<OutOp>().c_str(), &Operator::template out<OutOp>);
  }
}

template <class Op, auto function>
void addFunction(torch::Library& library) {
  addUnstructured<Op, By<function>>(library);
}

template <class Op, class Schema = typename Op::schema>
struct Composed;

/// What PyTorch's function for the CPU makes of other operators.
template <class Op, class... Args>
struct Composed<Op, Tensor(Args...)> {
  static Tensor call(Args... args) {
    return callComposed<Op>(args...);
  }
};

template <class Op>
void addOfOther(torch::Library& library) {
  library.impl(nameOf<Op>().c_str(), &Composed<Op>::call);
}

} // namespace at::xpu::detail
