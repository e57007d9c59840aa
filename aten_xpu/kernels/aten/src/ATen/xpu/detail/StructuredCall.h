#pragma once

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
  using Structured = WithOutput<Meta>;
  using Kind = typename Structured::Kind;
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
      const c10::xpu::XPUGuard guard(*device);
      Structured op(
          kInPlace   ? Kind::InPlace
              : kOut ? Kind::Out
                     : Kind::New,
          std::move(first),
          std::move(second));
      if (has && How::run(op, *device, std::get<inputs>(args)...)) {
        if constexpr (kTwo) {
          return {std::get<at>(args), std::get<at + 1>(args)};
        } else if constexpr (kOut) {
          return std::get<at>(args);
        } else if constexpr (std::is_same_v<Result, Tensor>) {
          return op.maybe_get_output(0);
        } else {
          return {op.maybe_get_output(0), op.maybe_get_output(1)};
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

/// Adds overloads that have the same meta class.
template <class Meta, class How, class... Ops>
void addStructured(torch::Library& library) {
  (library.impl(nameOf<Ops>().c_str(), &StructuredCall<Ops, Meta, How>::call),
   ...);
}

} // namespace at::xpu::detail
